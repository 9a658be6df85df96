"""Spark Connect: a server of the lake's own, started, stopped and killed.

Not here: what silver and marts do on it (`make test-connect` runs their tests on one: a process has Spark inside or
outside and never both).
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from lake_assets.commands.dev import warm_spark
from lake_assets.config_file import load_lake
from lake_assets.preflight import PreflightError, free_port
from lake_assets.spark.connect_server import ConnectServer, port_in_use
from lake_assets.spark.session import SparkSessions
from lake_assets_tests.lakes import DMS, ITEMS
from lake_assets_tests.test_cli import ROOT, write_items

# With the longest test of all: it begins first.
pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the lake of `test_cli.py`, which has a server at a port of its own."""
    config = {
        "catalog": {"uri": "catalog.db", "warehouse": "warehouse"},
        "spark": {
            "mode": "${LAKE_SPARK_MODE:-connect}",
            "remote": f"${{SPARK_REMOTE:-sc://localhost:{free_port()}}}",
            "conf": {"spark.driver.memory": "1g"},
        },
        "sources": {"shop": {"location": "bronze", "dms": DMS, "tables": {"public.items": ITEMS}}},
        "gold": {"start_date": "2026-03-01"},
    }
    (tmp_path / "lake.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (tmp_path / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    (tmp_path / "bronze").mkdir()
    return tmp_path


def command(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command line in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LAKE_", "SPARK_", "DAGSTER_"))}
    return subprocess.run(
        [sys.executable, "-m", "lake_assets.cli", "--config", str(folder / "lake.yaml"), *arguments],
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.long
@pytest.mark.spark
def test_a_server_is_started_used_found_and_stopped(folder: Path) -> None:
    assert "No Spark Connect server runs here" in command(folder, "spark", "status").stdout
    began = time.monotonic()
    without = command(folder, "sync")
    assert without.returncode == 2
    assert "`lake-assets spark start`" in without.stderr
    assert time.monotonic() - began < 60, "as Spark's client ships, it asks again for minutes"
    write_items(folder)
    try:
        started = command(folder, "spark", "start")
        assert "has started" in started.stdout, started.stderr
        again = command(folder, "spark", "start")
        assert "runs already" in again.stdout
        found = json.loads(command(folder, "spark", "status", "--json").stdout)
        assert found["running"]
        assert str(found["pid"]) in started.stdout
        assert str(found["pid"]) in again.stdout
        # Nobody outside this machine reaches it, and nobody inside reads the settings off its command line.
        (address,) = {c.laddr.ip for c in psutil.Process(found["pid"]).net_connections() if c.status == "LISTEN"
                      and found["address"].endswith(f":{c.laddr.port}")}  # fmt: skip
        assert address.removeprefix("::ffff:") == "127.0.0.1"
        assert "catalog" not in " ".join(psutil.Process(found["pid"]).cmdline())

        assert command(folder, "sync").returncode == 0
        (state,) = json.loads(command(folder, "status", "--json").stdout)
        assert (state["table"], state["rows"]) == ("silver_shop.items", 2)
    finally:
        stopped = command(folder, "spark", "stop")
    assert "has stopped" in stopped.stdout
    assert not psutil.pid_exists(found["pid"])
    assert "No Spark Connect server runs here" in command(folder, "spark", "stop").stdout


@pytest.mark.long
@pytest.mark.spark
def test_a_process_that_has_done_its_work_ends_without_a_word(folder: Path) -> None:
    try:
        command(folder, "spark", "start")
        for arguments in ([], ["stop"]):
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "lake_assets_tests.spark.quiet_exit",
                    folder / "lake.yaml",
                    *arguments,
                ],
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )
            assert (done.stdout, done.stderr, done.returncode) == ("5\n", "", 0)
    finally:
        command(folder, "spark", "stop")


def test_nobody_waits_for_a_server_that_is_not_there(folder: Path) -> None:
    lake = load_lake(folder / "lake.yaml", environ={})
    with pytest.raises(PreflightError, match="No Spark Connect server answers at localhost:"):
        SparkSessions(lake).root()


def test_dev_chooses_a_server_where_the_environment_may_choose(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LAKE_SPARK_MODE", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    path = folder / "lake.yaml"
    server, chosen = warm_spark(path)
    assert isinstance(server, ConnectServer)
    assert chosen == {}, "lake.yaml has chosen"
    path.write_text(path.read_text().replace(":-connect", ":-embedded"))
    server, chosen = warm_spark(path)
    assert server is not None
    assert chosen == {"LAKE_SPARK_MODE": "connect", "SPARK_REMOTE": f"sc://localhost:{server.port}"}
    path.write_text(path.read_text().replace("${LAKE_SPARK_MODE:-embedded}", "embedded"))
    assert warm_spark(path) == (None, {})
    path.write_text(
        path.read_text().replace("mode: embedded", "mode: connect").replace("localhost", "spark.example")
    )
    assert warm_spark(path) == (None, {})


@pytest.mark.parametrize("content", ["", "no number", "1 15002", "999999999 15002"])
def test_a_stale_file_is_no_server(folder: Path, content: str) -> None:
    (folder / "spark-connect.pid").write_text(content)
    assert port_in_use(folder) is None


@pytest.mark.long
@pytest.mark.spark
def test_a_server_that_dies_amid_batches(tmp_path: Path) -> None:
    """Seven times, at random; the process goes on with the server that comes after it."""
    done = subprocess.run(
        [sys.executable, "-m", "lake_assets_tests.spark.dying_server", str(tmp_path), "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    print(done.stdout[-3000:])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "7 deaths of the server" in done.stdout


@pytest.mark.long
@pytest.mark.spark
def test_a_server_that_hangs_is_given_up(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lake_assets_tests.spark.hung_server", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    print(done.stdout[-3000:])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

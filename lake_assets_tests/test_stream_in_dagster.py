"""`make dev STREAM=1` as a user starts it: a broker, Dagster's daemon, a run that lands and a run that applies.

Not here: the landings, case by case (`rounds/test_landings.py`).
"""

import json
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.iceberg.table_io import load_table
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.orchestration.dagster_dev import processes_of
from lake_assets_tests.helpers.processes.child import ROOT, environment

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]
DEADLINE = 420.0


def waited(condition: Callable[[], bool], process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < end, log.read_text()[-3000:]
        time.sleep(1)


def test_a_live_stream_in_dagster(tmp_path: Path) -> None:
    shutil.copy(ROOT / "lake.yaml", tmp_path)
    port, log = free_port(), tmp_path / "dev.log"
    arguments = ["demo", "stream", "--ui", "--port", str(port), "--changes", "1000", "--days", "0.5"]
    command = [sys.executable, "-m", "lake_assets.cli", *arguments]
    given = environment() | {"LAKE_HOME": str(tmp_path / "home")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=given, stdout=output, stderr=output, start_new_session=True
        )

    def runs() -> set[tuple[str, str]]:
        question = "{runsOrError(limit: 20){... on Runs{results{jobName status}}}}"
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/graphql",
            json.dumps({"query": question}).encode(),
            {"content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                found = json.load(answer)["data"]["runsOrError"]["results"]
        except OSError:
            return set()  # not up yet
        return {(run["jobName"], run["status"]) for run in found}

    def rows() -> int:
        lake = load_lake(next(tmp_path.rglob("stream/lake.yaml")))
        table = load_table(open_catalog(lake.catalog), "silver_bikeshare.station_status_changes")
        return 0 if table is None else table.scan().count()

    try:
        up = {("bikeshare_landing", "STARTED"), ("bikeshare_continuous", "STARTED")}
        waited(lambda: up <= runs(), process, log)
        before = rows()
        waited(lambda: rows() > before, process, log)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    end = time.monotonic() + 60
    while left := processes_of(next(tmp_path.rglob("stream")), [process.pid]):
        assert time.monotonic() < end, left
        time.sleep(0.5)

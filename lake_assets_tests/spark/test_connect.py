"""Spark Connect: a server of the lake's own, started, stopped and killed.

Not here: what silver and marts do on it (`make test-connect` runs their tests on one: a process has Spark inside or
outside and never both).
"""

import contextlib
import json
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import grpc
import psutil
import pyspark
import pyspark.sql.connect.proto as pb2
import pyspark.sql.connect.proto.base_pb2_grpc as pb2_grpc
import pytest
from pyspark.sql.connect.client.core import ChannelBuilder, DefaultChannelBuilder

from lake_assets.commands.run import dev
from lake_assets.commands.run.dev import supervised
from lake_assets.commands.run.warm_spark import on_running_server, warm_spark
from lake_assets.config.config_file import load_lake
from lake_assets.spark.connect import connect_server
from lake_assets.spark.connect.connect_address import connect_address, given_token
from lake_assets.spark.connect.connect_server import ConnectServer, port_in_use
from lake_assets.spark.connect.connect_token import drop_token, keep_token, token_at
from lake_assets.spark.preflight import PreflightError, free_port
from lake_assets.spark.session import SparkSessions
from lake_assets_tests.helpers.lakes.command_lake import command_lake, write_items
from lake_assets_tests.helpers.processes.child import environment, output_of, run_python

# With the longest test of all: it begins first.
pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A lake that has a server at a port of its own."""
    spark = {
        "mode": "${LAKE_SPARK_MODE:-connect}",
        "remote": f"${{SPARK_REMOTE:-sc://localhost:{free_port()}}}",
        "conf": {"spark.driver.memory": "1g"},
    }
    return command_lake(tmp_path, ["public.items"], spark=spark)


def command(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command line in a process of its own."""
    return run_python("-m", "lake_assets.cli", "--config", folder / "lake.yaml", *arguments, timeout=240)


@pytest.mark.long
@pytest.mark.spark
def test_a_server_is_started_used_found_and_stopped(folder: Path) -> None:
    assert "No Spark Connect server runs here" in command(folder, "spark", "status").stdout
    assert command(folder, "sync").returncode == 0, "nothing to apply, so no Spark is asked"
    write_items(folder)
    began = time.monotonic()
    without = command(folder, "sync")
    assert without.returncode == 2
    assert "`lake-assets spark start`" in without.stderr
    assert time.monotonic() - began < 60, "as Spark's client ships, it asks again for minutes"
    try:
        started = command(folder, "spark", "start")
        assert "has started" in started.stdout, started.stderr
        again = command(folder, "spark", "start")
        assert "is already running" in again.stdout
        found = json.loads(command(folder, "spark", "status", "--json").stdout)
        assert found["running"]
        assert str(found["pid"]) in started.stdout
        assert str(found["pid"]) in again.stdout
        # Nobody outside this machine reaches it, and nobody inside reads the settings off its command line.
        listening = [c for c in psutil.Process(found["pid"]).net_connections() if c.status == "LISTEN"]
        assert any(found["address"].endswith(f":{c.laddr.port}") for c in listening)
        (address,) = {c.laddr.ip.removeprefix("::ffff:") for c in listening}
        assert address == "127.0.0.1"
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
            program = "lake_assets_tests.helpers.processes.quiet_exit"
            done = run_python("-m", program, folder / "lake.yaml", *arguments, timeout=240)
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


def test_a_command_uses_the_server_that_runs_for_its_lake(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LAKE_SPARK_MODE", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    path = folder / "lake.yaml"
    path.write_text(path.read_text().replace(":-connect", ":-embedded"))
    assert on_running_server(path).spark.mode == "embedded", "there is none"
    port = free_port()
    code = (
        "import socket, time; one = socket.socket(); time.sleep(%s); "
        f"one.bind(('127.0.0.1', {port})); one.listen(); print(flush=True); time.sleep(60)"
    )
    # What stands for a server: a process with its name that listens.
    with subprocess.Popen(
        [sys.executable, "-c", code % 1, connect_server.MAIN_CLASS], stdout=subprocess.PIPE
    ) as process:
        try:
            (folder / "spark-connect.pid").write_text(f"{process.pid} {port}")
            assert on_running_server(path).spark.mode == "embedded", "it is coming up"
            assert process.stdout is not None
            process.stdout.readline()
            found = on_running_server(path).spark
            assert (found.mode, found.remote) == ("connect", f"sc://localhost:{port}")
            with monkeypatch.context() as chosen:
                chosen.setenv("LAKE_SPARK_MODE", "embedded")
                assert on_running_server(path).spark.mode == "embedded", "the user has chosen"
            path.write_text(path.read_text().replace("${LAKE_SPARK_MODE:-embedded}", "embedded"))
            assert on_running_server(path).spark.mode == "embedded", "lake.yaml has chosen"
        finally:
            process.kill()


@pytest.mark.parametrize("content", ["", "no number", "1 15002", "999999999 15002"])
def test_a_stale_file_is_no_server(folder: Path, content: str) -> None:
    (folder / "spark-connect.pid").write_text(content)
    assert port_in_use(folder) is None


def eventually(condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def hold(port: int, seconds: float) -> None:
    """Takes a port as soon as it is free, as a process that is dying still has it."""
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

    def bound() -> bool:
        with contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", port))
            return True
        return False

    eventually(bound)
    taken.listen()
    threading.Timer(seconds, taken.close).start()


def runs_again(server: ConnectServer, said: str) -> bool:
    found = server.running()
    return found is not None and f"was restarted (process {found.pid})" in said


def version(found: ChannelBuilder) -> str:
    """What the server says of itself; without a session of PySpark's, of which a process has one kind only."""
    request = pb2.AnalyzePlanRequest(
        session_id=str(uuid4()),
        user_context=pb2.UserContext(user_id="test"),
        spark_version=pb2.AnalyzePlanRequest.SparkVersion(),
    )
    with found.toChannel() as opened:
        answer = pb2_grpc.SparkConnectServiceStub(opened).AnalyzePlan(request)
    return str(answer.spark_version.version)


def test_a_token_of_ones_own_is_the_servers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    assert given_token("sc://localhost:15002") is None
    assert given_token("sc://localhost:15002/;use_ssl=true;token=a%3Db") == "a=b"
    keep_token(15002, "kept")
    assert connect_address("sc://localhost:15002").builder().token == "kept"
    assert connect_address("sc://127.0.0.1").builder().token == "kept"
    assert connect_address("sc://127.0.0.1").builder().endpoint == "localhost:15002"
    assert connect_address("sc://localhost:15002/;token=given").builder().token == "given"
    assert connect_address("sc://spark.example:15002").builder().token is None, (
        "another machine has nothing to do with it"
    )
    drop_token(15002)
    drop_token(15002)
    assert connect_address("sc://localhost:15002").builder().token is None


@pytest.mark.spark
def test_a_server_that_is_killed_comes_back_on_its_port_and_serves_its_owner_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The port stays taken for longer than the start waits for it. A process of its owner logs no error when it ends,
    and nor does the server."""
    monkeypatch.delenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setattr(connect_server, "PORT_SECONDS", 1.0)
    monkeypatch.setattr(dev, "RESTART_SECONDS", 0.5)
    server = ConnectServer(load_lake(folder / "lake.yaml", environ={}), folder)
    with supervised(server), caplog.at_level(logging.WARNING):
        token, running = token_at(server.port), server.running()
        assert running is not None
        os.kill(running.pid, signal.SIGKILL)
        hold(server.port, 2)
        eventually(lambda: runs_again(server, caplog.text))
        assert f"Port {server.port} on 127.0.0.1 is in use" in caplog.text
        assert token_at(server.port) not in (None, token), "a server that is started has a token of its own"
        serves_its_owner_only(server, folder)
    assert server.running() is None
    assert token_at(server.port) is None
    assert "SESSION_CLOSED" not in server.log.read_text()


def serves_its_owner_only(server: ConnectServer, folder: Path) -> None:
    lake, running, token = (
        load_lake(folder / "lake.yaml", environ={}),
        server.running(),
        token_at(server.port),
    )
    assert running is not None
    assert token
    assert version(connect_address(lake.spark.remote).builder()) == pyspark.__version__
    assert version(connect_address(f"sc://127.0.0.1:{server.port}").builder()) == pyspark.__version__
    (file,) = (path for path in (folder / "state").rglob("*") if path.is_file())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    # Nobody reads it where others may look.
    assert token not in Path(f"/proc/{running.pid}/cmdline").read_text()
    assert all(token not in path.read_text() for path in folder.glob("spark-connect.*"))

    program = "lake_assets_tests.helpers.processes.ending_process"
    done = run_python("-m", program, folder / "lake.yaml", timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "failed as it should\n"
    assert "ERROR" not in done.stderr, done.stderr

    # What another user of the machine has: no token, or some other one.
    write_items(folder)
    for builder in (
        DefaultChannelBuilder(lake.spark.remote),
        DefaultChannelBuilder(lake.spark.remote + "/;token=guessed"),
    ):
        with pytest.raises(grpc.RpcError, match="UNAUTHENTICATED"):
            version(builder)
    assert version(DefaultChannelBuilder(f"{lake.spark.remote}/;token={token}")) == pyspark.__version__
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(folder / "others"))
        refused = command(folder, "sync", "--no-gold")
    assert refused.returncode == 1
    assert "refuses this user's token" in refused.stderr
    assert token not in refused.stderr + refused.stdout


@pytest.mark.long
@pytest.mark.spark
def test_a_server_that_dies_amid_batches(tmp_path: Path) -> None:
    """Seven times, at random; the process goes on with the server that comes after it."""
    done = run_python(
        "-m", "lake_assets_tests.helpers.processes.dying.dying_server", tmp_path, "1", timeout=900
    )
    assert "7 deaths of the server" in output_of(done)


@pytest.mark.long
@pytest.mark.spark
def test_a_server_that_hangs_is_given_up(tmp_path: Path) -> None:
    output_of(run_python("-m", "lake_assets_tests.helpers.processes.hung_server", tmp_path, timeout=500))


OWN_ASSETS = (
    "test_resources.py::test_an_own_asset_gets_the_lakes_own",
    "io_managers/test_table_values.py::test_a_result_without_columns",
    "io_managers/test_run_partitions.py::test_a_run_replaces_and_loads_the_rows_of_its_partitions[months]",
)


@pytest.mark.long
@pytest.mark.spark
def test_own_assets_on_a_server() -> None:
    """Some of the tests that `make test-connect` runs. In every test run, silver and marts are on a server in
    `orchestration/test_continuous_daemon.py`."""
    tests = [f"lake_assets_tests/orchestration/{test}" for test in OWN_ASSETS]
    on_a_server = environment(LAKE_TEST_SPARK="connect")
    done = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, timeout=300, env=on_a_server)
    assert f"{len(OWN_ASSETS)} passed" in output_of(done)


@pytest.mark.spark
def test_a_session_that_the_server_has_closed_meanwhile_is_not_used_again(tmp_path: Path) -> None:
    program = "lake_assets_tests.helpers.servers.forgetful_server"
    output_of(run_python("-m", program, tmp_path, timeout=300))

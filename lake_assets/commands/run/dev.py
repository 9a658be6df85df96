"""`lake-assets dev`: runs Dagster's UI and daemon on this lake, optionally with the demonstration's live feed.

Here: starting and stopping the processes. Python does it, because `dagster dev &` in a script or Makefile ignores the
signals that should stop it.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType

from lake_assets.commands.run.reload import reloading
from lake_assets.commands.run.warm_spark import warm_spark
from lake_assets.commands.setup.dagster_files import place
from lake_assets.config.config_file import load_lake
from lake_assets.errors import LakeError
from lake_assets.orchestration.launcher.fork_server import RUN_LOG_LEVEL
from lake_assets.spark.connect.connect_server import ConnectServer
from lake_assets.spark.preflight import PreflightError, check_java, check_port

GRACE_SECONDS = 15
POLL_SECONDS = 0.2
"""Seconds between two checks whether the server is alive."""
RESTART_SECONDS = 5.0
"""Seconds before the next attempt if the server could not be started."""

SUPERSEDED = "ignore:Function `dev_command` is superseded"
"""A filter of Python's warnings: Dagster tells its developers, not the user of `lake-assets dev`, to use another
command."""

logger = logging.getLogger(__name__)


def dev(
    config: Path,
    *,
    port: int,
    feed: Sequence[str] | None,
    started: Callable[[], None],
    verbose: bool = False,
) -> int:
    """Runs until it is interrupted or Dagster ends; returns the exit code. `feed`: arguments of `demo feed`; None runs
    no feed. `verbose`: whether Dagster prints what its daemon and the runs do. `started` is called once the processes
    run. If lake.yaml leaves the mode to LAKE_SPARK_MODE or says `connect`, a Spark Connect server of this machine is
    used. If none is running, `dev` first starts one, and stops it at the end.

    Writes workspace.yaml and dagster.yaml beside lake.yaml if they are missing. Raises PreflightError if the machine
    lacks Java or the port is taken.
    """
    folder = config.absolute().parent
    check_port(port, "the Dagster UI")
    server, chosen = warm_spark(config)
    if server is not None or not load_lake(config).spark.is_remote:
        check_java()
    place(folder)
    own = server if server is not None and server.running() is None else None
    with supervised(own) if own is not None else nullcontext():
        quiet = {} if verbose else {RUN_LOG_LEVEL: "WARNING"}
        return _run(config, port, _dagster(port, verbose=verbose), feed, quiet | chosen, started)


def _dagster(port: int, *, verbose: bool) -> list[str]:
    """The command of the UI and the daemon. At Dagster's usual level, the daemon prints every tick of every sensor."""
    program = str(Path(sys.executable).parent / "dagster")
    level = "info" if verbose else "warning"
    return [program, "dev", "-w", "workspace.yaml", "-p", str(port), "--log-level", level]


def _warnings() -> str:
    return ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), SUPERSEDED)))


def _run(
    config: Path,
    port: int,
    dagster: list[str],
    feed: Sequence[str] | None,
    chosen: dict[str, str],
    started: Callable[[], None],
) -> int:
    folder = config.absolute().parent
    # Without DAGSTER_HOME, `dagster dev` makes a home folder, and leaves it behind when it is killed. The lake's folder
    # serves as the home: it has the dagster.yaml.
    environment = (
        {"DAGSTER_HOME": str(folder)}
        | os.environ
        | {"LAKE_CONFIG": str(config.absolute()), "PYTHONWARNINGS": _warnings()}
        | chosen
    )
    commands = [dagster]
    if feed is not None:
        commands.append([sys.executable, "-m", "lake_assets.cli", "--config", str(config.absolute()), *feed])
    # Separate sessions: Ctrl-C reaches only this process, which then stops the children in order.
    children = [
        subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True) for command in commands
    ]
    started()
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        with reloading(config, port):
            while not interrupted and children[0].poll() is None:
                time.sleep(0.2)
        return 0 if interrupted else children[0].returncode
    finally:
        stop(children)


@contextmanager
def supervised(server: ConnectServer) -> Iterator[None]:
    """Starts the server, restarts it whenever it has died, and stops it at the end of the block. Raises what the first
    `ConnectServer.start` raises; a later start that fails is logged and retried."""
    ended = threading.Event()
    # A thread, so that the end of the block does not wait for a server that is starting.
    watch = threading.Thread(target=_watch, args=(server, ended), name="spark-connect", daemon=True)
    try:
        server.start()
        watch.start()
        yield
    finally:
        ended.set()
        server.stop()
        if watch.ident is not None:
            watch.join()
        server.stop()  # a server that was just being started


def _watch(server: ConnectServer, ended: threading.Event) -> None:
    while not ended.wait(POLL_SECONDS):
        if server.running() is not None:
            continue
        try:
            again = server.start()
        except (LakeError, PreflightError, OSError) as error:
            if not ended.is_set():
                logger.warning(
                    "Spark Connect has died and could not be restarted: %s Another attempt follows.", error
                )
                ended.wait(RESTART_SECONDS)
        else:
            logger.warning("Spark Connect had died and was restarted (process %d).", again.pid)


def stop(children: Sequence["subprocess.Popen[bytes]"]) -> None:
    """Interrupts each child and waits for it, then kills the remaining processes of its group.

    Killing a run of the lake at any moment is harmless: it has published its batch or nothing.
    """
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
    end = time.monotonic() + GRACE_SECONDS
    for child in children:
        try:
            child.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.terminate()
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue

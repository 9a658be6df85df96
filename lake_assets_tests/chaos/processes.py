"""The processes of a lake that may be killed: Dagster's daemon with what it starts, and the Spark Connect server.

Here: starting them, killing them as a machine or an operator would, and starting them again. Not here: when
(`disturbances.py`).
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from lake_assets.config import LakeConfig
from lake_assets.errors import LakeError
from lake_assets.orchestration.launcher.run_process import SERVER
from lake_assets.spark.connect.connect_server import ConnectServer
from lake_assets.spark.preflight import PreflightError
from lake_assets_tests.helpers.constants.child_constants import quick_environment
from lake_assets_tests.helpers.orchestration.dagster_dev import processes_of

BRIEF: dict[str, dict[str, Any]] = {
    "lake_assets.orchestration.shared.heartbeat": {"BEAT_SECONDS": 1.0, "SILENT_SECONDS": 12.0},
    "lake_assets.orchestration.runs.continuous_job": {"REPORT_SECONDS": 5.0},
    "lake_assets.orchestration.runs.kept_alive": {"HAND_OVER_SECONDS": 90.0},
    "lake_assets.rounds.backoff": {"FIRST_WAIT": 1.0, "LONGEST_WAIT": 8.0},
}
"""Waits short enough for ten minutes."""


class Daemon:
    """`dagster-daemon run` in a folder, with its code server and the processes of its runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, unless it lives."""
        if self._process is not None and self._process.poll() is None:
            return
        own = quick_environment(BRIEF, DAGSTER_HOME=str(self._folder))
        command = [str(Path(sys.executable).parent / "dagster-daemon"), "run", "-w", "workspace.yaml"]
        with (self._folder / "daemon.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, env=own, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        """Kills the daemon alone; its runs continue as long as they can."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(20)

    def kill_all(self) -> None:
        """Kills all processes, as if the machine were switched off."""
        for process in self._all():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.kill()

    def runs(self) -> list[psutil.Process]:
        """The processes of runs."""
        found = {process.pid: process for process in self._all() if SERVER in process.cmdline()}
        # A run outlives the process that it was forked from.
        return [process for process in found.values() if process.ppid() in found or process.ppid() == 1]

    def _all(self) -> list[psutil.Process]:
        others = (process for process in processes_of(self._folder) if process.pid != os.getpid())
        return [process for process in others if "java" not in _name(process)]


def _name(process: psutil.Process) -> str:
    """Empty for a process that has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.name()
    return ""


class WatchedServer:
    """A Spark Connect server that is restarted whenever it has died."""

    def __init__(self, lake: LakeConfig, folder: Path) -> None:
        self._server = ConnectServer(lake, folder)
        self._server.start()
        self._over = threading.Event()
        self._rest_until = 0.0
        self._watch = threading.Thread(target=self._keep_up, daemon=True)
        self._watch.start()

    def kill(self, seconds: float) -> None:
        """Kills it, and restarts it after this time."""
        self._rest_until = time.monotonic() + seconds
        self._with_process(psutil.Process.kill)

    def hang(self) -> None:
        """Stops it by SIGSTOP: its clients wait."""
        self._with_process(psutil.Process.suspend)

    def wake(self) -> None:
        """Continues it."""
        self._with_process(psutil.Process.resume)

    def _with_process(self, do: Callable[[psutil.Process], object]) -> None:
        if (found := self._server.running()) is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                do(psutil.Process(found.pid))

    def stop(self) -> None:
        """For good."""
        self._over.set()
        self._watch.join(200)
        self._server.stop()

    def _keep_up(self) -> None:
        while not self._over.wait(0.2):
            if time.monotonic() >= self._rest_until:
                with contextlib.suppress(LakeError, PreflightError, AssertionError):
                    self._server.start()  # killed as it comes up, it is started once more

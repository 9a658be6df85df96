"""A run launcher whose runs begin warm: each is forked from a process that has imported the code location.

For `dagster.yaml`, on the machine where the daemon runs; it takes 2 to 3 s off the way from a file to silver. What it
cannot launch (a code location that is no module) it leaves to Dagster's own launcher, which it is otherwise like. Here:
launching and terminating. Not here: the process that forks (`fork_server.py`).
"""

import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO

import psutil
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.launcher.base import LaunchRunContext
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher
from dagster._grpc.types import ExecuteRunArgs

from lake_assets.launcher.run_process import SERVER, is_known, process_of, process_tag

ANSWER_SECONDS = 120.0
"""The first answer takes as long as the import of the code location."""

logger = logging.getLogger(__name__)


class WarmRunLauncher(DefaultRunLauncher):
    """`run_launcher: {module: lake_assets.launcher.warm_launcher, class: WarmRunLauncher}`."""

    _guard = threading.Lock()
    _servers: dict[tuple[str, str | None], "ForkServer"] = {}  # noqa: RUF012  (of the process, as its children are)

    def launch_run(self, context: LaunchRunContext) -> None:
        """Forks the run's process. Raises what Dagster's launcher raises, where it comes to that."""
        run, origin = context.dagster_run, context.job_code_origin
        pointer = origin.repository_origin.code_pointer if origin is not None else None
        if origin is None or not isinstance(pointer, ModuleCodePointer):
            super().launch_run(context)
            return
        given = ExecuteRunArgs(job_origin=origin, run_id=run.run_id, instance_ref=self._instance.get_ref())
        arguments = list(given.get_command_args())
        try:
            process = self._server(pointer).fork(arguments[arguments.index("api") :])
        except (OSError, ValueError, psutil.Error) as error:
            logger.warning("run %s begins cold: %s", run.run_id, error)
            super().launch_run(context)
            return
        self._instance.add_run_tags(run.run_id, process_tag(run.run_id, process))
        self._instance.report_engine_event(f"Forked process {process.pid}.", run, cls=self.__class__)

    def terminate(self, run_id: str) -> bool:
        """Interrupts the run's process, from any process on its machine."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished or not is_known(run):
            return bool(super().terminate(run_id))  # type: ignore[no-untyped-call]
        process = process_of(run)
        if process is None:
            return False
        self._instance.report_run_canceling(run)
        process.send_signal(signal.SIGINT)
        return True

    def _server(self, pointer: ModuleCodePointer) -> "ForkServer":
        with self._guard:
            key = pointer.module, pointer.working_directory
            return self._servers.setdefault(key, ForkServer(*key))


class ForkServer:
    """A fork server of this process, started when it is needed and again when it is stale. Used by several threads."""

    def __init__(self, module: str, folder: str | None) -> None:
        self._command = [sys.executable, "-m", SERVER, module]
        self._command += [folder] if folder is not None else []
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, arguments: Sequence[str]) -> psutil.Process:
        """A new process that runs Dagster's command line with these arguments. Raises OSError or ValueError when
        there is none."""
        with self._lock:
            for _ in range(2):
                answer = self._ask(arguments)
                if "pid" in answer:
                    return psutil.Process(answer["pid"])
                self.stop()
        raise ValueError("the fork server says twice that it is stale, or cannot import the code location")

    def stop(self) -> None:
        """Ends the server; what it has forked goes on."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _ask(self, arguments: Sequence[str]) -> dict[str, int]:
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ
            )
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None
        assert told is not None
        try:
            asked.write(json.dumps(list(arguments)).encode() + b"\n")
            asked.flush()
            return _answer(told)
        except (OSError, ValueError):
            self.stop()
            raise


def _answer(pipe: IO[bytes]) -> dict[str, int]:
    ready, _, _ = select.select([pipe], [], [], ANSWER_SECONDS)
    if not ready:
        raise OSError(f"the fork server is silent for {ANSWER_SECONDS:.0f} s")
    answer: dict[str, int] = json.loads(pipe.readline() or b"{}")
    return answer

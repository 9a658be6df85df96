"""A run launcher whose runs begin warm: each is forked from a process that has imported the code location.

For `dagster.yaml`, on the machine where the daemon runs; it takes 2 to 3 s off the way from a file to silver. What it
cannot launch (a code location that is no module) it leaves to Dagster's own launcher, which it is otherwise like. Here:
launching and terminating. Not here: the process that forks (`fork_server.py`).
"""

import contextlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO, Any

from dagster import DagsterRun
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext, WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher
from dagster._core.origin import JobPythonOrigin
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin
from dagster._grpc.types import ExecuteRunArgs

from lake_assets.orchestration.launcher.run_process import SERVER, is_known, process_of, process_tag

ANSWER_SECONDS = 120.0
"""The first answer takes as long as the import of the code location."""

GONE = "The run's process is gone."

logger = logging.getLogger(__name__)


class WarmRunLauncher(DefaultRunLauncher):
    """`run_launcher: {module: lake_assets.orchestration.launcher.warm_launcher, class: WarmRunLauncher}`."""

    _guard = threading.Lock()
    _servers: dict[tuple[str, str | None], "ForkServer"] = {}  # noqa: RUF012  (of the process, as its children are)

    def launch_run(self, context: LaunchRunContext) -> None:
        """Forks the run's process. Raises what Dagster's launcher raises, where it comes to that."""
        run, origin = context.dagster_run, context.job_code_origin
        pointer = origin.repository_origin.code_pointer if origin is not None else None
        if origin is None or not isinstance(pointer, ModuleCodePointer) or not _is_like_this(run, origin):
            super().launch_run(context)
            return
        given = ExecuteRunArgs(job_origin=origin, run_id=run.run_id, instance_ref=self._instance.get_ref())
        arguments = list(given.get_command_args())
        server = self._server(pointer)
        try:
            pid = server.fork(arguments[arguments.index("api") :])
        except (OSError, ValueError) as error:
            logger.warning("run %s begins cold: %s", run.run_id, error)
            super().launch_run(context)
            return
        # Before it begins: two processes that change a run's tags at once lose one of them.
        self._instance.add_run_tags(run.run_id, process_tag(run.run_id, pid))
        server.go(pid)
        self._instance.report_engine_event(f"Forked process {pid}.", run, cls=self.__class__)

    @property
    def supports_check_run_worker_health(self) -> bool:
        """For Dagster's run monitoring, which finds dead runs of jobs that no sensor of the lake asks for."""
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Whether the run's process lives; of one that was not forked, or on another machine, that nothing is known."""
        if not is_known(run):
            return CheckRunHealthResult(WorkerStatus.UNKNOWN)
        alive = process_of(run) is not None
        return CheckRunHealthResult(
            WorkerStatus.RUNNING if alive else WorkerStatus.FAILED, "" if alive else GONE
        )

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


def _is_like_this(run: DagsterRun, origin: JobPythonOrigin) -> bool:
    """Whether the run's code location has this process's interpreter, machine and environment: not a code server that
    somebody has started, which listens at a port."""
    found = run.remote_job_origin.repository_origin.code_location_origin if run.remote_job_origin else None
    started_apart = isinstance(found, GrpcServerCodeLocationOrigin) and found.socket is None
    return not started_apart and origin.repository_origin.executable_path in (None, sys.executable)


class ForkServer:
    """A fork server of this process, started when it is needed and again when it is stale. Used by several threads."""

    def __init__(self, module: str, folder: str | None) -> None:
        self._command = [sys.executable, "-m", SERVER, module]
        self._command += [folder] if folder is not None else []
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, arguments: Sequence[str]) -> int:
        """The id of a new process that runs Dagster's command line with these arguments. Raises OSError or
        ValueError when there is none."""
        with self._lock:
            for _ in range(2):
                answer = self._ask(arguments)
                if "pid" in answer:
                    return answer["pid"]
                self.stop()
        raise ValueError("the fork server says twice that it is stale, or cannot import the code location")

    def go(self, pid: int) -> None:
        """Lets a forked process begin; without this it waits for some seconds."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            if self._process is not None and self._process.stdin is not None:
                _write(self._process.stdin, {"go": pid})

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
            _write(asked, {"run": list(arguments)})
            return _answer(told)
        except (OSError, ValueError):
            self.stop()
            raise


def _write(pipe: IO[bytes], request: dict[str, Any]) -> None:
    pipe.write(json.dumps(request).encode() + b"\n")
    pipe.flush()


def _answer(pipe: IO[bytes]) -> dict[str, int]:
    ready, _, _ = select.select([pipe], [], [], ANSWER_SECONDS)
    if not ready:
        raise OSError(f"the fork server is silent for {ANSWER_SECONDS:.0f} s")
    answer: dict[str, int] = json.loads(pipe.readline() or b"{}")
    return answer

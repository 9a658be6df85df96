"""A run launcher that forks each run from a process that has already imported the code location.

For `dagster.yaml`, on the machine where the daemon runs; it shortens the time from a file to silver by 2 to 3 s. Runs
that it cannot fork (of a code location that is not a module, or with another Dagster) start with Dagster's default
launcher, its base class.
Here: launching and terminating. Not here: the process that forks (`fork_server.py`).
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

from dagster import DagsterRun, DefaultRunLauncher

from lake_assets.orchestration.dagster_private import Forkable, forkable, health
from lake_assets.orchestration.launcher.run_process import SERVER, is_known, process_of, process_tag

ANSWER_SECONDS = 120.0
"""The fork server gives its first answer only after it has imported the code location."""

GONE = "The run's process is gone."

logger = logging.getLogger(__name__)


class WarmRunLauncher(DefaultRunLauncher):
    """`run_launcher: {module: lake_assets.orchestration.launcher.warm_launcher, class: WarmRunLauncher}`."""

    _guard = threading.Lock()
    _servers: dict[tuple[str, str | None], "ForkServer"] = {}  # noqa: RUF012  (one set for the process)

    def launch_run(self, context: Any) -> None:
        """Forks the run's process. If that is not possible, starts it with Dagster's launcher, and raises what that
        raises."""
        run, found = context.dagster_run, forkable(self._instance, context)
        if found is None:
            super().launch_run(context)
            return
        server = self._server(found)
        try:
            pid = server.fork(found.arguments)
        except (OSError, ValueError) as error:
            logger.warning("run %s starts without a warm process: %s", run.run_id, error)
            super().launch_run(context)
            return
        # Before the run begins: if two processes change its tags at once, one change is lost.
        self._instance.add_run_tags(run.run_id, process_tag(run.run_id, pid))
        server.go(pid)
        self._instance.report_engine_event(f"Forked process {pid}.", run, cls=self.__class__)

    @property
    def supports_check_run_worker_health(self) -> bool:
        """For Dagster's run monitoring, which detects dead runs that no sensor of the lake has requested."""
        return health(None, GONE) is not None

    def check_run_worker_health(self, run: DagsterRun) -> Any:
        """Whether the run's process lives; unknown if it was not forked, or runs on another machine."""
        return health(process_of(run) is not None if is_known(run) else None, GONE)

    def terminate(self, run_id: str) -> bool:
        """Interrupts the run's process; works from any process on its machine."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished or not is_known(run):
            return bool(super().terminate(run_id))  # type: ignore[no-untyped-call]
        process = process_of(run)
        if process is None:
            return False
        self._instance.report_run_canceling(run)
        process.send_signal(signal.SIGINT)
        return True

    def _server(self, run: Forkable) -> "ForkServer":
        with self._guard:
            key = run.module, run.folder
            return self._servers.setdefault(key, ForkServer(*key))


class ForkServer:
    """A fork server of this process, started on demand and restarted when it is stale. Thread-safe."""

    def __init__(self, module: str, folder: str | None) -> None:
        self._command = [sys.executable, "-m", SERVER, module]
        self._command += [folder] if folder is not None else []
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, arguments: Sequence[str]) -> int:
        """Returns the id of a new process that runs Dagster's command line with these arguments. Raises OSError or
        ValueError if the server forks none."""
        with self._lock:
            for _ in range(2):
                answer = self._ask(arguments)
                if "pid" in answer:
                    return answer["pid"]
                self.stop()
        raise ValueError("the fork server is stale twice in a row, or cannot import the code location")

    def go(self, pid: int) -> None:
        """Lets a forked process start its run at once; otherwise it waits for some seconds."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            if self._process is not None and self._process.stdin is not None:
                _write(self._process.stdin, {"go": pid})

    def stop(self) -> None:
        """Ends the server; the processes that it has forked continue."""
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
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        try:
            _write(requests, {"run": list(arguments)})
            return _answer(answers)
        except (OSError, ValueError):
            self.stop()
            raise


def _write(pipe: IO[bytes], request: dict[str, Any]) -> None:
    pipe.write(json.dumps(request).encode() + b"\n")
    pipe.flush()


def _answer(pipe: IO[bytes]) -> dict[str, int]:
    ready, _, _ = select.select([pipe], [], [], ANSWER_SECONDS)
    if not ready:
        raise OSError(f"the fork server has not answered for {ANSWER_SECONDS:.0f} s")
    answer: dict[str, int] = json.loads(pipe.readline() or b"{}")
    return answer

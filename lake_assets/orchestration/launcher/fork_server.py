"""A process that has imported a code location, and forks itself for each of its runs.

A run's process imports Dagster, PySpark, PyIceberg and the lake for 2.5 core-seconds before its first step; a process
that is forked from one with these imports starts at once. Here: `python -m
lake_assets.orchestration.launcher.fork_server MODULE [FOLDER]`, which reads one JSON request a line: `run`, with the
arguments of Dagster's command line, and then `go` with the process's id. It answers `run` with that id. If a file that
it has imported has changed since, it answers `stale` and ends. It opens no catalog and no connection before the fork.
Not here: the client (`warm_launcher.py`).
"""

import contextlib
import importlib
import json
import logging
import os
import runpy
import select
import signal
import sys
import sysconfig
import time
from pathlib import Path

from lake_assets.config.config_file import lake_path

EXTRA_MODULES = ("boto3", "pyiceberg.catalog.sql", "pyspark.sql.connect.session")
"""Modules that a run imports after the code location; the last one exists only with the extra `connect`."""

REGISTRATION_SECONDS = 30.0
"""Seconds that a forked process waits for its launcher to register it."""

RUN_LOG_LEVEL = "LAKE_RUN_LOG_LEVEL"
"""The variable with the level from which runs print their events; by default, as in Dagster, they print all."""

REGISTERED = b"k"
"""Written to a forked process once the launcher has its id."""

logger = logging.getLogger(__name__)


class WatchedFiles:
    """The files of the code location: `lake.yaml`, and every imported module that is not an installed package."""

    def __init__(self, began: int) -> None:
        """`began`: a time before the files were read, in nanoseconds since the epoch."""
        self._seen = self._now()
        self._changed_while_loading = any(at is not None and at >= began for at in self._seen.values())

    def changed(self) -> bool:
        """Whether a file has changed since it was read."""
        return self._changed_while_loading or self._now() != self._seen

    @staticmethod
    def _now() -> dict[str, int | None]:
        installed = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
        own = Path(__file__).parent.parent.as_posix()
        files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        found = {file for file in files if file and (file.startswith(own) or not file.startswith(installed))}
        return {file: _modified(file) for file in found | {str(lake_path())}}


def _modified(file: str) -> int | None:
    try:
        return Path(file).stat().st_mtime_ns
    except OSError:
        return None


def serve(module: str) -> list[str] | None:
    """Answers requests. Returns a run's arguments in each forked process, and None in the server when it ends."""
    # Standard output carries the answers only; what any module prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    began = time.time_ns()
    loaded = _imported(module)
    watched = WatchedFiles(began)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the runs
    # A terminal's Ctrl-C is for the runs; this process ends when its launcher closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    waiting: dict[int, int] = {}
    # Not `for line in sys.stdin`: a forked process would inherit what was read ahead.
    while line := _line():
        request = json.loads(line)
        if "go" in request:
            # None: an earlier server forked the process, and the process started when that server ended.
            if (end := waiting.pop(request["go"], None)) is not None:
                os.close(end)
            continue
        if not loaded or watched.changed():
            print(json.dumps({"stale": True}), file=answers, flush=True)
            return None
        go, gone = os.pipe()
        pid = os.fork()
        if pid == 0:
            answers.close()
            for end in (gone, *waiting.values()):
                os.close(end)
            _restore_signals_and_stdin()
            _wait(go)
            arguments: list[str] = request["run"]
            return arguments
        os.close(go)
        waiting[pid] = gone
        try:
            print(json.dumps({"pid": pid}), file=answers, flush=True)
        except BrokenPipeError:
            break  # the launcher was killed while it waited; the run continues
        finally:
            with contextlib.suppress(OSError):  # the run was killed at once
                os.write(gone, REGISTERED)
    return None


def _wait(go: int) -> None:
    """In a forked process, waits until the launcher has registered it. Ends the process if the server died before it
    could answer: the launcher has started another."""
    if not os.read(go, 1):
        os._exit(1)
    select.select([go], [], [], REGISTRATION_SECONDS)
    os.close(go)


def _imported(module: str) -> bool:
    try:
        importlib.import_module(module)
        for name in EXTRA_MODULES:
            # A run that needs a missing module reports it itself.
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    except Exception:
        # The run reports the error; here it only means that there is no warm process.
        logger.warning("%s could not be imported", module, exc_info=True)
        return False
    return True


def _line() -> bytes:
    found = bytearray()
    while not found.endswith(b"\n") and (byte := os.read(0, 1)):
        found += byte
    return bytes(found)


def _restore_signals_and_stdin() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def main() -> None:
    """The command line."""
    module, *folders = sys.argv[1:]
    sys.path[:0] = folders
    arguments = serve(module)
    if arguments is not None:
        if level := os.environ.get(RUN_LOG_LEVEL):
            # Here, because `lake-assets dev` imports this module for the name, and no Dagster.
            from lake_assets.orchestration.dagster_private import print_from

            print_from(level)
        sys.argv = ["dagster", *arguments]
        runpy.run_module("dagster", run_name="__main__")


if __name__ == "__main__":
    main()

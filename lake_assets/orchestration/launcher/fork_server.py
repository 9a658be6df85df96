"""A process that has imported a code location, and forks itself for each of its runs.

A run's process imports Dagster, PySpark, PyIceberg and the lake for 2.5 core-seconds before its first step; forked from
one that has done so, it begins at once. Here: `python -m lake_assets.orchestration.launcher.fork_server MODULE
[FOLDER]`, which reads a request a line, in JSON: `run`, with the arguments of Dagster's command line, and then `go`
with the process's id. It answers the first with that id, or that it is stale, and ends: a file that it has read was
changed since. Nothing is opened before the fork, no catalog and no connection: what is opened, the run opens. Not here:
who asks (`warm_launcher.py`).
"""

import contextlib
import importlib
import json
import logging
import os
import select
import signal
import sys
import sysconfig
import time
from pathlib import Path

from lake_assets.config.config_file import lake_path

ALSO = ("boto3", "pyiceberg.catalog.sql", "pyspark.sql.connect.session")
"""What a run imports after the code location; the last one where the extra `connect` is installed."""

PATIENCE = 30.0
"""Seconds that a run waits until its launcher has noted its process."""

KNOWN = b"k"
"""What a forked process reads once its id has been told."""

logger = logging.getLogger(__name__)


class Watched:
    """The files that the code location was made of: `lake.yaml`, and every module that was not installed."""

    def __init__(self, began: int) -> None:
        """`began`: the time before they were read, nanoseconds since the epoch."""
        self._seen = self._now()
        self._too_late = any(at is not None and at >= began for at in self._seen.values())

    def changed(self) -> bool:
        """Since they were read."""
        return self._too_late or self._now() != self._seen

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
    """Answers requests; returns in each forked process the arguments that it is to run, and None at the end."""
    # What anything prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    began = time.time_ns()
    loaded = _imported(module)
    watched = Watched(began)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the runs
    # A terminal's Ctrl-C is for the runs; without its launcher this process ends by itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    waiting: dict[int, int] = {}
    # Not `for line in sys.stdin`: a forked process would own what was read ahead.
    while line := _line():
        request = json.loads(line)
        if "go" in request:
            # None: of another server's process, which has ended since and let it begin.
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
            _like_any_process()
            _wait(go)
            arguments: list[str] = request["run"]
            return arguments
        os.close(go)
        waiting[pid] = gone
        try:
            print(json.dumps({"pid": pid}), file=answers, flush=True)
        except BrokenPipeError:
            break  # the launcher was killed while it waited; the run goes on
        finally:
            with contextlib.suppress(OSError):  # it was killed at once
                os.write(gone, KNOWN)
    return None


def _wait(go: int) -> None:
    """Of a forked process: until its launcher has noted it. Ends it when the server died before it could tell: the
    launcher has started another."""
    if not os.read(go, 1):
        os._exit(1)
    select.select([go], [], [], PATIENCE)
    os.close(go)


def _imported(module: str) -> bool:
    try:
        importlib.import_module(module)
        for name in ALSO:
            # A run that needs what is not there says so itself.
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    except Exception:
        # A run says what is wrong; here it only means that nothing is warm.
        logger.warning("%s could not be imported", module, exc_info=True)
        return False
    return True


def _line() -> bytes:
    found = bytearray()
    while not found.endswith(b"\n") and (byte := os.read(0, 1)):
        found += byte
    return bytes(found)


def _like_any_process() -> None:
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
        from dagster._cli import main as dagster

        sys.argv = ["dagster", *arguments]
        dagster()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()

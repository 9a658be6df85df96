"""Processes that each run one history after the other in their own Spark.

Here: assigning seeds, deadlines, processes that hang or die. Not here: a history (`run.py`), printing (`__main__.py`).
"""

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from lake_assets_tests.helpers.servers.cheap_spark import remember_classes
from lake_assets_tests.soak.run import Outcome

DEADLINE = 300.0
"""Seconds that a history may take, the start of a Spark included."""
RENEWED = 400
"""Histories after which a process is succeeded by a new one: what a JVM loads for a lake it keeps."""


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    done: int = 0
    seed: int | None = None
    since: float = field(default_factory=time.monotonic)


def run_all(
    seeds: Iterator[int],
    run: Callable[[int], Outcome],
    processes: int,
    is_over: Callable[[], bool],
) -> Iterator[Outcome]:
    """Yields the outcomes as they are ready; starts no new history after the deadline. `run`: runs a history in one of
    the processes."""
    context = multiprocessing.get_context("spawn")
    workers = [_start(context, run) for _ in range(processes)]
    try:
        for worker in workers:
            _give(worker, seeds, is_over)
        while busy := [worker for worker in workers if worker.seed is not None]:
            ready = wait([worker.pipe for worker in busy], timeout=1)
            for worker in busy:
                if worker.pipe in ready:
                    yield _received(worker)
                elif time.monotonic() - worker.since > DEADLINE:
                    yield _lost(worker, f"no end after {DEADLINE:.0f} seconds")
                else:
                    continue
                if worker.done >= RENEWED or not worker.process.is_alive():
                    _stop(worker)
                    workers[workers.index(worker)] = worker = _start(context, run)
                _give(worker, seeds, is_over)
    finally:
        for worker in workers:
            _stop(worker)


def _start(context: multiprocessing.context.SpawnContext, run: Callable[[int], Outcome]) -> _Worker:
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, run), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _serve(pipe: Connection, run: Callable[[int], Outcome]) -> None:
    # Messages of Spark and Iceberg about dying processes are expected.
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    remember_classes()
    with contextlib.suppress(EOFError):  # the parent process has ended
        while (seed := pipe.recv()) is not None:
            pipe.send(run(seed))


def _give(worker: _Worker, seeds: Iterator[int], is_over: Callable[[], bool]) -> None:
    worker.seed = None if is_over() else next(seeds, None)
    worker.since = time.monotonic()
    if worker.seed is not None:
        worker.pipe.send(worker.seed)


def _received(worker: _Worker) -> Outcome:
    worker.done += 1
    try:
        outcome: Outcome = worker.pipe.recv()
        return outcome
    except EOFError:
        return _lost(worker, "its process died")


def _lost(worker: _Worker, why: str) -> Outcome:
    assert worker.seed is not None
    worker.process.kill()
    worker.process.join()
    return Outcome(worker.seed, "?", failure=why)


def _stop(worker: _Worker) -> None:
    with contextlib.suppress(OSError):
        worker.pipe.send(None)
    worker.process.join(20)
    if worker.process.is_alive():
        worker.process.kill()

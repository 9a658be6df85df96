"""Bringing silver tables up to the file log: tables in parallel, the batches of each in sequence.

Here: the threads, and isolating the failure of one table. Not here: planning from the table's current state
(`turn.py`), what a batch does (`apply_batch.py`), Dagster (`orchestration/assets/silver_assets.py`).
"""

import logging
import threading
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from typing import Protocol

from lake_assets.config.secrets import hidden_error, hidden_in
from lake_assets.errors import LakeError
from lake_assets.iceberg.table_io import load_table
from lake_assets.logs import log_fields
from lake_assets.runtime import LakeRuntime, most_large_batches
from lake_assets.silver.apply.cut_tags import SourceCut
from lake_assets.silver.apply.failures import note_turn
from lake_assets.silver.apply.turn import Progress, Turn
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.plan.cut import NO_CUT, Cut
from lake_assets.silver.table.position import read_position
from lake_assets.silver.table.targets import Target
from lake_assets.spark.causes import full_traceback, root_cause
from lake_assets.spark.preflight import PreflightError

logger = logging.getLogger(__name__)


class Apply(Protocol):
    """Brings tables up to the file log, as `apply_tables` does."""

    def __call__(
        self, runtime: LakeRuntime, targets: Sequence[Target], *, as_of: datetime | None = None
    ) -> Iterator[TableResult]: ...


def apply_tables(
    runtime: LakeRuntime,
    targets: Sequence[Target],
    *,
    progress: Progress = lambda target, stage: None,
    as_of: datetime | None = None,
) -> Iterator[TableResult]:
    """Brings every target up to the file log and yields each result as it completes, in no particular order.

    A table's error is in its result; the other tables continue. `as_of`: when the caller's run began, UTC, so that all
    parts of a run apply up to the same consistent cut.
    """
    turns = Turns(runtime, progress)
    try:
        turns.begin(targets, as_of=as_of)
        yield from turns.finished()
    finally:
        # A terminated run waits for the batches that are being applied, and begins no others.
        turns.close()


class Turns:
    """Turns of tables in threads, over the rounds of a process. Turns with much to do have threads of their own, and
    the others do not wait for them."""

    def __init__(self, runtime: LakeRuntime, progress: Progress = lambda target, stage: None) -> None:
        self._runtime = runtime
        self._progress = progress
        self._pool = ThreadPoolExecutor(runtime.lake.automation.apply_threads, thread_name_prefix="apply")
        # One thread fewer than large batches may be applied at a time: a large batch of the other pool never waits for
        # these turns.
        self._long_pool = ThreadPoolExecutor(
            most_large_batches(runtime.lake) - 1, thread_name_prefix="apply-long"
        )
        self._usual: dict[Future[TableResult], Target] = {}
        self._long: dict[Future[TableResult], Target] = {}
        self._cuts: list[SourceCut] = []
        self._closing = threading.Event()

    @property
    def under_way(self) -> frozenset[str]:
        """The silver tables whose turn has begun and whose result has not been yielded."""
        return frozenset(target.identifier for target in [*self._usual.values(), *self._long.values()])

    def begin(
        self, targets: Sequence[Target], *, long: Collection[str] = (), as_of: datetime | None = None
    ) -> None:
        """Begins a turn of each target. `long`: silver tables with much to do; `as_of` as in `apply_tables`."""
        moment = as_of or datetime.now(UTC)
        cuts = {name: SourceCut.of(self._runtime, name, moment) for name in {t.source for t in targets}}
        self._cuts += cuts.values()
        for target in targets:
            # The tables of a consistent cut are tagged together, at the end of the round.
            may_take_long = self._runtime.lake.sources[target.source].consistent_cut is None
            is_long = may_take_long and target.identifier in long
            pool, turns = (self._long_pool, self._long) if is_long else (self._pool, self._usual)
            cut = cuts[target.source].cut
            turn = pool.submit(apply_table, self._runtime, target, self._progress, cut, self._closing)
            turns[turn] = target

    def finished(self) -> Iterator[TableResult]:
        """Waits for the turns without much to do. Yields their results, and those of the other turns that have
        ended."""
        for done in as_completed(list(self._usual)):
            del self._usual[done]
            yield done.result()
        for done in [each for each in self._long if each.done()]:
            del self._long[done]
            yield done.result()
        for cut in self._cuts:
            cut.tag()
        self._cuts = []

    def close(self) -> list[TableResult]:
        """Ends the turns that are under way after their present batch, and returns their results."""
        self._closing.set()
        pools = (self._pool, self._long_pool)
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)
        for pool in pools:
            pool.shutdown()
        left = [*self._usual, *self._long]
        self._usual, self._long = {}, {}
        return [turn.result() for turn in left if not turn.cancelled()]


def apply_table(
    runtime: LakeRuntime,
    target: Target,
    progress: Progress,
    cut: Cut = NO_CUT,
    closing: threading.Event | None = None,
) -> TableResult:
    """Brings one table up to the head of the log, and to the cut of its source; ends after a batch if `closing` is set.
    Never raises for a fault of the table: see the result's `error`."""
    with log_fields(table=target.identifier, run_id=runtime.run_id):
        return _turn(runtime, target, progress, cut, closing)


def _turn(
    runtime: LakeRuntime, target: Target, progress: Progress, cut: Cut, closing: threading.Event | None
) -> TableResult:
    result, up_to_date = TableResult(target), False
    try:
        turn = Turn.of(runtime, target, progress, cut)
        while not up_to_date:
            batch, result.waiting = turn.apply_next()
            if batch is None:
                break
            result.batches.append(batch)
            # Another process may have brought the table further; its own turn reports that.
            result.position = batch.position
            up_to_date = turn.ends_at(batch.position)
            if closing is not None and closing.is_set():
                break
    except Exception as error:  # noqa: BLE001  (one table's failure must not stop the others)
        story = hidden_in(runtime.lake, full_traceback(error))
        logger.debug("%s could not be applied:\n%s", target.identifier, story)
        result.error = _as_lake_error(runtime, target, error)
    if not up_to_date:
        _read_position(runtime, target, result)
    note_turn(runtime, result)
    progress(target, "done")
    return result


def _read_position(runtime: LakeRuntime, target: Target, result: TableResult) -> None:
    try:
        result.position = read_position(load_table(runtime.catalog, target.identifier))
    except Exception as error:  # one table's failure must not stop the others
        logger.debug("%s has no readable position", target.identifier, exc_info=True)
        result.error = result.error or _as_lake_error(runtime, target, error)


def _as_lake_error(runtime: LakeRuntime, target: Target, error: Exception) -> Exception:
    """The error for a user: one of the lake's own as it is, else its root cause in one line; without secrets."""
    if isinstance(error, LakeError | PreflightError):
        return hidden_error(runtime.lake, error)
    found = LakeError(f"{target.identifier}: {root_cause(error)}")
    found.__cause__ = error
    return hidden_error(runtime.lake, found)

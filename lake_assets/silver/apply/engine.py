"""Keeping silver tables up with the file log: batch after batch, table beside table.

Here: planning against fresh state, one thread per table, one table's failure kept to itself. Not here: retrying a lost
race (`planned.py`), what a batch does (`apply_batch.py`), Dagster (`orchestration/assets/silver_assets.py`).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from datetime import UTC, datetime

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.scan.vanished import missing_files
from lake_assets.config import Mode
from lake_assets.config.secrets import hidden_error, hidden_in
from lake_assets.errors import LakeError, NotTold, TableStopped
from lake_assets.iceberg.table_io import load_table
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply.cut_tags import SourceCut
from lake_assets.silver.apply.failures import note_turn
from lake_assets.silver.apply.planned import Planned, apply_planned, known_damage, retrying
from lake_assets.silver.plan.cut import NO_CUT, Cut
from lake_assets.silver.plan.full_load_gate import next_batch
from lake_assets.silver.plan.planner import Batch, Waiting, living_files
from lake_assets.silver.plan.rewritten import lost_contents
from lake_assets.silver.table.guard import refuse_unfit
from lake_assets.silver.table.position import Position, read_position
from lake_assets.silver.table.targets import Target
from lake_assets.silver.write.batch import BatchResult, TableResult
from lake_assets.silver.write.batch_context import Damaged
from lake_assets.spark.causes import root_cause, whole_story
from lake_assets.spark.preflight import PreflightError
from lake_assets.words import does, many

Progress = Callable[[Target, str], None]
"""Told the table and the stage as each stage begins, and `done` at the end of the table's turn."""

logger = logging.getLogger(__name__)


def apply_tables(
    runtime: LakeRuntime,
    targets: Sequence[Target],
    *,
    progress: Progress = lambda target, stage: None,
    as_of: datetime | None = None,
) -> Iterator[TableResult]:
    """Brings every target up to the file log and yields each result as it is there, in no particular order.

    An error of one table is in its result; the others go on. `as_of`: when the run began of which this is a part, UTC,
    so that all its parts come to the same consistent cut.
    """
    moment = as_of or datetime.now(UTC)
    cuts = {name: SourceCut.of(runtime, name, moment) for name in {target.source for target in targets}}
    pool = ThreadPoolExecutor(runtime.lake.automation.apply_threads, thread_name_prefix="apply")
    try:
        futures = [
            pool.submit(apply_table, runtime, target, progress, cuts[target.source].cut) for target in targets
        ]
        for future in as_completed(futures):
            yield future.result()
    finally:
        # A run that is terminated waits for the tables that are being applied, not for those that wait their turn.
        pool.shutdown(cancel_futures=True)
    for cut in cuts.values():
        cut.tag()


def apply_table(runtime: LakeRuntime, target: Target, progress: Progress, cut: Cut = NO_CUT) -> TableResult:
    """Brings one table up to what the log holds now, and to the cut of its source. Never raises for a fault of the
    table: see its `error`."""
    result, up_to_date = TableResult(target), False
    try:
        damaged = known_damage(runtime, target)
        upto = runtime.file_log.head()
        while not up_to_date:
            outcome = retrying(target, lambda: _next_batch(runtime, target, upto, progress, damaged, cut))
            if not isinstance(outcome, BatchResult):
                result.waiting = outcome.reason if isinstance(outcome, Waiting) else None
                break
            result.batches.append(outcome)
            # Another process may be further by now; that is its own turn's to tell.
            result.position = outcome.position
            up_to_date = _is_all(runtime, target, outcome, upto, cut)
    except Exception as error:  # noqa: BLE001  (one table's failure must not stop the others)
        logger.debug("%s could not be applied:\n%s", target.identifier, _whole_story(runtime, error))
        result.error = _in_words(runtime, target, error)
    if not up_to_date:
        _read_position(runtime, target, result)
    note_turn(runtime, result)
    progress(target, "done")
    return result


def _read_position(runtime: LakeRuntime, target: Target, result: TableResult) -> None:
    try:
        result.position = read_position(load_table(runtime.catalog, target.identifier))
    except Exception as error:  # nor that it cannot say how far it is
        logger.debug("%s has no readable position", target.identifier, exc_info=True)
        result.error = result.error or _in_words(runtime, target, error)


def _in_words(runtime: LakeRuntime, target: Target, error: Exception) -> Exception:
    """An error for a user: one of the lake's own, else what it comes down to, in one line; without secrets."""
    if isinstance(error, LakeError | PreflightError):
        return hidden_error(runtime.lake, error)
    found = LakeError(f"{target.identifier}: {root_cause(error)}")
    found.__cause__ = error
    return hidden_error(runtime.lake, found)


def _whole_story(runtime: LakeRuntime, error: Exception) -> str:
    return hidden_in(runtime.lake, whole_story(error))


def _is_all(runtime: LakeRuntime, target: Target, batch: BatchResult, upto: int, cut: Cut) -> bool:
    """Whether nothing is left to be planned after the batch, without a look at the table."""
    files = runtime.file_log.files(target.source, target.table, upto=upto)
    return next_batch(runtime, target, batch.position, files, datetime.now(UTC), cut=cut) is None


def _next_batch(
    runtime: LakeRuntime, target: Target, upto: int, progress: Progress, damaged: Damaged, cut: Cut
) -> BatchResult | Waiting | None:
    """Plans from the table as it is now, so that a batch another run has published meanwhile is not planned again."""
    table = load_table(runtime.catalog, target.identifier)
    refuse_unfit(target, table)
    position = read_position(table)
    # Another process may have brought the table further than the log was when this turn began.
    upto = max(upto, position.log_offset)
    files = runtime.file_log.files(target.source, target.table, upto=upto)
    batch = next_batch(runtime, target, position, files, datetime.now(UTC), cut=cut)
    if batch is None or isinstance(batch, Waiting):
        return batch
    if batch.stop is not None:
        raise TableStopped(target.table, batch.stop.reason, batch.stop.next_step)
    if batch.kind == "drop":
        # Emptied by a commit before. Its files are all gone, so that it stays away until there are new ones.
        runtime.catalog.drop_table(target.identifier)
        return None
    # What the table is made of, and read again when a file comes late.
    logged = living_files(files, target.mode, target.config.on_vanished)
    batch = _going_on(runtime, target, batch, position, logged, damaged)
    _refuse_lost_rows(runtime, target, batch, position)
    _refuse_lost_files(runtime, target, batch, position, damaged)

    def applied(wanted: Batch) -> BatchResult:
        planned = Planned(target, table, position, wanted, logged)
        return apply_planned(runtime, planned, damaged, lambda stage: progress(target, stage))

    try:
        return applied(batch)
    except NotTold:
        everything = next_batch(runtime, target, position, files, datetime.now(UTC), at_once=True, cut=cut)
        if not isinstance(everything, Batch) or everything.upto <= batch.upto or everything.stop is not None:
            raise
        # What it lacks may be in a file that is left for the next batch.
        return applied(everything)


def _refuse_lost_rows(runtime: LakeRuntime, target: Target, batch: Batch, position: Position) -> None:
    """Rows that wait for the cut are in their files only."""
    again = [file for file in batch.files if file.offset in batch.reopened]
    if again and (missing := missing_files(runtime.store(target.source), again)):
        raise TableStopped(
            target.table,
            f"{missing[0].key} is gone from the bucket, and of the files that {target.identifier} has read, "
            f"{many(position.waiting, 'row', 'wait')} for the consistent cut.",
            "Put it back, or have DMS reload the table.",
        )


def _refuse_lost_files(
    runtime: LakeRuntime, target: Target, batch: Batch, position: Position, damaged: Damaged
) -> None:
    """A table that is computed again from its files needs all of them, also those that it has applied."""
    applied = [
        file
        for file in batch.files
        if file.offset <= position.log_offset and (file.key, file.version) not in damaged
    ]
    if batch.kind != "full_load" or not applied:
        return
    if missing := missing_files(runtime.store(target.source), applied):
        again = next((file for file in batch.files if file.offset > position.log_offset), batch.files[-1])
        raise TableStopped(
            target.table,
            f"{again.key} was written again, so that {target.identifier} is to be computed again from "
            f"{many(len(batch.files), 'file')}, and {len(missing)} of them {does(len(missing), 'are')} gone from the "
            "bucket, the first of them "
            f"{missing[0].key}.",
            "Put them back, or have DMS reload the table.",
        )


def _going_on(
    runtime: LakeRuntime,
    target: Target,
    batch: Batch,
    position: Position,
    logged: Sequence[LoggedFile],
    damaged: Damaged,
) -> Batch:
    """The batch. One that would make a table anew because a CDC file was written again goes on from the rows that the
    table has, where what they were made of cannot be read any more."""
    pending = tuple(file for file in batch.files if file.offset > position.log_offset)
    remade = batch.kind == "full_load" and batch.epoch == position.epoch and position.snapshot_id is not None
    if not remade or position.waiting or any(file.kind is FileKind.LOAD for file in pending):
        return batch
    needed = [file for file in batch.files if (file.key, file.version) not in damaged]
    cannot = (
        (target.mode is Mode.SOFT_DELETE and position.epoch > 1)
        or lost_contents(batch.files, logged, damaged)
        or missing_files(runtime.store(target.source), needed)
    )
    return replace(batch, kind="cdc", files=pending) if cannot else batch

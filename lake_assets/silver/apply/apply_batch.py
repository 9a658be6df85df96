"""Applying one batch to one silver table: write to a branch, check, publish.

Here: the order of those steps, and which strategy writes a table of which mode. Not here: which files make the batch
(`silver/plan/planner.py`), the strategies (`silver/write/current/upsert.py`, `silver/write/full_row.py`,
`silver/write/append_only_tables.py`, `silver/write/history_and_soft_delete.py`), the commit that has the position
(`silver/write/commit.py`), the publishing protocol (`iceberg/publish.py`), retries (`planned.py`), threads
(`engine.py`).

One fast-forward publishes the rows of a batch and the table's new position. If a process is killed before it, nothing
is published; if it is killed after it, nothing is left to do.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.reader.as_listed import not_as_logged
from lake_assets.config import LOGS, Mode
from lake_assets.errors import TableStopped
from lake_assets.iceberg.publish import Attempt, attempt
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.reduce.touched_periods import all_touched
from lake_assets.silver.write.append_only_tables import append, replace_log
from lake_assets.silver.write.batch import REWRITE, BatchResult, Written
from lake_assets.silver.write.batch_context import BatchContext
from lake_assets.silver.write.batch_reader import BatchReader
from lake_assets.silver.write.commit import (
    Unforeseen,
    count_rows,
    count_unseen,
    delete_rows,
    next_position,
    refuse_unforeseen,
    repeat_position,
    write_final_commit,
)
from lake_assets.silver.write.compare_rewritten import recognised
from lake_assets.silver.write.current.upsert import replace_keys, replace_states, replace_table
from lake_assets.silver.write.full_row import replace_all_rows, replace_rows
from lake_assets.silver.write.history_and_soft_delete import load_versions, replace_versions
from lake_assets.storage.object_store import ObjectGone

logger = logging.getLogger(__name__)

BeforePublish = Callable[[BatchContext, Attempt], None]
"""Called when all is on the branch; if it raises, nothing is published."""
WriteStrategy = Callable[[BatchReader, Reading, Attempt], Written]
"""Writes the rows of a batch's reading to the branch of an attempt."""

STRATEGIES: dict[Mode, tuple[WriteStrategy, WriteStrategy]] = {
    Mode.CURRENT: (replace_table, replace_keys),
    Mode.FULL_ROW: (replace_all_rows, replace_rows),
    Mode.SOFT_DELETE: (load_versions, replace_versions),
    Mode.HISTORY: (load_versions, replace_versions),
    Mode.CHANGE_LOG: (replace_log, append),
    Mode.APPEND_LOG: (replace_log, append),
}
"""By mode, the strategy for a full load with the CDC that belongs to it, and the strategy for other batches."""
KEEPS_THE_PAST = frozenset({Mode.SOFT_DELETE, Mode.HISTORY})


def apply_batch(
    context: BatchContext, before_publish: BeforePublish = lambda context, current: None
) -> BatchResult:
    """Applies and publishes the batch. Raises TableStopped and ApplyConflict; nothing is published then."""
    try:
        return _attempted(context, before_publish)
    except Unforeseen as reason:
        logger.info(
            "%s: the batch is applied again, by its decoded files: %s", context.target.identifier, reason
        )
        return _attempted(replace(context, spark_reads=False), before_publish)


def _attempted(context: BatchContext, before_publish: BeforePublish) -> BatchResult:
    with (
        attempt(
            context.spark,
            context.runtime.lake.catalog.name,
            context.target.identifier,
            context.position.snapshot_id,
            kept=context.runtime.branches,
            table=context.table,
        ) as current,
    ):
        reader = recognised(BatchReader(context))
        result = _committed(reader, current, _write(reader, current))
        _refuse_unlogged(reader)
        before_publish(reader.context, current)
        reader.quarantine.record(reader.parts)
        context.stage("publish")
        with context.watch.stage("publish"):
            current.publish()
            published_at = datetime.now(UTC)
    reader.quarantine.release(reader.parts)
    return replace(result, published_at=published_at, seconds=context.watch.seconds)


def _refuse_unlogged(reader: BatchReader) -> None:
    """Raises ObjectGone if a file of a log was written again since it was logged: its columns may have another order
    now, and a log keeps whatever was appended to it. Other tables are recomputed once the new content is logged."""
    context, files = reader.context, [part.file for part in reader.parts]
    if context.target.mode not in LOGS or not files:
        return
    records = context.runtime.file_log.files(context.target.source, context.target.table)
    if changed := not_as_logged(context.store, files, records):
        raise ObjectGone(f"{changed[0].key} was written again since it was logged: run again.")


def _write(reader: BatchReader, current: Attempt) -> Written:
    context, batch, mode = reader.context, reader.context.batch, reader.context.target.mode
    if context.states is not None:
        return replace_states(context, current, context.states)
    is_load = batch.kind == "full_load"
    if batch.kind == "truncate" or (is_load and not batch.files):
        return _empty(context, current)
    reading = reader.read_batch() if batch.files else None
    if reading is None and not is_load:
        return Written("append")  # its position alone
    if reading is None and mode not in KEEPS_THE_PAST:
        # A table without a full load, none of whose changes can be read any more.
        return _empty(context, current)
    if reading is None:
        raise TableStopped(
            context.target.table,
            f"none of the files that {context.target.identifier} is recomputed from can be read.",
            "Have DMS reload the table.",
        )
    load, change = STRATEGIES[mode]
    if is_load:
        return load(reader, reading, current)
    context.stage("read")
    return change(reader, reading, current)


def _empty(context: BatchContext, current: Attempt) -> Written:
    """Deletes all rows. The commit that has the position follows, because a delete of whole files loses properties."""
    context.stage("write")
    if context.position.snapshot_id is not None:
        with context.watch.stage("delete"):
            delete_rows(context, current)
    return Written("delete", touched=all_touched(context.target))


def _committed(reader: BatchReader, current: Attempt, written: Written) -> BatchResult:
    """Writes the commit that has the position, and checks the branch's row counts; returns the batch's figures, with
    the snapshot to publish. Raises RowCountMismatch and ApplyConflict."""
    context = reader.context
    result = _result(reader, written)
    before = context.position.snapshot_id
    if written.strategy != REWRITE:  # which is one commit
        _, head = current.head(context.runtime.catalog)
        before = head.snapshot_id
    with context.watch.stage("write"):
        write_final_commit(context, current, result, written)
        # Nothing is written after it: one look at the branch serves both checks.
        table, head = current.head(context.runtime.catalog)
        refuse_unforeseen(reader, current, head, result, written)
    with context.watch.stage("check"):
        result = count_rows(reader, table, head, result, written, before)
        unseen = count_unseen(context, written, result.rows_removed)
        result = replace(result, unseen_updates=unseen)
        if unknown := written.unknown_rows(result.rows_removed, unseen, context.batch.epoch):
            position = replace(result.position, unknown_rows=result.position.unknown_rows + unknown)
            repeat_position(context, current, replace(result, position=position), written)
            # Never a branch that Iceberg has created again: it would have the position, but not the rows.
            published = current.head_upon(context.runtime.catalog, position.snapshot_id)
            result = replace(result, position=replace(position, snapshot_id=published))
    return result


def _landed(context: BatchContext, files: Sequence[LoggedFile]) -> list[datetime]:
    """When the CDC files of a batch were written; nothing for a batch whose latency is not the lake's: of a full load,
    or of files that were there before the lake first looked at the table."""
    first_look = min((file.logged_at for file in context.logged), default=None)
    if context.batch.kind != "cdc" or any(file.logged_at == first_look for file in files):
        return []
    return [file.last_modified for file in files if file.kind is FileKind.CDC and not file.retry]


def _result(reader: BatchReader, written: Written) -> BatchResult:
    """The figures of a batch before its rows are counted."""
    context, batch, seen, held = reader.context, reader.context.batch, reader.seen, reader.quarantine.held
    files = [file for file in batch.files if file.offset not in batch.reopened]
    landed = _landed(context, files)
    return BatchResult(
        kind=batch.kind,
        strategy=written.strategy,
        reason=written.reason,
        files=len(files),
        first_key=files[0].key if files else None,
        last_key=files[-1].key if files else None,
        bytes=sum(file.size for file in files),
        rows_counted=reader.rows_counted,
        rows_read=seen.rows,
        by_op=seen.by_op,
        keys=written.keys,
        rows_written=written.rows,
        rows_removed=0,
        rows_before=context.position.rows,
        position=next_position(context, seen),
        replayed_bytes=reader.replayed_bytes,
        unmatched=0 if written.recounted is None else written.recounted.unmatched,
        min_sequence=seen.min_sequence,
        superseded_files=batch.superseded_files,
        rows_behind_cut=seen.behind_cut,
        rows_quarantined=sum(one.row is not None for one in held),
        first_file_at=min(landed, default=None),
        first_commit_at=seen.min_commit_ts if landed else None,
        files_quarantined=sum(one.row is None for one in held),
        seconds=dict(context.watch.seconds),
    )

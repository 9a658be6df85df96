"""Applying one batch to one silver table: read, reduce, write to a branch, prove, publish.

Here: the order of those steps, and what reduces a batch of which mode. Not here: which files make the batch
(`silver/plan/planner.py`), reading them (`silver/batch/reader.py`), the edit (`silver/reduce/`), writing and proving it
(`silver/write/`), the publishing protocol (`iceberg/publish.py`), retries (`planned.py`), threads (`engine.py`).

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
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.batch.reader import BatchReader
from lake_assets.silver.batch.result import BatchResult
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.reduce.append_only_tables import added_changes, whole_log
from lake_assets.silver.reduce.compare_rewritten import recognised
from lake_assets.silver.reduce.current.current_rows import changed_keys, whole_table
from lake_assets.silver.reduce.edit import Edit, EveryRow
from lake_assets.silver.reduce.full_row import changed_rows, whole_table_of_rows
from lake_assets.silver.reduce.past.history_and_soft_delete import changed_versions, loaded_versions
from lake_assets.silver.reduce.touched_periods import all_touched
from lake_assets.silver.write.final_commit import next_position, repeat_position, write_final_commit
from lake_assets.silver.write.proof import Head, Unforeseen, proven, refuse_unforeseen
from lake_assets.silver.write.write_edit import Begun, begin
from lake_assets.storage.object_store import ObjectGone

logger = logging.getLogger(__name__)

BeforePublish = Callable[[BatchContext, Attempt], None]
"""Called when all is on the branch; if it raises, nothing is published."""
Reduce = Callable[[BatchReader, Reading], Edit]
"""Reduces the changes of a batch to what changes in the table."""

REDUCE: dict[Mode, tuple[Reduce, Reduce]] = {
    Mode.CURRENT: (whole_table, changed_keys),
    Mode.FULL_ROW: (whole_table_of_rows, changed_rows),
    Mode.SOFT_DELETE: (loaded_versions, changed_versions),
    Mode.HISTORY: (loaded_versions, changed_versions),
    Mode.CHANGE_LOG: (whole_log, added_changes),
    Mode.APPEND_LOG: (whole_log, added_changes),
}
"""By mode: for a full load with the CDC that belongs to it, and for other batches."""
KEEPS_THE_PAST = frozenset({Mode.SOFT_DELETE, Mode.HISTORY})


def apply_batch(
    context: BatchContext,
    before_publish: BeforePublish = lambda context, current: None,
    edit: Callable[[BatchContext], Edit] | None = None,
) -> BatchResult:
    """Applies and publishes the batch. `edit`: what a batch without files changes. Raises TableStopped and
    ApplyConflict; nothing is published then."""
    try:
        return _attempted(context, before_publish, edit)
    except Unforeseen as reason:
        logger.info(
            "%s: the batch is applied again, by its decoded files: %s", context.target.identifier, reason
        )
        return _attempted(replace(context, spark_reads=False), before_publish, edit)


def _attempted(
    context: BatchContext, before_publish: BeforePublish, edit: Callable[[BatchContext], Edit] | None
) -> BatchResult:
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
        change = _reduced(reader) if edit is None else edit(reader.context)
        result = _committed(reader, current, change)
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


def _reduced(reader: BatchReader) -> Edit:
    """What the batch changes. Raises TableStopped and FilesUnusable."""
    context, batch, mode = reader.context, reader.context.batch, reader.context.target.mode
    empty = Edit(removed=EveryRow(), touched=all_touched(context.target))
    is_load = batch.kind == "full_load"
    if batch.kind == "truncate" or (is_load and not batch.files):
        return empty
    reading = reader.read_batch() if batch.files else None
    if reading is None and not is_load:
        return Edit()  # its position alone
    if reading is None and mode not in KEEPS_THE_PAST:
        # A table without a full load, none of whose changes can be read any more.
        return empty
    if reading is None:
        raise TableStopped(
            context.target.table,
            f"none of the files that {context.target.identifier} is recomputed from can be read.",
            "Have DMS reload the table.",
        )
    load, change = REDUCE[mode]
    if is_load:
        return load(reader, reading)
    context.stage("read")
    return change(reader, reading)


def _committed(reader: BatchReader, current: Attempt, edit: Edit) -> BatchResult:
    """Writes the edit and the position to the branch, and proves them; returns the batch's figures, with the snapshot
    to publish. Raises Unforeseen, RowCountMismatch and ApplyConflict."""
    context, catalog = reader.context, reader.context.runtime.catalog
    begun, before = begin(context, current, edit), context.position.snapshot_id
    result = _result(reader, edit, begun)
    if begun.has_deleted or before is None:
        before = current.head(catalog)[1].snapshot_id
    with context.watch.stage("write"):
        write_final_commit(context, current, result, edit, begun)
        head = Head(*current.head(catalog), before)
        refuse_unforeseen(reader, current, head, edit, begun)
    with context.watch.stage("check"):
        found = proven(reader, head, result, edit, begun)
        in_commit = result.position.unknown_rows, result.unmatched
        if (found.position.unknown_rows, found.unmatched) != in_commit:
            found = repeat_position(context, current, found, edit)
    return found


def _landed(context: BatchContext, files: Sequence[LoggedFile]) -> list[datetime]:
    """When the CDC files of a batch were written; nothing for a batch whose latency is not the lake's: of a full load,
    or of files that were there before the lake first looked at the table."""
    first_look = min((file.logged_at for file in context.logged), default=None)
    if context.batch.kind != "cdc" or any(file.logged_at == first_look for file in files):
        return []
    return [file.last_modified for file in files if file.kind is FileKind.CDC and not file.retry]


def _result(reader: BatchReader, edit: Edit, begun: Begun) -> BatchResult:
    """The figures of a batch before its rows are counted."""
    context, batch, seen, held = reader.context, reader.context.batch, reader.seen, reader.quarantine.held
    files = batch.own_files
    landed = _landed(context, files)
    return BatchResult(
        kind=batch.kind,
        strategy=begun.strategy,
        reason=begun.reason,
        files=len(files),
        first_key=files[0].key if files else None,
        last_key=files[-1].key if files else None,
        bytes=sum(file.size for file in files),
        rows_counted=reader.rows_counted,
        rows_read=seen.rows,
        by_op=seen.by_op,
        keys=edit.keys,
        rows_written=edit.rows or 0,
        rows_removed=0,
        rows_before=context.position.rows,
        position=next_position(context, seen),
        replayed_bytes=reader.replayed_bytes,
        unmatched=0 if edit.rows is None else edit.recounted.unmatched,
        min_sequence=seen.min_sequence,
        superseded_files=batch.superseded_files,
        rows_behind_cut=seen.behind_cut,
        rows_quarantined=sum(one.row is not None for one in held),
        first_file_at=min(landed, default=None),
        first_commit_at=seen.min_commit_ts if landed else None,
        files_quarantined=sum(one.row is None for one in held),
        seconds=dict(context.watch.seconds),
        began_at=context.watch.began_at,
        run_id=context.runtime.run_id,
        batch_id=context.id,
    )

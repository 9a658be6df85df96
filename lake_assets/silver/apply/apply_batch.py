"""Applying one batch to one silver table: write to a branch, check, publish.

Here: the order of those steps. Not here: which files make the batch (`silver/plan/planner.py`), what each mode writes
(`silver/write/upsert.py`, `silver/write/full_row.py`, `silver/write/log_tables.py`,
`silver/write/versioned_tables.py`), the commit that bears the position (`silver/write/commit.py`), the publishing
protocol (`iceberg/publish.py`), retries (`planned.py`), threads (`engine.py`).

The rows of a batch and the position it brings the table to are published by one fast-forward: a process killed
anywhere before it has published nothing, and one killed after it has nothing left to do.
"""

from dataclasses import replace
from datetime import UTC, datetime

from lake_assets.bronze.files.keys import FileKind
from lake_assets.config import Mode
from lake_assets.iceberg.publish import Attempt, attempt
from lake_assets.silver.changes.touched_days import all_days
from lake_assets.silver.table.position import Position
from lake_assets.silver.write.batch import REWRITE, BatchResult, Written, nothing_readable
from lake_assets.silver.write.batch_work import Work
from lake_assets.silver.write.commit import (
    branch_head,
    count_rows,
    next_position,
    stamp,
    stamp_again,
    with_unknown_rows,
)
from lake_assets.silver.write.full_row import replace_all_rows, replace_rows
from lake_assets.silver.write.log_tables import append, replace_log
from lake_assets.silver.write.reapplied_log import recognised
from lake_assets.silver.write.upsert import replace_keys, replace_table
from lake_assets.silver.write.versioned_tables import load_versions, replace_versions
from lake_assets.spark.sql import sql

KEEPS_THE_PAST = frozenset({Mode.SOFT_DELETE, Mode.HISTORY})


def apply_batch(work: Work) -> BatchResult:
    """Applies and publishes the batch. Raises TableStopped and ApplyConflict; nothing is published then."""
    catalog = work.runtime.lake.catalog.name
    with attempt(
        work.spark,
        catalog,
        work.target.identifier,
        work.position.snapshot_id,
        kept=work.runtime.branches,
        table=work.table,
    ) as current:
        work.batch = recognised(work, current)
        written = _write(work, current)
        position = next_position(
            work.position,
            work.batch,
            written.changes,
            work.contracts.versions[-1].number,
            work.log_mark,
            again=work.again,
        )
        result = _result(work, written, position)
        before = work.position.snapshot_id
        if written.strategy != REWRITE:  # which is one commit
            _, head = branch_head(work.runtime.catalog, current, work.target)
            before = head.snapshot_id
        with work.watch.stage("write"):
            stamp(work.spark, current, work.target, result, written)
        with work.watch.stage("check"):
            result = count_rows(
                work.runtime.catalog,
                current,
                work.target,
                work.position,
                result,
                written,
                before,
                again=work.again,
            )
            result = replace(result, unseen_updates=written.unseen_updates(result.rows_removed))
            if unknown := written.unknown_rows(result.rows_removed, work.batch.epoch):
                result = with_unknown_rows(result, unknown)
                stamp_again(work.spark, work.runtime.catalog, current, work.target, result, written)
        work.before_publish(work, current)
        work.set_aside()
        work.stage("publish")
        with work.watch.stage("publish"):
            snapshot_id = current.publish()
            published_at = datetime.now(UTC)
    work.release()
    return replace(
        result,
        position=replace(result.position, snapshot_id=snapshot_id),
        published_at=published_at,
        seconds=work.watch.seconds,
    )


def _write(work: Work, current: Attempt) -> Written:
    if work.batch.kind == "truncate" or (work.batch.kind == "full_load" and not work.batch.files):
        return _empty(work, current)
    if not work.batch.files:
        return nothing_readable()
    is_load = work.batch.kind == "full_load"
    if work.target.mode in KEEPS_THE_PAST:
        return load_versions(work, current) if is_load else replace_versions(work, current)
    if work.target.mode is Mode.FULL_ROW:
        return replace_all_rows(work, current) if is_load else replace_rows(work, current)
    if work.target.mode is Mode.CURRENT:
        return replace_table(work, current) if is_load else replace_keys(work, current)
    return replace_log(work, current) if is_load else append(work, current)


def _empty(work: Work, current: Attempt) -> Written:
    """All rows gone; the commit that bears the position follows, because a delete of whole files loses it."""
    work.stage("write")
    if work.position.snapshot_id is not None:
        with work.watch.stage("delete"):
            work.spark.sql(sql("DELETE FROM {branch}", branch=current.address))
    return nothing_readable("delete", all_days(work.target))


def _result(work: Work, written: Written, position: Position) -> BatchResult:
    files = [file for file in work.batch.files if file.offset not in work.batch.reopened]
    landed = [file.last_modified for file in files if file.kind is FileKind.CDC and not file.retry]
    return BatchResult(
        kind=work.batch.kind,
        strategy=written.strategy,
        files=len(files),
        first_key=files[0].key if files else None,
        last_key=files[-1].key if files else None,
        bytes=sum(file.size for file in files),
        rows_counted=written.rows_counted,
        rows_read=written.changes.rows,
        by_op=written.changes.by_op,
        keys=written.keys,
        rows_written=written.rows,
        rows_removed=0,
        rows_before=work.position.rows,
        position=position,
        replayed_bytes=work.replayed_bytes,
        unmatched=written.unmatched,
        min_sequence=written.changes.min_sequence,
        superseded_files=work.batch.superseded_files,
        rows_behind_cut=written.changes.behind_cut,
        rows_quarantined=sum(held.row is not None for held in work.held),
        first_file_at=min(landed, default=None) if work.batch.kind == "cdc" else None,
        first_commit_at=written.changes.min_commit_ts if work.batch.kind == "cdc" else None,
        files_quarantined=sum(held.row is None for held in work.held),
    )

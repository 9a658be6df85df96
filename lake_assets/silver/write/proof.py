"""The proof of a batch, before anything is published: the branch has the rows that the edit promises.

Here: those checks, and the figures that only the written table shows. Not here: the equations of row counts
(`silver/table/row_count.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lake_assets.errors import ApplyConflict, RowCountMismatch
from lake_assets.iceberg.publish import Attempt
from lake_assets.iceberg.table_io import live_rows, summary
from lake_assets.iceberg.upkeep.retention import chain
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.batch.reader import BatchReader
from lake_assets.silver.batch.result import BatchResult
from lake_assets.silver.reduce.edit import Edit, EveryRow
from lake_assets.silver.reduce.edit_keys import EditKeys
from lake_assets.silver.reduce.key_states import same_key
from lake_assets.silver.table.row_count import RowCounts, row_count_problem
from lake_assets.silver.write.write_edit import Begun, on_branch
from lake_assets.spark.sql import quoted


class Unforeseen(Exception):
    """The rows of a batch are not what the look at its files promised."""


@dataclass(frozen=True, slots=True)
class Head:
    """The branch after its last commit."""

    table: Table
    commit: Snapshot
    before: int | None
    """The branch's head before that commit."""

    @property
    def added(self) -> int:
        """How many rows the commit has added."""
        return int(summary(self.commit).get("added-records", "0"))


def refuse_unforeseen(reader: BatchReader, current: Attempt, head: Head, edit: Edit, begun: Begun) -> None:
    """Raises Unforeseen if the branch's last commit has other rows than the edit has promised, or Spark has read others
    than this process. Of a batch that is applied by decoded files, `proven` refuses the first, and RowCountMismatch is
    raised for the second."""
    context = reader.context
    if context.spark_reads and begun.rows is not None:
        added, rows = head.added - begun.kept_rows, edit.recounted.rows
        if added != rows:
            raise Unforeseen(f"written rows: {added}, foreseen: {rows}")
    if edit.may_repeat:
        _refuse_repeated_keys(context, current, edit.recounted.rows)
    if (why := reader.refuted()) is None:
        return
    if context.spark_reads:
        raise Unforeseen(why)
    raise RowCountMismatch(
        context.target.table,
        f"{why}. The batch {_span(context)} was not published.",
        "The next run reads the files again.",
    )


def _refuse_repeated_keys(context: BatchContext, current: Attempt, rows: int) -> None:
    """Raises Unforeseen unless all of the branch's rows, so many, have different keys."""
    with context.watch.stage("unique"):
        names = map(quoted, context.target.key)
        keys = on_branch(context, current).selectExpr(*names).distinct().count()
    if keys != rows:
        raise Unforeseen(f"written rows: {rows}, different keys: {keys}")


def proven(reader: BatchReader, head: Head, result: BatchResult, edit: Edit, begun: Begun) -> BatchResult:
    """The result with the rows that Spark and Iceberg have counted. Raises RowCountMismatch, before anything is
    published, and ApplyConflict when the branch was dropped."""
    context = reader.context
    if head.commit.parent_snapshot_id != head.before:
        # Iceberg has created a missing branch again, at main: it lacks the batch's deletes.
        raise ApplyConflict(
            f"{context.target.identifier}: the branch of the attempt was dropped while it was written to"
        )
    counted = edit.recounted
    counts = _row_counts(reader, result, edit, begun, _summaries_since(context, head))
    replaces = isinstance(edit.removed, EveryRow)
    if (problem := row_count_problem(counts, replaces=replaces)) is not None:
        if head.table.metadata.current_snapshot_id != context.position.snapshot_id:
            # Some edits are of main's rows, and another run has moved main since the plan.
            raise ApplyConflict(f"{context.target.identifier}: another run published first")
        raise RowCountMismatch(
            context.target.table,
            f"{problem}. The batch {_span(context)} was not published.",
            "A file that was still being written is read whole by the next run; if this repeats, inspect those files.",
        )
    after = summary(head.commit)
    unseen = _unseen_updates(context, edit, counts.removed)
    unknown = unseen
    if edit.present is not None and not (replaces or context.batch.epoch):
        # After a full load, only updates count: a row that is deleted while it runs may be in none of its parts.
        unknown = max(0, edit.present - counts.removed)
    position = replace(
        result.position,
        rows=counts.after,
        snapshot_id=head.commit.snapshot_id,
        unknown_rows=result.position.unknown_rows + unknown,
    )
    return replace(
        result,
        rows_written=counted.rows,
        rows_removed=counts.removed,
        unmatched=counted.unmatched,
        unseen_updates=unseen,
        position=position,
        data_files=int(after.get("total-data-files", "0")),
        delete_files=int(after.get("total-delete-files", "0")),
        deleted_rows=int(after.get("total-position-deletes", "0")),
    )


def _unseen_updates(context: BatchContext, edit: Edit, removed: int) -> int:
    """Number of updates of keys that the table does not have and that no insert or move of the batch added. Keys that
    the batch deletes do not count: their row may have been deleted while the full load ran. Does not read the table if
    as many rows were `removed` as the changes expect."""
    if not edit.updated or context.position.snapshot_id is None or not isinstance(edit.removed, EditKeys):
        return edit.updated
    if removed == edit.present:
        return 0
    keys = edit.removed.updated_frame.alias("k")
    return edit.updated - context.main.alias("t").join(keys, same_key(context.target), "left_semi").count()


def _span(context: BatchContext) -> str:
    files = context.batch.own_files
    return f"from {files[0].key} to {files[-1].key}" if files else "without files"


def _summaries_since(context: BatchContext, head: Head) -> list[dict[str, str]]:
    """The summaries of the branch's commits since the snapshot that the batch was planned from, the newest first.
    Raises ApplyConflict if one of the commits was expired."""
    planned = context.position.snapshot_id
    found: list[dict[str, str]] = []
    for snapshot in chain(head.table, head.commit.snapshot_id):
        if snapshot.snapshot_id == planned:
            return found
        found.append(summary(snapshot))
    if planned is not None:
        raise ApplyConflict(
            f"{context.target.identifier}: a commit of the attempt was expired while it was written to"
        )
    return found


def _row_counts(
    reader: BatchReader, result: BatchResult, edit: Edit, begun: Begun, commits: Sequence[dict[str, str]]
) -> RowCounts:
    """The figures of the batch; `commits` are the summaries of the branch's own commits, the newest first."""
    planned, seen = reader.context.position, reader.seen
    # A rewrite deletes the rows that it keeps with their files, and adds them in new files.
    kept, counted = begun.kept_rows, edit.recounted
    expected_waiting = None
    if result.kind == "cdc" and not reader.context.batch.again:
        new = seen.rows - seen.read_before
        expected_waiting = planned.waiting + new - seen.used - result.rows_quarantined
    return RowCounts(
        counted_in_files=reader.rows_counted,
        read=seen.rows,
        used=seen.used,
        quarantined=result.rows_quarantined,
        passed_over=seen.passed_over,
        waiting=seen.waiting,
        keys=edit.keys,
        written=counted.rows,
        followed=edit.followed,
        added=sum(int(commit.get("added-records", "0")) for commit in commits) - kept,
        removed=sum(rows_removed(commit) for commit in commits) - kept,
        before=planned.rows,
        after=live_rows(commits[0]),
        replaced=counted.replaced,
        versions=counted.images,
        expected_waiting=expected_waiting,
    )


def rows_removed(commit: dict[str, str]) -> int:
    """Number of rows that a commit deleted: newly marked positions, and rows of dropped files not marked before."""
    marked = int(commit.get("added-position-deletes", "0")) - int(commit.get("removed-position-deletes", "0"))
    return marked + int(commit.get("deleted-records", "0"))

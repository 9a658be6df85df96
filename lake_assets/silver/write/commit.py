"""Writing to a batch's branch: deleting and writing rows, the commit that has its position, and the row-count check.

Here: those statements, the properties of the summary, and the check of the rows before anything is published. Not here:
which rows (`current/upsert.py`, `full_row.py`, `append_only_tables.py`, `history_and_soft_delete.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pyiceberg.expressions import And, GreaterThanOrEqual, LessThanOrEqual
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.errors import ApplyConflict, RowCountMismatch
from lake_assets.iceberg.publish import EVERY_ROW, Attempt
from lake_assets.iceberg.retention import chain
from lake_assets.iceberg.table_io import APPLIED_AT, RESTAMP_OF, committed_at, live_rows, load_table, summary
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.reduce.edit import Edit
from lake_assets.silver.reduce.touched_periods import all_touched
from lake_assets.silver.table.change_events import ChangeFigures
from lake_assets.silver.table.guard import foreign_commits
from lake_assets.silver.table.masks import described
from lake_assets.silver.table.position import Position
from lake_assets.silver.table.row_count import RowCounts, row_count_problem
from lake_assets.silver.table.targets import Target
from lake_assets.silver.write.batch import OVERWRITE, BatchResult, Written
from lake_assets.silver.write.batch_context import SMALL_ROWS, BatchContext
from lake_assets.silver.write.batch_reader import BatchReader
from lake_assets.spark.checkpoint import Observed
from lake_assets.spark.sql import Sql, quoted, sql

LONGS = 2**63
FEW_WRITTEN = 10_000
"""The most rows that one task writes, except in a rewrite."""


class Unforeseen(Exception):
    """The rows of a batch are not what the look at its files promised."""


def added_rows(head: Snapshot) -> int:
    """How many rows the commit has added."""
    return int(summary(head).get("added-records", "0"))


def refuse_unforeseen(
    reader: BatchReader, current: Attempt, head: Snapshot, result: BatchResult, written: Written
) -> None:
    """Raises Unforeseen if the branch's last commit, `head`, has other rows than the strategy has promised, or Spark
    has read others than this process. Of a batch that is applied by decoded files, `count_rows` refuses the first, and
    RowCountMismatch is raised for the second."""
    context, rows = reader.context, written.rows
    added = added_rows(head) - written.kept_rows
    if context.spark_reads and written.images is not None and added != rows:
        raise Unforeseen(f"written rows: {added}, foreseen: {rows}")
    if written.may_repeat:
        refuse_repeated_keys(context, current, rows)
    if (why := reader.refuted()) is None:
        return
    if context.spark_reads:
        raise Unforeseen(why)
    raise RowCountMismatch(
        context.target.table,
        f"{why}. The batch from {result.first_key} to {result.last_key} was not published.",
        "The next run reads the files again.",
    )


def refuse_repeated_keys(context: BatchContext, current: Attempt, rows: int) -> None:
    """Raises Unforeseen unless all of the branch's rows, so many, have different keys."""
    with context.watch.stage("unique"):
        names = map(quoted, context.target.key)
        keys = on_branch(context, current).selectExpr(*names).distinct().count()
    if keys != rows:
        raise Unforeseen(f"written rows: {rows}, different keys: {keys}")


def next_position(context: BatchContext, seen: ChangeFigures) -> Position:
    """The table's position after the batch. A full load starts the maxima again; CDC never lowers them."""
    position, batch = context.position, context.batch
    sequences = [seen.max_sequence]
    stamps = [seen.max_commit_ts]
    if batch.kind == "cdc":
        sequences.append(position.max_sequence)
        stamps.append(position.max_commit_ts)
    return Position(
        log_offset=batch.upto,
        epoch=batch.epoch,
        max_sequence=max(sequences),
        max_commit_ts=_latest(stamps),
        contract_version=context.contracts.versions[-1].number,
        masks=described(context.target),
        folders=context.target.folder_rule.text,
        mark=context.log_mark,
        cut=batch.cut,
        unknown_rows=position.unknown_rows if batch.kind == "cdc" else 0,
        # Recomputing some keys does not apply rows that wait.
        waiting=position.waiting if batch.again and batch.kind == "cdc" else seen.waiting,
    )


def _latest(stamps: list[datetime | None]) -> datetime | None:
    return max((stamp for stamp in stamps if stamp is not None), default=None)


def delete_rows(context: BatchContext, current: Attempt, condition: Sql = EVERY_ROW) -> None:
    """Deletes on the branch the rows `t` that meet the condition."""
    context.spark.sql(
        sql("DELETE FROM {branch} AS t WHERE {condition}", branch=current.address, condition=condition)
    )


def delete_matching(
    context: BatchContext, current: Attempt, keys: DataFrame, matches: Sql, condition: Sql = EVERY_ROW
) -> None:
    """Deletes on the branch the rows `t` that meet the condition and match one of the keys `k`."""
    with context.watch.stage("delete"):
        current.delete_matching(keys, matches, condition)


def delete_keys(context: BatchContext, current: Attempt, edit: Edit) -> bool:
    """Deletes on the branch the rows of the edit's keys. Returns False if the table can have none of the keys. With a
    bit for each number, Spark takes half of the time that it takes with a hash of the keys."""
    target, keys = context.target, edit.keys
    if not keys.number or not _may_have_some(context, edit):
        return False
    within = None if keys.range is None else wide_range(*keys.range)
    bits = None if within is None else keys.bits(*within)
    if bits is None or within is None:
        matches = target.key_matches("k", "t")
        delete_matching(context, current, keys.frame, matches, _key_range(target, within))
        return True
    # A row outside of the range has no bit, and must not fail the statement.
    bit = (
        "{within} AND "
        "getbit(get((SELECT _marks FROM {keys}), try_cast(shiftright({place}, 6) AS INT)), CAST({place} & 63 AS INT)) "
        "= 1"
    )
    place = sql(
        "try_subtract(CAST({column} AS BIGINT), {first})", column=quoted("t", target.key[0]), first=within[0]
    )
    with context.watch.stage("delete"):
        listed = context.spark.createDataFrame(bits)
        current.delete_by(listed, bit, within=_key_range(target, within), place=place)
    return True


def count_unseen(context: BatchContext, written: Written, removed: int) -> int:
    """Number of updates of keys that the table does not have and that no insert or move of the batch added. Keys that
    the batch deletes do not count: their row may have been deleted while the full load ran. Does not read the table if
    as many rows were `removed` as the changes expect."""
    edit = written.edit
    updated = 0 if edit is None else edit.keys.updated
    if edit is None or not updated or context.position.snapshot_id is None or written.strategy == OVERWRITE:
        return updated
    if removed == edit.present:
        return 0
    keys = edit.keys.updated_frame.alias("k")
    return updated - context.main.alias("t").join(keys, same_key(context.target), "left_semi").count()


def _may_have_some(context: BatchContext, edit: Edit) -> bool:
    """Whether the table may have one of the edit's keys."""
    if context.position.snapshot_id is None:
        return False
    return bool(edit.present) or edit.keys.range is None or not are_all_new(context, *edit.keys.range)


def are_all_new(context: BatchContext, lowest: int, highest: int) -> bool:
    """Whether, by the bounds that Iceberg keeps of each file, the table can have none of the keys from `lowest` to
    `highest`."""
    if context.position.snapshot_id is None:
        return True
    # Not the planned table, whose columns may have other names. If main has moved since, nothing is published.
    table, name = load_table(context.runtime.catalog, context.target.identifier), context.target.key[0]
    within = And(GreaterThanOrEqual(term=name, value=lowest), LessThanOrEqual(term=name, value=highest))
    return table is not None and not any(table.scan(row_filter=within).plan_files())


def _key_range(target: Target, within: tuple[int, int] | None) -> Sql:
    """The condition on rows `t` that lets Iceberg leave out files."""
    if within is None:
        return EVERY_ROW
    lowest, highest = within
    return sql(
        "{column} >= {lowest} AND {column} <= {highest}",
        column=quoted("t", target.key[0]),
        lowest=lowest,
        highest=highest,
    )


def wide_range(lowest: int, highest: int) -> tuple[int, int]:
    """A range around that of a batch's keys, which many batches share: Spark compiles the numbers of a condition into
    its code, and Java runs new code slowly."""
    step = 1 << max(0, (highest - lowest).bit_length() - 3)
    return max(lowest // step * step, -LONGS), min((highest // step + 1) * step, LONGS - 1)


def on_branch(context: BatchContext, current: Attempt) -> DataFrame:
    """The rows `t` of the branch."""
    return context.spark.table(current.address).alias("t")


def same_key(target: Target) -> Column:
    """Whether a state `k` and a row `t` have the same key."""
    return F.expr(target.key_matches("k", "t"))


def write_all(context: BatchContext, current: Attempt, rows: DataFrame) -> None:
    """Replaces all rows on the branch by the given ones."""
    context.stage("write")
    with context.watch.stage("write"):
        current.writer(in_table_columns(rows, context.target), {}).overwrite(F.lit(True))


def overwrite(
    reader: BatchReader,
    reading: Reading,
    current: Attempt,
    rows: DataFrame,
    counted: Observed,
) -> Written:
    """Writes the rows of a full load, the whole table, while they are read; `counted` has their number as `rows`."""
    context = reader.context
    write_all(context, current, rows)
    seen = reader.check(reading)
    # How many rows remain is known only once they are written: a second commit, without rows, has the position.
    return Written(
        strategy=OVERWRITE,
        keys=seen.used,
        rows=int(counted.get["rows"]),
        touched=all_touched(context.target),
    )


def append_rows(context: BatchContext, current: Attempt, rows: DataFrame) -> None:
    """Appends the rows to the branch."""
    current.writer(in_table_columns(rows, context.target), {}).append()


def in_table_columns(rows: DataFrame, target: Target) -> DataFrame:
    """The rows in the columns of the silver table."""
    # As SQL text: with a thousand columns, the DataFrame API takes seconds.
    return rows.selectExpr(*(quoted(column.name) for column in target.columns))


def write_final_commit(
    context: BatchContext, current: Attempt, result: BatchResult, written: Written
) -> None:
    """Writes the rest of the batch's rows, possibly none, in the commit that has the position.

    It is always the branch's last commit: an append, or the overwrite of all rows. It is never a
    delete, because a delete that changes only metadata would lose the properties.
    """
    properties = _properties(context, result, written)
    if written.images is None:
        current.write_nothing(properties)
        return
    # A rewrite also writes the rows that it keeps; it is of a small table.
    is_small = written.kept is not None or written.rows <= FEW_WRITTEN
    rows = in_table_columns(written.images, context.target)
    # Changes that are read now are read by the same task: many of them may leave few rows.
    one_task = is_small and result.rows_counted <= SMALL_ROWS
    writer = current.writer(rows, properties, one_task=one_task)
    if written.is_whole:
        writer.overwrite(F.lit(True))
    else:
        writer.append()


def repeat_position(context: BatchContext, current: Attempt, result: BatchResult, written: Written) -> None:
    """Repeats the commit without rows, with properties that were known only after the rows were written."""
    _, head = current.head(context.runtime.catalog)
    properties = _properties(context, result, written) | {
        RESTAMP_OF: str(head.snapshot_id),
        APPLIED_AT: committed_at(head).isoformat(),
    }
    current.write_nothing(properties)


def _properties(context: BatchContext, result: BatchResult, written: Written) -> dict[str, str]:
    # What others have touched since the last batch is unknown, and marts take it for a part of this batch.
    touched = all_touched(context.target) if foreign_commits(context.table) else written.touched
    return {**result.position.properties(), **result.properties(), **touched}


def count_rows(
    reader: BatchReader,
    table: Table,
    head: Snapshot,
    result: BatchResult,
    written: Written,
    before: int | None,
) -> BatchResult:
    """The result with the rows that Iceberg counted. `table`, `head`: the table after the branch's last commit, and
    that commit; `before`: the branch's head before it. Raises RowCountMismatch, before anything is published, and
    ApplyConflict when the branch was dropped."""
    context = reader.context
    if head.parent_snapshot_id != before:
        # Iceberg has created a missing branch again, at main: it lacks the batch's deletes.
        raise ApplyConflict(
            f"{context.target.identifier}: the branch of the attempt was dropped while it was written to"
        )
    counts = _row_counts(reader, result, written, _summaries_since(table, context, head))
    replaces = written.strategy in (OVERWRITE, "delete")
    if (problem := row_count_problem(counts, replaces=replaces)) is not None:
        if table.metadata.current_snapshot_id != context.position.snapshot_id:
            # Some strategies read the rows to be replaced from main, which another run has moved since the plan.
            raise ApplyConflict(f"{context.target.identifier}: another run published first")
        raise RowCountMismatch(
            context.target.table,
            f"{problem}. The batch from {result.first_key} to {result.last_key} was not published.",
            "A file that was still being written is read whole by the next run; if this repeats, inspect those files.",
        )
    position = replace(result.position, rows=counts.after, snapshot_id=head.snapshot_id)
    return replace(result, rows_removed=counts.removed, position=position)


def _summaries_since(table: Table, context: BatchContext, head: Snapshot) -> list[dict[str, str]]:
    """The summaries of the branch's commits since the snapshot that the batch was planned from. Raises ApplyConflict if
    one of the commits was expired."""
    planned = context.position.snapshot_id
    found: list[dict[str, str]] = []
    for snapshot in chain(table, head.snapshot_id):
        if snapshot.snapshot_id == planned:
            return found
        found.append(summary(snapshot))
    if planned is not None:
        raise ApplyConflict(
            f"{context.target.identifier}: a commit of the attempt was expired while it was written to"
        )
    return found


def _row_counts(
    reader: BatchReader, result: BatchResult, written: Written, commits: Sequence[dict[str, str]]
) -> RowCounts:
    """The figures of the batch; `commits` are the summaries of the branch's own commits, the newest first."""
    planned, seen = reader.context.position, reader.seen
    # A rewrite deletes the rows that it keeps with their files, and adds them in new files.
    kept, again = written.kept_rows, written.recounted
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
        keys=written.keys,
        written=written.rows,
        followed=written.followed,
        added=sum(int(commit.get("added-records", "0")) for commit in commits) - kept,
        removed=sum(rows_removed(commit) for commit in commits) - kept,
        before=planned.rows,
        after=live_rows(commits[0]),
        replaced=None if again is None else again.replaced,
        versions=0 if again is None else again.versions,
        expected_waiting=expected_waiting,
    )


def rows_removed(commit: dict[str, str]) -> int:
    """Number of rows that a commit deleted: newly marked positions, and rows of dropped files not marked before."""
    marked = int(commit.get("added-position-deletes", "0")) - int(commit.get("removed-position-deletes", "0"))
    return marked + int(commit.get("deleted-records", "0"))

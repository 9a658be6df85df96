"""Writing an edit to the branch of an attempt: delete and append, append alone, overwrite, or rewrite a small table.

To mark deleted rows, Spark reads every data file, and each batch adds one: with forty files that takes longer than the
rest of a batch. So a batch of a small table is a commit that replaces all of its rows. Here: which statements write an
edit, and the deletes. Not here: the keys of an edit (`silver/reduce/edit_keys.py`), the commit that has the
position (`final_commit.py`), the proof (`proof.py`).
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.iceberg.publish import EVERY_ROW, Attempt
from lake_assets.iceberg.table_io import current_snapshot, summary
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.reduce.current.current_rows import are_all_new
from lake_assets.silver.reduce.edit import Edit, EveryRow, Matching
from lake_assets.silver.reduce.edit_keys import EditKeys
from lake_assets.silver.reduce.key_states import same_key
from lake_assets.silver.table.position import REPAIR
from lake_assets.silver.table.targets import Target
from lake_assets.spark.checkpoint import Observed
from lake_assets.spark.sql import Sql, quoted, sql
from lake_assets.words import many

OVERWRITE = "overwrite"
"""Strategy of a full load: the batch's rows replace all rows of the table."""
REWRITE = "rewrite"
"""Strategy of a batch whose one commit replaces all rows of the table by its other rows and the new ones."""
NO_KEY = "the table can have none of the batch's keys"
"""Reason to append without a delete."""
SMALL_ROWS = 100_000
"""Limit of a small table's rows, and of the keys of a batch that rewrites it. A limit of bytes is not enough: equal
rows need almost no space but still time; keys are sent to every task, and one task writes one file."""
MOST_FILES = 64
"""Limit of a small table's files if it has partitions: a rewrite writes a file for each of them."""
LONGS = 2**63


@dataclass(frozen=True, slots=True)
class Begun:
    """An edit of which the deletes are on the branch, and the rows that its last commit has to write."""

    strategy: str
    """`overwrite`, `append`, `delete_and_append`, `rewrite`, `delete` or `repair`."""
    reason: str = ""
    """Why this one was chosen, where there was a choice."""
    rows: DataFrame | None = None
    """None if no rows come."""
    has_deleted: bool = False
    """Whether the branch has a commit already."""
    kept: Observed | None = None
    """Its figure `rows`: how many of the rows the table already had, if it is rewritten."""

    @property
    def is_whole(self) -> bool:
        """Whether the rows are all that the table will have; else they are appended."""
        return self.strategy in (OVERWRITE, REWRITE)

    @property
    def kept_rows(self) -> int:
        """How many of the rows the table already had. Blocks until they have been written."""
        return 0 if self.kept is None else int(self.kept.get["rows"])


def begin(context: BatchContext, current: Attempt, edit: Edit) -> Begun:
    """Deletes on the branch what goes, unless the last commit replaces all rows."""
    removed = edit.removed
    if removed is None:
        return Begun("append", rows=None if edit.added is None else edit.added.frame)
    context.stage("write")
    if isinstance(removed, EveryRow) and edit.added is None:
        # The commit that has the position follows, because a delete of whole files loses properties.
        return Begun("delete", has_deleted=_delete(context, current, Matching()))
    if isinstance(removed, Matching):
        rows = None if edit.added is None else edit.added.frame
        strategy = REPAIR if edit.repairs else "delete_and_append"
        return Begun(strategy, rows=rows, has_deleted=_delete(context, current, removed))
    assert edit.added is not None, "only a truncate and an erasure remove rows and add none"
    if isinstance(removed, EveryRow):
        return Begun(OVERWRITE, rows=edit.added.frame)
    why_not = _why_not_rewritten(context, removed.number)
    if why_not is None:
        return _rewrite(context, current, removed, edit.added.frame)
    with ThreadPoolExecutor(1, thread_name_prefix="images") as thread:
        # Spark deletes while this process writes many rows to files for it.
        added = edit.added
        new = thread.submit(lambda: added.frame)
        deletes = _may_have_some(context, edit, removed) and _delete_keys(context, current, removed)
        rows = new.result()
    if deletes:
        return Begun("delete_and_append", why_not, rows, has_deleted=True)
    return Begun("append", NO_KEY, rows)


def on_branch(context: BatchContext, current: Attempt) -> DataFrame:
    """The rows `t` of the branch."""
    return context.spark.table(current.address).alias("t")


def in_table_columns(rows: DataFrame, target: Target) -> DataFrame:
    """The rows in the columns of the silver table."""
    # As SQL text: with a thousand columns, the DataFrame API takes seconds.
    return rows.selectExpr(*(quoted(column.name) for column in target.columns))


def _why_not_rewritten(context: BatchContext, keys: int) -> str | None:
    """Why a batch of so many keys marks rows as deleted; None if the table is small enough to be rewritten."""
    position, table = context.position, context.table
    if context.target.tracked.by_partition:
        return "a mart follows its partitions"
    if not 0 < position.rows <= SMALL_ROWS:
        return f"the table has {many(position.rows, 'row')}"
    totals = summary(current_snapshot(table))
    files = int(totals.get("total-data-files", "0"))
    # Its own partitions: those of lake.yaml may be newer.
    if files > MOST_FILES and table is not None and table.spec().fields:
        return f"the table has partitions and {many(files, 'file')}"
    size = int(totals.get("total-files-size", "-1")) / 2**20
    limit = context.runtime.lake.automation.rewrite_below_mb
    if not 0 <= size < limit:
        return f"the table has {size:.1f} MB, and rewrite_below_mb is {limit:g}"
    if 0 < keys <= SMALL_ROWS:
        return None
    return f"{many(keys, 'key', 'are')} too many to rewrite a small table"


def _rewrite(context: BatchContext, current: Attempt, keys: EditKeys, new: DataFrame) -> Begun:
    """The batch as a commit of the whole table: the new rows, and the rows that have none of the keys."""
    rows, target, few, kept = on_branch(context, current), context.target, keys.literals, Observed()
    if few is None:
        rows = rows.join(keys.frame.alias("k"), same_key(target), "left_anti")
    else:
        # `greatest` takes NULL for false. Iceberg does not know it, and so does not look for files that a NOT IN of so
        # many values would skip.
        column = quoted("t", target.key[0])
        rows = rows.filter(sql("NOT greatest({column} IN ({keys}), false)", column=column, keys=few))
    rows = kept.on(rows, F.count(F.lit(1)).alias("rows"))
    # The new rows first: an event shows the first rows of its commit's file.
    return Begun(
        REWRITE,
        reason=f"the table has {many(context.position.rows, 'row')}",
        rows=in_table_columns(new, target).union(in_table_columns(rows, target)),
        kept=kept,
    )


def _delete(context: BatchContext, current: Attempt, removed: Matching) -> bool:
    """Deletes on the branch; returns whether the table can have had such rows."""
    if context.position.snapshot_id is None:
        return False
    with context.watch.stage("delete"):
        if removed.rows is None:
            current.delete(removed.condition)
        else:
            current.delete_matching(removed.rows, removed.matches, removed.condition)
    return True


def _delete_keys(context: BatchContext, current: Attempt, keys: EditKeys) -> bool:
    """Deletes on the branch the rows of the keys. With a bit for each number, Spark takes half of the time that it
    takes with a hash of the keys."""
    target = context.target
    within = None if keys.range is None else wide_range(*keys.range)
    bits = None if within is None else keys.bits(*within)
    if bits is None or within is None:
        matches = target.key_matches("k", "t")
        return _delete(context, current, Matching(keys.frame, matches, _key_range(target, within)))
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


def _may_have_some(context: BatchContext, edit: Edit, keys: EditKeys) -> bool:
    """Whether the table may have one of the edit's keys."""
    if not keys.number or context.position.snapshot_id is None:
        return False
    return bool(edit.present) or keys.range is None or not are_all_new(context, *keys.range)


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

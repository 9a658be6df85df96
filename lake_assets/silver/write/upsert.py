"""A batch of a table of current rows: what it says of its keys replaces what the table says.

Here: the state of the batch's keys, and its way onto the branch. Not here: the rule of a key's state
(`silver/changes/collapse.py`), a batch that comes late or does not tell by itself (`late_batch.py`), the order of the
steps (`silver/apply/apply_batch.py`).
"""

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.changes.key_states import Counts, counted, living, observe_states, state_of
from lake_assets.silver.changes.touched_days import all_days, touched_days
from lake_assets.silver.table.change_events import UPDATED, commit_of
from lake_assets.silver.write.batch import REWRITE, Written, nothing_readable
from lake_assets.silver.write.batch_work import Work
from lake_assets.silver.write.commit import in_table_columns, write_all, write_nothing
from lake_assets.silver.write.late_batch import replayed, settled_again, settled_in_order
from lake_assets.silver.write.small_table import MOST_ROWS, is_small, kept_rows
from lake_assets.spark.checkpoint import Observed
from lake_assets.spark.sql import sql

KEYS_VIEW = "batch_keys"


def replace_keys(work: Work, current: Attempt) -> Written:
    """Deletes the batch's keys on the branch; their new rows are left to the commit that bears the position."""
    target, position = work.target, work.position
    reading = work.read_batch()
    if reading is None:
        return nothing_readable()
    work.stage("read")
    with work.watch.stage("read"):
        state = state_of(target, reading.good, applied_commit=commit_of(position.max_sequence))
        delta, counts = counted(reading, state)
    seen = work.seen(reading)
    late = seen.is_late(position.max_sequence) or work.retries or work.again
    if late:
        delta, counts = replayed(work, reading, delta, counts, seen)
    elif counts.doubtful:
        delta, counts = settled_in_order(work, current, reading, delta, counts, seen)
    with work.watch.stage("touched_days"):
        touched = touched_days(current.table, position.snapshot_id, target, delta)
    work.stage("write")
    written = Written(
        strategy="delete_and_append",
        changes=seen,
        rows_counted=reading.rows_counted,
        keys=counts.keys,
        followed=counts.followed,
        rows=counts.rows,
        images=living(delta),
        touched=touched,
    )
    if position.snapshot_id is not None:
        _make_room(work, current, written, delta)
    if not late:
        written.unseen_updates = partial(_unseen_updates, work, current, delta, counts)
        written.present = counts.present
    return written


def _make_room(work: Work, current: Attempt, written: Written, delta: DataFrame) -> None:
    """Takes the rows that have the batch's keys away: now, or by the commit that bears the position."""
    if not (0 < written.keys <= MOST_ROWS and is_small(work)):
        _delete(work, current, delta)
        return
    kept, written.kept = kept_rows(work, current, delta)
    assert written.images is not None
    new = in_table_columns(written.images, work.target)
    rows = in_table_columns(kept, work.target).union(new)
    written.strategy, written.images = REWRITE, rows.coalesce(1)


def replace_table(work: Work, current: Attempt) -> Written:
    """A full load and the CDC that belongs to it: the whole table anew, read and written in one pass. Keys that it does
    not settle are written in a second one."""
    target, reading = work.target, work.read_batch()
    if reading is None:  # a table without a full load, of whose changes none can be read any more
        return write_nothing(work.spark, current, target)
    observed = Observed()
    state = observe_states(state_of(target, reading.good), observed)
    work.stage("write")
    with work.watch.stage("write"):
        # An image that lacks columns may not even be fit to be written.
        write_all(living(state.filter("NOT _doubtful")), current, target)
    seen = work.seen(reading)
    counts = Counts.of(observed)
    images, rows, taken_back = None, counts.certain_rows, 0
    if counts.doubtful:
        delta, found = settled_again(work)
        taken_back = _there(work, current, delta)
        _delete(work, current, delta)
        images, rows = living(delta), rows + found.rows
    return Written(
        strategy="overwrite",
        changes=seen,
        rows_counted=reading.rows_counted,
        keys=seen.used + rows - counts.certain_rows,
        rows=rows,
        images=images,
        touched=all_days(target),
        taken_back=taken_back,
    )


def _delete(work: Work, current: Attempt, delta: DataFrame) -> None:
    matches = work.target.key_matches("k", "t")
    delta.createOrReplaceTempView(KEYS_VIEW)
    with work.watch.stage("delete"):
        work.spark.sql(
            sql(
                "DELETE FROM {branch} AS t WHERE EXISTS (SELECT 1 FROM {keys} AS k WHERE {matches})",
                branch=current.address,
                keys=KEYS_VIEW,
                matches=matches,
            )
        )
    work.spark.catalog.dropTempView(KEYS_VIEW)


def _there(work: Work, current: Attempt, delta: DataFrame) -> int:
    """Rows on the branch that have one of the keys."""
    table = work.spark.table(current.address).alias("t")
    return table.join(delta.alias("k"), F.expr(work.target.key_matches("k", "t")), "left_semi").count()


def _unseen_updates(work: Work, current: Attempt, delta: DataFrame, counts: Counts, removed: int) -> int:
    """Updates of keys that the table does not have, and that nothing in the batch brought there; not of those that the
    batch takes away again, as it may with a row that was deleted while the full load ran. Looked for only when the rows
    that made room are not as many as the changes speak of."""
    if not counts.updated or removed == counts.present:
        return 0
    if work.position.snapshot_id is None:
        return counts.updated
    updates = delta.filter((F.col("_first") == UPDATED) & ~F.col("_tombstone")).alias("k")
    # Main, which the batch has yet to be published to.
    there = work.spark.table(current.table).alias("t")
    return updates.join(there, F.expr(work.target.key_matches("k", "t")), "left_anti").count()

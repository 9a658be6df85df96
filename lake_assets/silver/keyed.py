"""A batch of a table of current rows: what it says of its keys replaces what the table says.

Here: the state of the batch's keys, also when a file came late, and its way onto the branch. Not here: the rule of a
key's state (`collapse.py`), the order of the steps (`apply.py`).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.batch import Written, nothing_readable
from lake_assets.silver.collapse import collapse, events, key_columns
from lake_assets.silver.plan import epoch_members
from lake_assets.silver.targets import Target
from lake_assets.silver.touched_days import touched_days
from lake_assets.silver.work import Work

KEYS_VIEW = "batch_keys"
MOST_BROADCAST_KEYS = 1_000_000


def current_rows(target: Target, changes: DataFrame) -> DataFrame:
    """The rows that the changes leave behind, in the table's columns."""
    return _living(_state(target, changes))


def replace_keys(work: Work, current: Attempt) -> Written:
    """Deletes the batch's keys on the branch; their new rows are left to the commit that bears the position."""
    target, position = work.target, work.position
    reading = work.read_batch()
    if reading is None:
        return nothing_readable()
    work.stage("read")
    with work.watch.stage("read"):
        # A checkpoint, not a cache: the delete's subquery and the append must see the very same rows.
        delta = reading.checkpointed(_state(target, reading.good))
    seen = work.seen(reading)
    if seen.is_late(position.max_sequence) or work.retries:
        delta = _replayed(work, delta)
    with work.watch.stage("read"):
        counts = delta.agg(F.count(F.lit(1)), F.count_if(~F.col("_tombstone"))).first()
        assert counts is not None, "an aggregate without grouping has one row"
    delta.createOrReplaceTempView(KEYS_VIEW)
    with work.watch.stage("touched_days"):
        touched = touched_days(work.spark, current.table, position.snapshot_id, target, KEYS_VIEW)
    work.stage("write")
    if position.snapshot_id is not None:
        matches = target.key_matches("k", "t")
        with work.watch.stage("delete"):
            work.spark.sql(
                f"DELETE FROM {current.address} AS t WHERE EXISTS (SELECT 1 FROM {KEYS_VIEW} AS k WHERE {matches})"
            )
    work.spark.catalog.dropTempView(KEYS_VIEW)
    return Written(
        strategy="delete_and_append",
        changes=seen,
        rows_counted=reading.rows_counted,
        keys=counts[0],
        rows=counts[1],
        images=_living(delta),
        touched=touched,
    )


def _replayed(work: Work, delta: DataFrame) -> DataFrame:
    """A late batch: the state of its keys from every file of the epoch, as if nothing had been applied yet."""
    work.stage("replay")
    with work.watch.stage("replay"):
        affected = delta.select(*key_columns(work.target.key))
        if not (keys := affected.count()):
            return delta  # a join with nothing would not read the files, and they would seem to have no rows
        reading = work.read_again(epoch_members(work.logged, work.batch.epoch, work.batch.upto))
        assert reading is not None, "the batch's own files are among them"
        if keys <= MOST_BROADCAST_KEYS:
            affected = F.broadcast(affected)
        state = reading.checkpointed(_state(work.target, reading.good, only=affected))
        reading.figures()
        return state


def _state(target: Target, changes: DataFrame, only: DataFrame | None = None) -> DataFrame:
    found = events(changes, target.key, before_images=target.before_images)
    if only is not None:
        found = found.join(only, on=key_columns(target.key), how="left_semi")
    return collapse(found, target.key)


def _living(state: DataFrame) -> DataFrame:
    return state.filter(~F.col("_tombstone")).select("_image.*")

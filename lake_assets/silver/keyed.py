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
from lake_assets.silver.reading import Reading
from lake_assets.silver.targets import Target
from lake_assets.silver.touched_days import touched_days
from lake_assets.silver.work import Work
from lake_assets.spark.checkpoint import Observed

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
        delta, counts = _counted(reading, _state(target, reading.good))
    seen = work.seen(reading)
    if seen.is_late(position.max_sequence) or work.retries:
        delta, counts = _replayed(work, delta, counts)
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
        keys=counts["keys"],
        rows=counts["rows"],
        images=_living(delta),
        touched=touched,
    )


def _counted(reading: Reading, state: DataFrame) -> tuple[DataFrame, dict[str, int]]:
    """The state, computed, with the number of its keys and of the rows that they have."""
    counted = Observed()
    rows = F.count_if(~F.col("_tombstone")).alias("rows")
    state = state.observe(counted.observation, F.count(F.lit(1)).alias("keys"), rows)
    return reading.checkpointed(state, counted), counted.observation.get


def _replayed(work: Work, delta: DataFrame, counts: dict[str, int]) -> tuple[DataFrame, dict[str, int]]:
    """A late batch: the state of its keys from every file of the epoch, as if nothing had been applied yet."""
    work.stage("replay")
    with work.watch.stage("replay"):
        affected = delta.select(*key_columns(work.target.key))
        if not (keys := counts["keys"]):
            return delta, counts  # a join with nothing would not read the files, as if they had no rows
        reading = work.read_again(epoch_members(work.logged, work.batch.epoch, work.batch.upto))
        assert reading is not None, "the batch's own files are among them"
        if keys <= MOST_BROADCAST_KEYS:
            affected = F.broadcast(affected)
        found = _counted(reading, _state(work.target, reading.good, only=affected))
        reading.figures()
        return found


def _state(target: Target, changes: DataFrame, only: DataFrame | None = None) -> DataFrame:
    found = events(changes, target.key, before_images=target.before_images)
    if only is not None:
        found = found.join(only, on=key_columns(target.key), how="left_semi")
    return collapse(found, target.key)


def _living(state: DataFrame) -> DataFrame:
    return state.filter(~F.col("_tombstone")).select("_image.*")

"""A large batch of Parquet files in two passes: first its keys, then the images of the rows that stay.

Parquet stores each column by itself, so that the first pass reads little. No image is kept or shuffled meanwhile: the
second pass reads the images on their way to the table. Only then are the values checked, so that a batch with a bad row
is written again, in one pass. Here: which batches, and both passes. Not here: the rule of a key's state
(`silver/changes/collapse.py`), writing the states (`upsert.py`).
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.files.keys import FileKind
from lake_assets.silver.changes.key_states import Counts, broadcast_if_few
from lake_assets.silver.changes.large_batch import has_large_files, is_large, large_states
from lake_assets.silver.changes.reading import PLACE, Reading
from lake_assets.silver.changes.row_cut import ALL_ROWS
from lake_assets.silver.table.change_events import DELETED, ChangeFigures, commit_of
from lake_assets.silver.write.batch_reader import BatchReader
from lake_assets.spark.checkpoint import Observed, checkpointed


class ValuesDiffer(Exception):
    """The second pass has found a bad row, or other rows than the first one."""


@dataclass(frozen=True, slots=True)
class KeysFirst:
    """The states of a batch's keys by the first pass, and the images that the second pass reads."""

    delta: DataFrame
    """As the states of `collapse`; an image has only the key, tracked columns and its place."""
    counts: Counts
    images: DataFrame
    """The new rows of the keys, not read yet."""
    reading: Reading
    """What reads them."""
    seen: ChangeFigures
    """The figures of the first pass."""

    def verify(self) -> None:
        """Called once the images were written. Raises ValuesDiffer."""
        found = self.reading.figures()
        if found != self.seen:
            raise ValuesDiffer


def keys_first(reader: BatchReader, reading: Reading) -> KeysFirst | None:
    """The states of the batch by its keys alone; None for a batch that takes one pass."""
    context, target = reader.context, reader.context.target
    if not _may_be_read_twice(reader, reading):
        return None
    columns = dict.fromkeys([*target.key, *target.track_days])
    narrow = reader.without_values(reading, list(columns))
    delta, counts, repeated = large_states(target, narrow, commit_of(context.position.max_sequence))
    seen = reader.check(narrow)
    if reader.recomputes_keys or counts.doubtful:
        return None
    images = reading.good.filter(F.col("_op") != DELETED)
    if repeated is not None:
        # The images that a later change of their key replaces.
        replaced = _places(repeated.events).join(_places(repeated.states), on=list(PLACE), how="left_anti")
        images = _without(images, replaced)
    return KeysFirst(delta, counts, images.select("_image.*"), reading, seen)


def _may_be_read_twice(reader: BatchReader, reading: Reading) -> bool:
    context = reader.context
    if context.in_one_pass or context.again or context.retries or reading.cut is not ALL_ROWS:
        return False
    plain = all(
        part.file.format == "parquet"
        and part.file.kind is FileKind.CDC
        and part.only is None
        and not part.without
        for part in reading.parts
    )
    return plain and is_large(reading) and has_large_files(reading)


def _places(events: DataFrame) -> DataFrame:
    return events.filter("NOT _tombstone").select(*(F.col("_image")[name].alias(name) for name in PLACE))


def _without(images: DataFrame, places: DataFrame) -> DataFrame:
    """The changes that are at none of the places."""
    found = Observed()
    computed = checkpointed(found.on(places, F.count(F.lit(1)).alias("rows")), (found,))
    few = broadcast_if_few(computed, int(found.get["rows"]))
    return images.withColumn(PLACE[1], F.col("_row")).join(few, on=list(PLACE), how="left_anti")

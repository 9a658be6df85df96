"""The states of a batch's keys; a large batch with before images takes another way.

To make two events of an update that changes its key, Spark would make an array of each change and explode it, which
takes as long as reading the changes. Few updates change a key: so the changes of a large batch are computed first, and
the moves among them counted. Here: that. Not here: the rule of a key's state (`collapse.py`). DataFrame API only.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.silver.changes.collapse import collapse, events, is_key_move, move_events
from lake_assets.silver.changes.key_states import Counts, counted, state_of
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.table.targets import Target
from lake_assets.spark.checkpoint import Observed

LARGE = 50_000
"""Rows of a large batch."""


def is_large(reading: Reading) -> bool:
    """Whether the batch has so many rows that reading and writing them takes longer than further jobs."""
    return reading.rows_counted >= LARGE


def batch_states(target: Target, reading: Reading, *, applied_commit: str = "") -> tuple[DataFrame, Counts]:
    """The states of the keys of a batch that is read for the first time, by `collapse`, and their figures."""
    if target.before_images and is_large(reading):
        found = _computed_events(target, reading)
        return counted(target, collapse(found, target.key, applied_commit=applied_commit))
    return counted(target, state_of(target, reading.good, applied_commit=applied_commit), reading)


def _computed_events(target: Target, reading: Reading) -> DataFrame:
    """The events of the changes, which are computed."""
    wanted = ["_op", "_sequence", "_file", "_row", "_image", "_before"]
    if "_unsupplied" in reading.good.columns:
        wanted.append("_unsupplied")
    moves = Observed()
    changes = reading.good.select(*wanted, is_key_move(target.key).alias("_moves"))
    changes = reading.checkpointed(moves.on(changes, F.count_if("_moves").alias("moves")), moves)
    if not moves.get["moves"]:
        return events(changes, target.key, before_images=False)
    others = events(changes.filter("NOT _moves"), target.key, before_images=False)
    return others.unionByName(move_events(changes.filter("_moves"), target.key))

"""States of keys by the rule of `collapse.py`, with their figures.

Here: computing and counting them, and a row of the table in their form. Not here: the rule (`collapse.py`), writing
them to the table (`silver/write/current/upsert.py`).
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.silver.changes.collapse import collapse, events
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.table.change_events import DELETED, MOVED_AWAY, UPDATED, key_columns
from lake_assets.silver.table.targets import Target
from lake_assets.spark.checkpoint import Observed, checkpointed
from lake_assets.spark.sql import quoted

MOST_BROADCAST_KEYS = 1_000_000


@dataclass(frozen=True, slots=True)
class Counts:
    """Figures of states."""

    keys: int
    rows: int
    """Keys that have a row."""
    doubtful: int
    present: int
    """Keys that the table should have: their first event updates a row, or removes it."""
    updated: int
    """Keys that have a row, and whose first event is an update that does not change the key."""
    lowest: int | None = None
    highest: int | None = None
    """The range of the key's first column; None without keys, or if it is not of whole numbers."""
    followed: int = 0
    """Keys that no change of the batch names, but from which its rows moved."""

    @classmethod
    def of(cls, observed: Observed) -> "Counts":
        """Blocks until the states have been computed."""
        return cls(**observed.get)


def state_of(
    target: Target, changes: DataFrame, only: DataFrame | None = None, *, applied_commit: str = ""
) -> DataFrame:
    """The states of the changes' keys; if given, of the keys in `only`. See `collapse`."""
    found = events(changes, target.key, before_images=target.before_images)
    if only is not None:
        found = found.join(only, on=key_columns(target.key), how="left_semi")
    return collapse(found, target.key, applied_commit=applied_commit)


def observe_states(target: Target, states: DataFrame, observed: Observed) -> DataFrame:
    """The same states, counted while they are computed."""
    return observed.on(states, *_figures(target))


def _figures(target: Target) -> list[Column]:
    first = F.col("_first")
    return [
        F.count(F.lit(1)).alias("keys"),
        F.count_if(~F.col("_tombstone")).alias("rows"),
        F.count_if("_doubtful").alias("doubtful"),
        F.count_if(first.isin(UPDATED, DELETED, MOVED_AWAY)).alias("present"),
        F.count_if((first == UPDATED) & ~F.col("_tombstone")).alias("updated"),
        *key_range(target, F.col("_key_0")),
    ]


def key_range(target: Target, value: Column) -> list[Column]:
    """The figures `lowest` and `highest` of the key's first column."""
    # Only whole numbers pass through this process: a date may be of a year that Python does not have.
    number = value if target.has_number_key else F.lit(None).cast("bigint")
    return [F.min(number).alias("lowest"), F.max(number).alias("highest")]


def counted(target: Target, states: DataFrame, *readings: Reading) -> tuple[DataFrame, Counts]:
    """The computed states and their figures. `readings`: those that the states are computed from."""
    observed = Observed()
    observations = [each for reading in readings for each in reading.observations]
    done = checkpointed(observe_states(target, states, observed), (observed, *observations))
    return done, Counts.of(observed)


def living(states: DataFrame) -> DataFrame:
    """The rows of the states that have one, in the table's columns."""
    return states.filter(~F.col("_tombstone")).select("_image.*")


def broadcast_if_few(keys: DataFrame, count: int) -> DataFrame:
    """The keys, marked for a broadcast join unless they are too many."""
    return F.broadcast(keys) if count <= MOST_BROADCAST_KEYS else keys


def keys_of(states: DataFrame, target: Target, count: int) -> DataFrame:
    """The keys of the states, as `broadcast_if_few`."""
    return broadcast_if_few(states.select(*key_columns(target.key)), count)


def table_image(target: Target) -> Column:
    """The struct of the source's columns of a silver row, in the form that changes have."""
    return F.struct(*(F.col(quoted(column.name)) for column in target.image_columns))

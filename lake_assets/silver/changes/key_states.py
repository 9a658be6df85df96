"""States of keys, as `collapse.py` makes them from changes, with their figures.

Here: computing and counting them, and a row of the table in their form. Not here: the rule (`collapse.py`), what is
done with them (`silver/write/upsert.py`).
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
    certain_rows: int
    """Keys that have a row and are not doubtful."""
    doubtful: int
    present: int
    """Keys that the table should have: their first event updates a row, or takes it away."""
    updated: int
    """Keys whose first event is an update that leaves the key as it is."""
    followed: int = 0
    """Keys that no change of the batch names: its rows came from there."""

    @classmethod
    def of(cls, observed: Observed) -> "Counts":
        """Blocks until the states have been computed."""
        return cls(**observed.get)


def state_of(
    target: Target, changes: DataFrame, only: DataFrame | None = None, *, applied_commit: str = ""
) -> DataFrame:
    """The states of the keys that the changes mention; of the keys in `only`, if given. See `collapse`."""
    found = events(changes, target.key, before_images=target.before_images)
    if only is not None:
        found = found.join(only, on=key_columns(target.key), how="left_semi")
    return collapse(found, target.key, applied_commit=applied_commit)


def observe_states(states: DataFrame, observed: Observed) -> DataFrame:
    """The same states, counted while they are computed."""
    has_row, first = ~F.col("_tombstone"), F.col("_first")
    return observed.on(
        states,
        F.count(F.lit(1)).alias("keys"),
        F.count_if(has_row).alias("rows"),
        F.count_if(has_row & ~F.col("_doubtful")).alias("certain_rows"),
        F.count_if("_doubtful").alias("doubtful"),
        F.count_if(first.isin(UPDATED, DELETED, MOVED_AWAY)).alias("present"),
        F.count_if(first == UPDATED).alias("updated"),
    )


def counted(states: DataFrame, reading: Reading | None = None) -> tuple[DataFrame, Counts]:
    """States, computed, and their figures; `reading` is the one whose changes they are made of."""
    observed = Observed()
    states = observe_states(states, observed)
    done = checkpointed(states, [observed]) if reading is None else reading.checkpointed(states, observed)
    return done, Counts.of(observed)


def living(states: DataFrame) -> DataFrame:
    """The rows that the states leave behind, in the table's columns."""
    return states.filter(~F.col("_tombstone")).select("_image.*")


def broadcast_if_few(keys: DataFrame, count: int) -> DataFrame:
    """The keys, which a join sends to every task unless they are too many."""
    return F.broadcast(keys) if count <= MOST_BROADCAST_KEYS else keys


def table_image(target: Target) -> Column:
    """Of a row of the silver table, the struct of the source's columns, as changes have it."""
    return F.struct(*(F.col(quoted(column.name)) for column in target.image_columns))

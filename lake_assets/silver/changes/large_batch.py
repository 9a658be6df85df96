"""The states of a large batch's keys.

Most of its keys have one change, which is their state. Only the others are sorted, so that the images of the batch are
not shuffled. For a small batch, the further jobs take longer than the sort. Here: finding the keys that have several
changes. Not here: the rule of a key's state (`collapse.py`). DataFrame API only.
"""

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType

from lake_assets.silver.changes.collapse import alone, collapse, events, is_key_move, move_events
from lake_assets.silver.changes.key_states import (
    Counts,
    broadcast_if_few,
    count_states,
    counted,
    observe_states,
    state_of,
)
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.table.change_events import key_columns
from lake_assets.silver.table.targets import Target
from lake_assets.spark.checkpoint import Observed, checkpointed
from lake_assets.spark.sql import quoted, sql

LARGE = 50_000
"""Rows of a large batch."""


def is_large(reading: Reading) -> bool:
    """Whether the batch has so many rows that a shuffle of its images takes longer than further jobs."""
    return reading.rows_counted >= LARGE


def batch_states(target: Target, reading: Reading, *, applied_commit: str = "") -> tuple[DataFrame, Counts]:
    """The states of the keys of a batch that is read for the first time, by `collapse`, and their figures."""
    if not is_large(reading):
        return counted(state_of(target, reading.good, applied_commit=applied_commit), reading)
    found, names = _events(target, reading), key_columns(target.key)
    single = alone(found, target.key, applied_commit=applied_commit)
    observed = Observed()
    repeated, number = repeated_keys(observe_states(single.drop("_image"), observed), names, observed)
    if not number:
        return single, Counts.of(observed)
    few = broadcast_if_few(repeated, number)
    several = found.join(few, on=names, how="left_semi")
    collapsed = checkpointed(collapse(several, target.key, applied_commit=applied_commit))
    states = single.join(few, on=names, how="left_anti").unionByName(collapsed)
    return states, count_states(states)


def repeated_keys(rows: DataFrame, names: Sequence[str], *observed: Observed) -> tuple[DataFrame, int]:
    """The keys that several of the rows have, computed, and their number; fills the observations in the rows' plan."""
    is_number = len(names) == 1 and rows.schema[names[0]].dataType in (IntegerType(), LongType())
    if is_number and not _any_repeats(rows, names[0], observed):
        return rows.select(*names).limit(0), 0
    found, times = Observed(), rows.groupBy(*names).agg(F.count(F.lit(1)).alias("_times"))
    repeated = found.on(times.filter("_times > 1").select(*names), F.count(F.lit(1)).alias("keys"))
    return checkpointed(repeated, (*observed, found)), int(found.get["keys"])


def _any_repeats(rows: DataFrame, name: str, observed: Iterable[Observed]) -> bool:
    """Whether a whole number occurs twice. A bit for each of 64 neighbours makes an aggregate with fewer groups."""
    key = quoted(name)
    bits = sql("bit_or(shiftleft(1L, CAST({key} & 63 AS INT)))", key=key)
    blocks = rows.groupBy(F.shiftright(name, 6)).agg(
        F.count(F.lit(1)).alias("_rows"), F.expr(bits).alias("_bits")
    )
    more = blocks.agg(F.sum(F.col("_rows") - F.bit_count("_bits")).alias("more"))
    found = checkpointed(more, observed).first()
    return found is not None and bool(found["more"])


def _events(target: Target, reading: Reading) -> DataFrame:
    """The events of the computed changes."""
    wanted = ["_op", "_sequence", "_file", "_row", "_image"]
    wanted += [name for name in ("_unsupplied", "_before") if name in reading.good.columns]
    if not target.before_images:
        return events(reading.checkpointed(reading.good.select(*wanted)), target.key, before_images=False)
    moves = Observed()
    changes = reading.good.select(*wanted, is_key_move(target.key).alias("_moves"))
    changes = reading.checkpointed(moves.on(changes, F.count_if("_moves").alias("moves")), moves)
    if not moves.get["moves"]:
        return events(changes, target.key, before_images=False)
    others = events(changes.filter("NOT _moves"), target.key, before_images=False)
    return others.unionByName(move_events(changes.filter("_moves"), target.key))

"""The states of a large batch's keys.

Most of its keys have one change, which is their state. Only the others are sorted, so that the images of the batch are
not shuffled. For a small batch, the further jobs take longer than the sort. Here: finding the keys that have several
changes. Not here: the rule of a key's state (`collapse.py`). DataFrame API only.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.silver.changes.collapse import (
    collapse,
    events,
    is_key_move,
    move_events,
    states_of,
    with_own_state,
)
from lake_assets.silver.changes.key_states import (
    Counts,
    broadcast_if_few,
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
BLOCK = "_block"


def is_large(reading: Reading) -> bool:
    """Whether the batch has so many rows that a shuffle of its images takes longer than further jobs."""
    return reading.rows_counted >= LARGE


def batch_states(
    target: Target, reading: Reading, *, applied_commit: str = ""
) -> tuple[DataFrame, Counts, DataFrame]:
    """The states of the keys of a batch that is read for the first time, by `collapse`, and their figures; and computed
    rows with the same keys, which may repeat: cheaper to read than the states of a large batch."""
    if not is_large(reading):
        states, counts = counted(
            target, state_of(target, reading.good, applied_commit=applied_commit), reading
        )
        return states, counts, states
    found = with_own_state(_events(target, reading), applied_commit=applied_commit)
    names, observed = key_columns(target.key), Observed()
    repeated, number = repeated_keys(observe_states(target, found.drop("_image"), observed), names, observed)
    if not number:
        return states_of(found), Counts.of(observed), found
    few, before, after = broadcast_if_few(repeated, number), Observed(), Observed()
    several = observe_states(target, found.join(few, on=names, how="left_semi"), before)
    collapsed = collapse(several, target.key, applied_commit=applied_commit)
    collapsed = checkpointed(observe_states(target, collapsed, after), (before, after))
    states = states_of(found.join(few, on=names, how="left_anti")).unionByName(collapsed)
    return states, Counts.of(observed).replaced(Counts.of(before), Counts.of(after)), found


def repeated_keys(rows: DataFrame, names: Sequence[str], *observed: Observed) -> tuple[DataFrame, int]:
    """The keys that several of the rows have, computed, and their number; fills the observations in the rows' plan."""
    found, times = Observed(), rows.groupBy(*names).agg(F.count(F.lit(1)).alias("_times"))
    repeated = found.on(times.filter("_times > 1").select(*names), F.count(F.lit(1)).alias("keys"))
    return checkpointed(repeated, (*observed, found)), int(found.get["keys"])


def repeated_numbers(rows: DataFrame, name: str) -> tuple[DataFrame, int]:
    """As `repeated_keys`, for a key of one whole number and the rows of a whole table. First finds the blocks of 64
    neighbours in which a number repeats: a bit for each neighbour makes an aggregate of fewer groups."""
    in_blocks = rows.withColumn(BLOCK, F.shiftright(name, 6))
    bits = sql("bit_or(shiftleft(1L, CAST({key} & 63 AS INT)))", key=quoted(name))
    blocks = in_blocks.groupBy(BLOCK).agg(F.count(F.lit(1)).alias("_rows"), F.expr(bits).alias("_bits"))
    repeating = blocks.filter(F.col("_rows") > F.bit_count("_bits")).select(BLOCK)
    found = Observed()
    done = checkpointed(found.on(repeating, F.count(F.lit(1)).alias("blocks")), [found])
    if not (number := int(found.get["blocks"])):
        return rows.limit(0), 0
    return repeated_keys(in_blocks.join(broadcast_if_few(done, number), on=BLOCK, how="left_semi"), [name])


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

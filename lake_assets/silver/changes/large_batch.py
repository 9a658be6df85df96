"""The states of a batch's keys; some large batches take another way.

To make two events of an update that changes its key, Spark would make an array of each change and explode it, which
takes as long as reading the changes. Few updates change a key: so the changes of a large batch with before images are
computed first, and the moves among them counted. And new rows need no sort: where the table's last batch had only
inserts, the keys that repeat are counted first. Here: that. Not here: the rule of a key's state (`collapse.py`).
DataFrame API only.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.silver.changes.collapse import collapse, events, is_key_move, move_events
from lake_assets.silver.changes.key_states import (
    Counts,
    broadcast_if_few,
    counted,
    key_range,
    state_of,
)
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.table.change_events import INSERTED, key_columns
from lake_assets.silver.table.targets import Target
from lake_assets.spark.checkpoint import Observed, checkpointed
from lake_assets.spark.sql import quoted, sql

LARGE = 50_000
"""Rows of a large batch."""
BLOCK = "_block"


def is_large(reading: Reading) -> bool:
    """Whether the batch has so many rows that reading and writing them takes longer than further jobs."""
    return reading.rows_counted >= LARGE


def batch_states(
    target: Target, reading: Reading, *, applied_commit: str = "", only_inserts: bool = False
) -> tuple[DataFrame, Counts]:
    """The states of the keys of a batch that is read for the first time, by `collapse`, and their figures.
    `only_inserts`: whether the batch probably has no other changes."""
    if not is_large(reading) or not (target.before_images or only_inserts):
        return counted(target, state_of(target, reading.good, applied_commit=applied_commit), reading)
    seen, changes = Observed(), _changes(target, reading)
    figures = [
        F.count(F.lit(1)).alias("rows"),
        F.count_if("_moves").alias("moves"),
        F.count_if((F.col("_op") != INSERTED) | (F.size("_unsupplied") > 0)).alias("others"),
        *key_range(target, F.col("_image")[target.key[0]]),
    ]
    changes = reading.checkpointed(seen.on(changes, *figures), seen)
    if only_inserts and not seen.get["others"]:
        states, keys = _inserted(target, changes), key_columns(target.key)
        if not repeated_keys(states.select(*keys), keys)[1]:
            rows, low, high = (seen.get[name] for name in ("rows", "lowest", "highest"))
            return states, Counts(rows, rows, doubtful=0, present=0, updated=0, lowest=low, highest=high)
    found = _events(target, changes, has_moves=bool(seen.get["moves"]))
    return counted(target, collapse(found, target.key, applied_commit=applied_commit))


def _changes(target: Target, reading: Reading) -> DataFrame:
    """The usable changes, with `_unsupplied` and with whether they move their key, `_moves`."""
    good = reading.good
    if "_unsupplied" not in good.columns:
        good = good.withColumn("_unsupplied", F.array().cast("array<string>"))
    wanted = ["_op", "_sequence", "_file", "_row", "_image", "_unsupplied"]
    if not target.before_images:
        return good.select(*wanted, F.lit(False).alias("_moves"))
    return good.select(*wanted, "_before", is_key_move(target.key).alias("_moves"))


def _events(target: Target, changes: DataFrame, *, has_moves: bool) -> DataFrame:
    """The events of the changes, which are computed."""
    if not has_moves:
        return events(changes, target.key, before_images=False)
    others = events(changes.filter("NOT _moves"), target.key, before_images=False)
    return others.unionByName(move_events(changes.filter("_moves"), target.key))


def _inserted(target: Target, changes: DataFrame) -> DataFrame:
    """The states of inserts whose keys do not repeat, as `collapse`."""
    image, no = F.col("_image"), F.lit(False)
    keys = (image[name].alias(held) for held, name in zip(key_columns(target.key), target.key, strict=True))
    first = F.lit(INSERTED).alias("_first")
    return changes.select(*keys, no.alias("_tombstone"), image, first, no.alias("_doubtful"))


def repeated_keys(rows: DataFrame, names: Sequence[str]) -> tuple[DataFrame, int]:
    """The keys that several of the rows have, computed, and their number."""
    found, times = Observed(), rows.groupBy(*names).agg(F.count(F.lit(1)).alias("_times"))
    repeated = found.on(times.filter("_times > 1").select(*names), F.count(F.lit(1)).alias("keys"))
    return checkpointed(repeated, [found]), int(found.get["keys"])


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

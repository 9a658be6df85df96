"""The states of a batch's keys; a large batch takes another way.

To find the state of a key, Spark sorts its changes, and most keys of a batch have only one. So the changes of a large
batch are computed first, and then its keys are counted: only the changes of keys that repeat are sorted. To make two
events of an update that changes its key, Spark would make an array of each change and explode it, which takes as long
as reading the changes. Few updates do that, so they are counted, too. Here: that. Not here: the rule of a key's state
(`collapse.py`). DataFrame API only.
"""

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.silver.changes.collapse import collapse, commit_of_sequence, events, is_key_move, move_events
from lake_assets.silver.changes.key_states import (
    Counts,
    broadcast_if_few,
    counted,
    key_range,
    observe_states,
    state_of,
)
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.table.change_events import DELETED, UPDATED, key_columns
from lake_assets.silver.table.targets import Target
from lake_assets.spark.checkpoint import Observed, checkpointed
from lake_assets.spark.sql import quoted, sql

MOST_REPEATED = 1 / 8
"""The share of a batch's rows up to which its repeated keys are sorted apart: if more repeat, all are sorted."""
BLOCK = "_block"


def batch_states(target: Target, reading: Reading, *, applied_commit: str = "") -> tuple[DataFrame, Counts]:
    """The states of the keys of a batch that is read for the first time, by `collapse`, and their figures."""
    if not reading.is_large:
        return counted(target, state_of(target, reading.good, applied_commit=applied_commit), reading)
    seen = Observed()
    figures = [
        *_by_operation(),
        F.count_if("_moves").alias("moves"),
        F.count_if(_is_doubtful(applied_commit)).alias("doubtful"),
        *key_range(target, F.col("_key_0")),
    ]
    changes = reading.checkpointed(seen.on(_changes(target, reading), *figures), seen)
    found = seen.get
    if not found["moves"] and not found["doubtful"]:
        keys = key_columns(target.key)
        several, number = repeated_keys(changes.select(*keys), keys)
        if number <= found["rows"] * MOST_REPEATED:
            return _mostly_single(target, changes, seen, broadcast_if_few(several, number), number)
    states = _events(target, changes, has_moves=bool(found["moves"]))
    return counted(target, collapse(states, target.key, applied_commit=applied_commit))


def _changes(target: Target, reading: Reading) -> DataFrame:
    """The usable changes, with their keys, with `_unsupplied`, and with whether they move their key, `_moves`."""
    good = reading.good
    if "_unsupplied" not in good.columns:
        good = good.withColumn("_unsupplied", F.array().cast("array<string>"))
    image, names = F.col("_image"), zip(key_columns(target.key), target.key, strict=True)
    keys = {held: image[name] for held, name in names}
    wanted = ["_op", "_sequence", "_file", "_row", "_image", "_unsupplied"]
    if not target.before_images:
        return good.select(*wanted).withColumns(keys | {"_moves": F.lit(False)})
    return good.select(*wanted, "_before").withColumns(keys | {"_moves": is_key_move(target.key)})


def _by_operation() -> list[Column]:
    """The numbers of changes, of deletes among them, and of updates."""
    deletes, updates = (F.count_if(F.col("_op") == op) for op in (DELETED, UPDATED))
    return [F.count(F.lit(1)).alias("rows"), deletes.alias("deletes"), updates.alias("updates")]


def _is_doubtful(applied_commit: str) -> Column:
    """Whether a change that is its key's only one does not determine the key's state: see `collapse`."""
    lost = (F.col("_op") == DELETED) & (commit_of_sequence("_sequence") <= applied_commit)
    return lost | (F.size("_unsupplied") > 0)


def _events(target: Target, changes: DataFrame, *, has_moves: bool) -> DataFrame:
    """The events of the changes, which are computed."""
    if not has_moves:
        return events(changes, target.key, before_images=False)
    others = events(changes.filter("NOT _moves"), target.key, before_images=False)
    return others.unionByName(move_events(changes.filter("_moves"), target.key))


def _mostly_single(
    target: Target, changes: DataFrame, seen: Observed, several: DataFrame, number: int
) -> tuple[DataFrame, Counts]:
    """The states of the computed changes, whose figures are `seen`. `several`: the `number` keys with several."""
    figures = seen.get
    rows, deletes, updates = (int(figures[name]) for name in ("rows", "deletes", "updates"))
    ends = {"lowest": figures["lowest"], "highest": figures["highest"]}
    keys = key_columns(target.key)
    if not number:
        counts = Counts(rows, rows - deletes, 0, updates + deletes, updates, **ends)
        return _single(changes, keys), counts
    inside, observed = Observed(), Observed()
    theirs = inside.on(changes.join(several, on=keys, how="left_semi"), *_by_operation())
    states = collapse(events(theirs, target.key, before_images=False), target.key)
    states = checkpointed(observe_states(target, states, observed), (observed, inside))
    found, own = inside.get, Counts.of(observed)
    rows, deletes, updates = rows - found["rows"], deletes - found["deletes"], updates - found["updates"]
    counts = replace(
        own,
        keys=own.keys + rows,
        rows=own.rows + rows - deletes,
        present=own.present + updates + deletes,
        updated=own.updated + updates,
        **ends,
    )
    return _single(changes.join(several, on=keys, how="left_anti"), keys).unionByName(states), counts


def _single(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The states of keys with one change each, as `collapse`."""
    tombstone, no = F.col("_op") == DELETED, F.lit(False)
    return changes.select(
        *keys, tombstone.alias("_tombstone"), "_image", F.col("_op").alias("_first"), no.alias("_doubtful")
    )


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

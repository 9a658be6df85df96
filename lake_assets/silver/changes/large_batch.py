"""The states of a batch's keys; a large batch takes another way.

To find the last change of each key, Spark sorts whole images. So the changes of a large batch are computed first, and
then the last change of each key is found by numbers alone, if each change has a sequence of its own and no update moves
its key. Most keys have only one change. An update that changes its key is two events. To make them, Spark would turn
each change into an array and explode it, which takes as long as reading the changes; so only these few updates go that
way. Here: those steps. Not here: the rule of a key's state (`collapse.py`). DataFrame API only.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.silver.changes.collapse import (
    collapse,
    commit_of_sequence,
    events,
    has_own_sequence,
    is_key_move,
    move_events,
)
from lake_assets.silver.changes.key_states import (
    Counts,
    broadcast_if_few,
    counted,
    key_range,
    state_of,
)
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.table.change_events import DELETED, INSERTED, UPDATED, key_columns
from lake_assets.silver.table.targets import Target
from lake_assets.spark.checkpoint import Observed, checkpointed

OPERATIONS, KIND_NUMBERS = (INSERTED, UPDATED, DELETED), "123"
"""Digits behind a sequence that stand for the operations I, U and D."""


def batch_states(target: Target, reading: Reading, *, applied_commit: str = "") -> tuple[DataFrame, Counts]:
    """The states of the keys of a batch that is read for the first time, by `collapse`, and their figures."""
    if not reading.is_large:
        return counted(target, state_of(target, reading.good, applied_commit=applied_commit), reading)
    seen = Observed()
    figures = [
        F.count(F.lit(1)).alias("rows"),
        F.count_if(F.col("_op") == DELETED).alias("deletes"),
        F.count_if(F.col("_op") == UPDATED).alias("updates"),
        F.count_if("_moves").alias("moves"),
        F.count_if(_is_doubtful(applied_commit)).alias("doubtful"),
        F.count_if(~has_own_sequence(F.col("_sequence"))).alias("unordered"),
        *key_range(target, F.col("_key_0")),
    ]
    changes = reading.checkpointed(seen.on(_changes(target, reading), *figures), seen)
    found = seen.get
    if not found["moves"] and not found["doubtful"] and not found["unordered"]:
        states = _last_by_sequence(target, changes, seen)
        if states is not None:
            return states
    every = _events(target, changes, has_moves=bool(found["moves"]))
    return counted(target, collapse(every, target.key, applied_commit=applied_commit))


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


def _last_by_sequence(target: Target, changes: DataFrame, seen: Observed) -> tuple[DataFrame, Counts] | None:
    """The states of the computed changes by the rule of `collapse`, and the states' figures. Each change must have a
    sequence of its own and keep its key. `seen`: the figures of the changes. None if the last sequence of a key occurs
    twice."""
    figures, keys = seen.get, key_columns(target.key)
    rows, deletes, updates = (int(figures[name]) for name in ("rows", "deletes", "updates"))
    several, number, theirs = _several(changes, keys)
    if not number:
        ends = figures["lowest"], figures["highest"]
        return _states(changes, keys), Counts(rows, rows - deletes, 0, updates + deletes, updates, *ends)
    joined = changes.join(broadcast_if_few(several, number), on=keys, how="left")
    is_last = F.col("_last").isNull() | (F.col("_sequence") == F.col("_last"))
    states, counts = counted(target, _states(joined.filter(is_last), keys))
    return (states, counts) if counts.keys == rows - theirs + number else None


def _several(changes: DataFrame, keys: Sequence[str]) -> tuple[DataFrame, int, int]:
    """The keys with several changes, computed, with `_last` (the sequence of the last change), `_first` (the operation
    of the first change) and `_doubtful` (as `collapse`); the number of these keys, and the number of their changes.

    The sequence is a number here, with the operation as the last digit, so Spark hashes and need not sort.
    """
    kind = F.translate("_op", "".join(OPERATIONS), KIND_NUMBERS)
    place = F.concat("_sequence", kind).try_cast("decimal(38, 0)")
    ordered = changes.select(*keys, place.alias("_place"), (F.col("_op") == INSERTED).alias("_inserts"))
    found = ordered.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("_times"),
        F.max("_place").cast("string").alias("_last"),
        F.min("_place").cast("string").alias("_first"),
        F.max(F.when(F.col("_inserts"), F.col("_place"))).cast("string").alias("_arrived"),
    )
    lost = F.translate(F.right("_last", F.lit(1)), KIND_NUMBERS, "".join(OPERATIONS)) == DELETED
    same_commit = commit_of_sequence("_arrived") == commit_of_sequence("_last")
    several = found.filter("_times > 1").select(
        *keys,
        F.left("_last", F.length("_last") - 1).alias("_last"),
        F.translate(F.right("_first", F.lit(1)), KIND_NUMBERS, "".join(OPERATIONS)).alias("_first"),
        F.coalesce(lost & same_commit, F.lit(False)).alias("_doubtful"),
        "_times",
    )
    observed = Observed()
    counts = F.count(F.lit(1)).alias("keys"), F.coalesce(F.sum("_times"), F.lit(0)).alias("changes")
    done = checkpointed(observed.on(several, *counts), [observed])
    return done.drop("_times"), int(observed.get["keys"]), int(observed.get["changes"])


def _states(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The states of keys by the last change of each, as `collapse`; `changes` may have some of the columns of
    `_several`."""
    first, doubtful = F.col("_op"), F.lit(False)
    if "_first" in changes.columns:
        first, doubtful = F.coalesce("_first", first), F.coalesce("_doubtful", doubtful)
    tombstone = (F.col("_op") == DELETED).alias("_tombstone")
    return changes.select(*keys, tombstone, "_image", first.alias("_first"), doubtful.alias("_doubtful"))

"""From changes to the state of each key: the rule by which silver is computed.

Every DMS row becomes events of a key: an image or a tombstone; a key update with a before image is a tombstone of the
old key and an image of the new one. A key's state is its event with the highest sequence. Keys whose last event does
not determine their state are marked as doubtful, and settled by `key_moves.py`. Here: that rule, and the figures of a
batch. Not here: which files, writing the state to the table. DataFrame API only.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.decode.dms_columns import SYNTHETIC_TAIL
from lake_assets.silver.table.change_events import (
    COMMIT_DIGITS,
    DELETED,
    INSERTED,
    MOVED_AWAY,
    MOVED_HERE,
    UPDATED,
    ChangeFigures,
    key_columns,
)
from lake_assets.spark.checkpoint import Observed


def has_own_sequence(sequence: Column) -> Column:
    """Whether a change has a sequence of DMS, which identifies it when it is delivered again."""
    return (sequence != "") & ~sequence.endswith(SYNTHETIC_TAIL)


def observe_changes(changes: DataFrame, checked: ChangeFigures | None = None) -> tuple[DataFrame, Observed]:
    """The same rows, and the observation that counts them while they are computed, without a second read. `checked`:
    the figures that are known already."""
    seen = Observed()
    counts = [
        F.count(F.lit(1)).alias("rows"),
        F.count_if(F.col("_bad").isNotNull()).alias("bad_rows"),
    ]
    if checked is not None:
        return seen.on(changes, *counts), seen
    # A row that cannot be used may have any sequence and time.
    usable, micros = F.col("_bad").isNull(), F.unix_micros("_commit_ts")
    # Full-load rows have the empty sequence; the lowest one that counts is that of a change.
    is_change = usable & (F.col("_sequence") != "")
    observed = seen.on(
        changes,
        *counts,
        *(F.count_if(F.col("_op") == op).alias(f"op_{op}") for op in "IUD"),
        F.min(F.when(is_change, F.col("_sequence"))).alias("min_sequence"),
        F.max(F.when(usable, F.col("_sequence"))).alias("max_sequence"),
        F.max(F.when(usable, micros)).alias("max_commit_micros"),
        F.min(F.when(is_change, micros)).alias("min_commit_micros"),
    )
    return observed, seen


def observe_used(changes: DataFrame) -> tuple[DataFrame, Observed]:
    """The same rows, and the observation that counts them."""
    used = Observed()
    return used.on(changes, F.count(F.lit(1)).alias("rows")), used


def figures(changes: Observed, used: Observed, checked: ChangeFigures | None = None) -> ChangeFigures:
    """The figures of observations whose rows have been read. Blocks until they are known."""
    seen, known = changes.get, checked
    if known is None:
        micros, first = seen["max_commit_micros"], seen["min_commit_micros"]
        known = ChangeFigures(
            by_op={op: seen[f"op_{op}"] for op in "IUD"},
            min_sequence=seen["min_sequence"] or "",
            max_sequence=seen["max_sequence"] or "",
            min_commit_ts=None if first is None else instant(first),
            max_commit_ts=None if micros is None else instant(micros),
        )
    return replace(known, rows=seen["rows"], used=used.get["rows"], bad_rows=seen["bad_rows"])


def instant(micros: int) -> datetime:
    """A point in time, UTC, from its microseconds since 1970."""
    seconds, rest = divmod(micros, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


def events(
    changes: DataFrame, key: Sequence[str], *, before_images: bool, carry: Sequence[str] = ()
) -> DataFrame:
    """One row per event: `_key_0`, `_key_1`… (the key's values), `_kind` string, `_tombstone` boolean, `_order` struct,
    `_image`, `_unsupplied` array of the columns that the image lacks, and the columns `carry` of its change."""
    values = [F.col("_image")[name] for name in key]
    nothing = F.array().cast("array<string>")
    lacking = F.col("_unsupplied") if "_unsupplied" in changes.columns else nothing
    beside = [order_of_change(), F.col("_image"), lacking.alias("_unsupplied"), *map(F.col, carry)]
    if not before_images:
        # Without an explode, which takes longer than the rest.
        tombstone = (F.col("_op") == DELETED).alias("_tombstone")
        return changes.select(*_named(values), F.col("_op").alias("_kind"), tombstone, *beside)
    old, moved = _before_keys(key), is_key_move(key)
    kind = F.when(moved, F.lit(MOVED_HERE)).otherwise(F.col("_op"))
    both = F.array(_event(values, kind), _event(old, F.lit(MOVED_AWAY)))
    each = changes.select(
        F.explode(F.when(moved, both).otherwise(F.array(_event(values, kind)))).alias("_event"), *beside
    )
    tombstone = F.col("_event._kind").isin(DELETED, MOVED_AWAY).alias("_tombstone")
    return each.select("_event.*", tombstone, "_order", "_image", "_unsupplied", *carry)


def move_events(moves: DataFrame, key: Sequence[str]) -> DataFrame:
    """The events of computed updates of the key, as `events`. Without an explode: over a checkpoint, Spark's column
    pruning breaks its plan."""
    here = events(moves.withColumn("_op", F.lit(MOVED_HERE)), key, before_images=False)
    old = F.struct(*(value.alias(name) for name, value in zip(key, _before_keys(key), strict=True)))
    left = moves.withColumns({"_op": F.lit(DELETED), "_old": old})
    away = events(left, key, before_images=False, carry=["_old"])
    for held, name in zip(key_columns(key), key, strict=True):
        away = away.withColumn(held, F.col("_old")[name])
    return here.unionByName(away.withColumn("_kind", F.lit(MOVED_AWAY)).drop("_old"))


def is_key_move(key: Sequence[str]) -> Column:
    """Whether a change is an update of the key. Some engines always fill before images: only one that differs is."""
    values = [F.col("_image")[name] for name in key]
    differs = reduce(or_, (old != now for old, now in zip(_before_keys(key), values, strict=True)))
    return F.coalesce(differs & (F.col("_op") == UPDATED), F.lit(False))


def _before_keys(key: Sequence[str]) -> list[Column]:
    return [F.coalesce(F.col("_before")[name], F.col("_image")[name]) for name in key]


def committed_at() -> Column:
    """When the change of an event with `_commit_ts` was committed. A file without that column has the time in its
    sequences or its name, in centiseconds."""
    digits = F.col("_order._sequence")
    stamp = F.concat(F.substring(digits, 1, 14), F.lit("."), F.substring(digits, 15, 2), F.lit("Z"))
    return F.coalesce("_commit_ts", F.try_to_timestamp(stamp, F.lit("yyyyMMddHHmmss.SSX")))


def order_of_change() -> Column:
    """`_order`, by which changes are sorted: the sequence; for rows without a sequence of their own, the time in the
    file's name (folders of dates may sort otherwise); then file and line, so that no two rows are equal."""
    in_name = F.regexp_extract("_file", r"(\d{8}-?\d{9,10})\.[^/]*$", 1)
    flushed = F.when(F.col("_sequence").endswith(SYNTHETIC_TAIL), F.regexp_replace(in_name, "-", ""))
    return F.struct("_sequence", F.coalesce(flushed, F.lit("")).alias("_flushed"), "_file", "_row").alias(
        "_order"
    )


def _event(values: Sequence[Column], kind: Column) -> Column:
    return F.struct(*_named(values), kind.alias("_kind"))


def _named(values: Sequence[Column]) -> list[Column]:
    return [value.alias(name) for name, value in zip(key_columns(values), values, strict=True)]


def collapse(found: DataFrame, key: Sequence[str], *, applied_commit: str = "") -> DataFrame:
    """The state of each key of the events: `_key_0`…, `_tombstone`, `_image` struct, `_first` (the kind of its first
    event) and `_doubtful` boolean.

    A key is doubtful if its last event does not determine its state. A key that gets a row and loses one in the same
    transaction may have had two for a moment (a swap, `id = id + 1`): then it loses the older one. The same holds for a
    key that loses a row in a transaction of which a part, up to `applied_commit`, was applied before. And an image may
    lack columns.
    """
    keys, commit = key_columns(key), commit_of_sequence("_order._sequence")
    image = F.struct("_tombstone", "_image", commit.alias("_commit"))
    states = found.groupBy(*keys).agg(
        F.max_by(image, F.col("_order")).alias("_last"),
        F.min_by("_kind", F.col("_order")).alias("_first"),
        F.max(F.when(F.col("_kind").isin(INSERTED, MOVED_HERE), commit)).alias("_arrived"),
        F.bool_or(~F.col("_tombstone") & (F.size("_unsupplied") > 0)).alias("_partial"),
    )
    last = F.col("_last._commit")
    lost = F.col("_last._tombstone") & ((F.col("_arrived") == last) | (last <= applied_commit))
    doubtful = F.coalesce(lost, F.lit(False)) | F.col("_partial")
    return states.select(*keys, "_last._tombstone", "_last._image", "_first", doubtful.alias("_doubtful"))


def commit_of_sequence(name: str) -> Column:
    """The commit time in a column of sequences, as digits."""
    return F.substring(name, 1, COMMIT_DIGITS)

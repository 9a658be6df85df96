"""Events: the changes of each key, as rows.

Every DMS row becomes an event of its key; an update that moves its key becomes two: its row arrives at one key, and
leaves the other. Here: that, and the order of events. Not here: the last event of each key (`last_changes.py`), tables
that keep former rows (`past/timeline.py`). DataFrame API only.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.decode.dms_columns import SYNTHETIC_TAIL
from lake_assets.silver.table.change_events import (
    DELETED,
    MOVED_AWAY,
    MOVED_HERE,
    UPDATED,
    key_columns,
)


def has_own_sequence(sequence: Column) -> Column:
    """Whether a change has a sequence of DMS, which identifies it when it is delivered again."""
    return (sequence != "") & ~sequence.endswith(SYNTHETIC_TAIL)


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
    old, moved = _before_keys(key), _is_key_move(key)
    kind = F.when(moved, F.lit(MOVED_HERE)).otherwise(F.col("_op"))
    both = F.array(_event(values, kind), _event(old, F.lit(MOVED_AWAY)))
    each = changes.select(
        F.explode(F.when(moved, both).otherwise(F.array(_event(values, kind)))).alias("_event"), *beside
    )
    tombstone = F.col("_event._kind").isin(DELETED, MOVED_AWAY).alias("_tombstone")
    return each.select("_event.*", tombstone, "_order", "_image", "_unsupplied", *carry)


def _is_key_move(key: Sequence[str]) -> Column:
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

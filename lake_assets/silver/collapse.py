"""From changes to the state of each key: the rule that silver is computed by.

Every DMS row becomes events of a key: an image or a tombstone; a key update with a before image is a tombstone of the
old key and an image of the new one. A key's state is its event with the highest sequence. Here: that rule, and the
figures of a batch. Not here: which files, or how the state reaches the table. DataFrame API only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

ORDER = ("_sequence", "_file", "_row")
"""Sequence first; rows without one of their own (or with one twice) in the order of file and line."""


@dataclass(slots=True)
class ChangeFigures:
    """What was read for a batch; filled once the batch has been computed."""

    rows: int = 0
    by_op: dict[str, int] = field(default_factory=dict)
    min_sequence: str = ""
    max_sequence: str = ""
    max_commit_ts: datetime | None = None
    bad_rows: int = 0
    first_bad: dict[str, Any] | None = None
    """`_file`, `_row` and `_bad` of the first bad row in file order."""


def observe_changes(changes: DataFrame) -> tuple[DataFrame, Observation]:
    """The same rows, and the observation that counts them while they are read for the first time: no second read."""
    observation = Observation()
    bad = F.col("_bad").isNotNull()
    observed = changes.observe(
        observation,
        F.count(F.lit(1)).alias("rows"),
        *(F.count_if(F.col("_op") == op).alias(f"op_{op}") for op in "IUD"),
        # Full-load rows have the empty sequence; the lowest one that counts is that of a change.
        F.min(F.when(F.col("_sequence") != "", F.col("_sequence"))).alias("min_sequence"),
        F.max("_sequence").alias("max_sequence"),
        F.max(F.unix_micros("_commit_ts")).alias("max_commit_micros"),
        F.count_if(bad).alias("bad_rows"),
        F.min(F.when(bad, F.struct("_file", "_row", "_bad"))).alias("first_bad"),
    )
    return observed, observation


def figures(observation: Observation) -> ChangeFigures:
    """The figures of an observation whose rows have been read. Blocks until they are known."""
    seen = observation.get
    micros = seen["max_commit_micros"]
    first_bad = seen["first_bad"]
    return ChangeFigures(
        rows=seen["rows"],
        by_op={op: seen[f"op_{op}"] for op in "IUD"},
        min_sequence=seen["min_sequence"] or "",
        max_sequence=seen["max_sequence"] or "",
        max_commit_ts=None if micros is None else _instant(micros),
        bad_rows=seen["bad_rows"],
        first_bad=None if first_bad is None else dict(zip(("_file", "_row", "_bad"), first_bad, strict=True)),
    )


def _instant(micros: int) -> datetime:
    seconds, rest = divmod(micros, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


def events(changes: DataFrame, key: Sequence[str], columns: Sequence[str], *, before_images: bool) -> DataFrame:
    """One row per event: the key columns, `_order` struct, `_tombstone` boolean, `_image` struct of `columns`."""
    order = F.struct(*ORDER)
    image = F.struct(*(F.col(f"`{c}`") for c in columns))
    own = _event([F.col(f"`{k}`") for k in key], key, F.col("_op") == "D")
    found: Column = F.array(own)
    if before_images:
        old = [F.coalesce(F.col(f"`_before_{k}`"), F.col(f"`{k}`")) for k in key]
        moved = F.lit(False)
        for k, value in zip(key, old, strict=True):
            moved = moved | (value != F.col(f"`{k}`"))
        # Some engines fill before images always: only one that differs is a key update.
        moved = F.coalesce(moved & (F.col("_op") == "U"), F.lit(False))
        found = F.when(moved, F.array(own, _event(old, key, F.lit(True)))).otherwise(F.array(own))
    expanded = changes.select(F.explode(found).alias("_event"), order.alias("_order"), image.alias("_image"))
    return expanded.select("_event.*", "_order", "_image")


def _event(values: Sequence[Column], key: Sequence[str], tombstone: Column) -> Column:
    return F.struct(*(value.alias(k) for value, k in zip(values, key, strict=True)), tombstone.alias("_tombstone"))


def collapse(rows: DataFrame, key: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """The state of each key that the events mention: the key columns, `_tombstone`, and the other `columns`."""
    rest = [c for c in columns if c not in key]
    last = rows.groupBy(*(F.col(f"`{k}`") for k in key)).agg(
        F.max_by(F.struct("_tombstone", "_image"), F.col("_order")).alias("_last")
    )
    return last.select(
        *(F.col(f"`{k}`") for k in key),
        F.col("_last._tombstone").alias("_tombstone"),
        *(F.col(f"_last._image.`{c}`").alias(c) for c in rest),
    )

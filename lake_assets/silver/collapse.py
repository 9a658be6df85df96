"""From changes to the state of each key: the rule that silver is computed by.

Every DMS row becomes events of a key: an image or a tombstone; a key update with a before image is a tombstone of the
old key and an image of the new one. A key's state is its event with the highest sequence. Here: that rule, and the
figures of a batch. Not here: which files, or how the state reaches the table. DataFrame API only.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.spark.checkpoint import Observed

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
    used: int = 0
    """Rows after the unusable were left out, counted behind that filter."""
    bad_rows: int = 0
    first_bad: dict[str, Any] | None = None
    """`_file`, `_row` and `_bad` of the first bad row in file order."""
    first_change_file: str | None = None
    """Address of the first file that updates or deletes."""

    def is_late(self, max_sequence: str) -> bool:
        """Whether a change is not newer than `max_sequence`, the highest that the table has seen."""
        return "" < self.min_sequence <= max_sequence


def observe_changes(changes: DataFrame) -> tuple[DataFrame, Observed]:
    """The same rows, and the observation that counts them while they are read for the first time: no second read."""
    seen = Observed()
    bad = F.col("_bad").isNotNull()
    observed = changes.observe(
        seen.observation,
        F.count(F.lit(1)).alias("rows"),
        *(F.count_if(F.col("_op") == op).alias(f"op_{op}") for op in "IUD"),
        # Full-load rows have the empty sequence; the lowest one that counts is that of a change.
        F.min(F.when(F.col("_sequence") != "", F.col("_sequence"))).alias("min_sequence"),
        F.max("_sequence").alias("max_sequence"),
        F.max(F.unix_micros("_commit_ts")).alias("max_commit_micros"),
        F.count_if(bad).alias("bad_rows"),
        F.to_json(F.min(F.when(bad, F.struct("_file", "_row", "_bad")))).alias("first_bad"),
        F.min(F.when(F.col("_op") != "I", F.col("_file"))).alias("first_change_file"),
    )
    return observed, seen


def observe_used(changes: DataFrame) -> tuple[DataFrame, Observed]:
    """The same rows, and the observation that counts them."""
    used = Observed()
    return changes.observe(used.observation, F.count(F.lit(1)).alias("rows")), used


def figures(changes: Observed, used: Observed) -> ChangeFigures:
    """The figures of observations whose rows have been read. Blocks until they are known."""
    seen = changes.observation.get
    micros = seen["max_commit_micros"]
    first_bad = seen["first_bad"]
    return ChangeFigures(
        rows=seen["rows"],
        by_op={op: seen[f"op_{op}"] for op in "IUD"},
        min_sequence=seen["min_sequence"] or "",
        max_sequence=seen["max_sequence"] or "",
        max_commit_ts=None if micros is None else _instant(micros),
        used=used.observation.get["rows"],
        bad_rows=seen["bad_rows"],
        first_bad=None if first_bad is None else json.loads(first_bad),
        first_change_file=seen["first_change_file"],
    )


def _instant(micros: int) -> datetime:
    seconds, rest = divmod(micros, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


def events(
    changes: DataFrame, key: Sequence[str], *, before_images: bool, carry: Sequence[str] = ()
) -> DataFrame:
    """One row per event: `_key_0`, `_key_1`… (the key's values), `_order` struct, `_tombstone` boolean, `_image`, and
    the columns `carry` of its change."""
    image = F.col("_image")
    values = [image[name] for name in key]
    own = _event(values, F.col("_op") == "D")
    found: Column = F.array(own)
    if before_images:
        old = [F.coalesce(F.col("_before")[name], image[name]) for name in key]
        moved = reduce(or_, (before != now for before, now in zip(old, values, strict=True)))
        # Some engines fill before images always: only one that differs is a key update.
        moved = F.coalesce(moved & (F.col("_op") == "U"), F.lit(False))
        found = F.when(moved, F.array(own, _event(old, F.lit(True)))).otherwise(found)
    return changes.select(
        F.explode(found).alias("_event"), F.struct(*ORDER).alias("_order"), "_image", *carry
    ).select("_event.*", "_order", "_image", *carry)


def _event(values: Sequence[Column], tombstone: Column) -> Column:
    keys = (value.alias(name) for name, value in zip(key_columns(values), values, strict=True))
    return F.struct(*keys, tombstone.alias("_tombstone"))


def key_columns(key: Sequence[object]) -> list[str]:
    """The columns that hold a key's values in events and states, whatever the source calls them."""
    return [f"_key_{position}" for position in range(len(key))]


def collapse(found: DataFrame, key: Sequence[str]) -> DataFrame:
    """The state of each key that the events mention: `_key_0`…, `_tombstone`, `_image` struct."""
    keys = key_columns(key)
    last = F.max_by(F.struct("_tombstone", "_image"), F.col("_order")).alias("_last")
    return found.groupBy(*keys).agg(last).select(*keys, "_last.*")

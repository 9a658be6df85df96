"""The rule that a silver table equals its table in the source database, by counts and checksums.

Here: reading both, and which differences count. Not here: the figures (`source_figures.py`).

A live source is ahead of silver. So the table is compared in slices of its key, and read up to READINGS times: a slice
that was equal once is right. A slice that was never equal differs if the source's figures of it were the same each
time, because then no change was on its way. Otherwise the slice is in motion, and the next evaluation compares it.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from lake_assets.checks.data_check import Outcome, Rule
from lake_assets.checks.source_figures import WHOLE, Figures, Slices, figures_at_source, figures_in_silver
from lake_assets.config import Column, Mask
from lake_assets.errors import LakeError
from lake_assets.iceberg.table_io import current_snapshot, load_table, table_at
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import sql
from lake_assets.storage.database_connection import connected
from lake_assets.words import many

READINGS = 3
SLICES = 64
"""Slices of the keys that silver has."""
MOST_SHOWN = 10
_LEFT_THE_FILTER = (
    "DMS does not apply its filter to what an update changes: such a row may be in silver without meeting "
    "source_filter, or miss there. "
)


def equals_source(target: Target, sleep: Callable[[float], None] = time.sleep) -> Rule:
    """In each slice of keys, the row count and the checksums are those of the source table."""

    def rule(runtime: LakeRuntime, earlier: Sequence[float]) -> Outcome:
        head = current_snapshot(load_table(runtime.catalog, target.identifier))
        if head is None:
            return Outcome(True, "The table has no rows yet.")
        slices = _slices(runtime, target, head.snapshot_id)
        pause = runtime.lake.checks.source_patience.total_seconds() / (READINGS - 1)
        readings: list[dict[int, Figures]] = []
        open_slices: dict[int, tuple[Figures, Figures]] = {}
        equal: set[int] = set()
        for reading in range(READINGS):
            if reading:
                sleep(pause)
            source = _source(runtime, target, slices)
            silver = _silver(runtime, target, slices)
            readings.append(source)
            known = source.keys() | silver.keys()
            equal |= {one for one in known if source.get(one) == silver.get(one)}
            open_slices = {one: (source.get(one, {}), silver.get(one, {})) for one in known - equal}
            if not open_slices:
                break
        differs = {
            one: pair
            for one, pair in open_slices.items()
            if all(reading.get(one) == readings[0].get(one) for reading in readings)
        }
        return _outcome(target, slices, len(equal), len(open_slices), differs)

    return rule


def _outcome(
    target: Target,
    slices: Slices | None,
    equal: int,
    still_open: int,
    differs: dict[int, tuple[Figures, Figures]],
) -> Outcome:
    moving = still_open - len(differs)
    figures: dict[str, Any] = {
        "slices_equal": equal,
        "slices_different": len(differs),
        "slices_moving": moving,
    }
    if not differs:
        moved = f", {many(moving, 'slice')} in motion and not compared" if moving else ""
        return Outcome(
            True,
            f"{many(equal, 'slice')} of keys equal {rows_at_source(target)} in the source{moved}.",
            figures,
        )
    figures["differences"] = "\n".join(
        line for one in sorted(differs)[:MOST_SHOWN] for line in _differences(slices, one, *differs[one])
    )
    filtered = _LEFT_THE_FILTER if target.config.source_filter is not None else ""
    state = (
        f"{many(len(differs), 'slice', 'differ')} from {rows_at_source(target)} in the source, which did not change "
        f"meanwhile. {filtered}"
        "If changes take longer than checks.source_patience to arrive, raise it; otherwise "
        f"`lake-assets rebuild {target.argument} --check` compares the table with its files."
    )
    return Outcome(False, state, figures)


def rows_at_source(target: Target) -> str:
    """What the table is compared with, for a sentence."""
    condition = target.config.source_filter
    return target.table if condition is None else f"the rows of {target.table} with {condition}"


def _differences(slices: Slices | None, one: int, source: Figures, silver: Figures) -> list[str]:
    where = "all rows" if slices is None else f"{slices.key} {one} to {one + slices.width - 1}"
    return [
        f"{where}: {name} differs{_counts(name, source, silver)}"
        for name in source or silver
        if source.get(name) != silver.get(name)
    ]


def _counts(name: str, source: Figures, silver: Figures) -> str:
    """Both figures if they are counts. A smallest or a largest value is a cell of a row, which is not shown."""
    if not name.startswith("count"):
        return ""
    return f": {source.get(name, 0)} in the source, {silver.get(name, 0)} in silver"


def _slices(runtime: LakeRuntime, target: Target, snapshot: int) -> Slices | None:
    """Slices of a key of one column of whole numbers; None for any other key."""
    types = {column.name: column.type for column in target.config.columns}
    if len(target.key) != 1 or types[target.key[0]] not in WHOLE:
        return None
    (key,) = target.key
    rows = table_at(runtime.lake.catalog.name, target.identifier, snapshot)
    query = sql("SELECT min({key}), max({key}) FROM ({rows})", key=key, rows=rows)
    (first, last), *_ = runtime.sessions.root().sql(query).collect()
    return None if first is None else Slices(key, max(1, (last - first) // SLICES + 1))


def _source(runtime: LakeRuntime, target: Target, slices: Slices | None) -> dict[int, Figures]:
    address = runtime.lake.sources[target.source].database
    assert address is not None, "the check exists only with an address"
    with connected(address.get_secret_value(), runtime.aws.secrets) as engine, engine.connect() as connection:
        config = target.config
        return figures_at_source(
            connection, target.table, _compared(target), slices, config.source_filter, config.renamed_from
        )


def _silver(runtime: LakeRuntime, target: Target, slices: Slices | None) -> dict[int, Figures]:
    head = current_snapshot(load_table(runtime.catalog, target.identifier))
    if head is None:
        raise LakeError(f"{target.identifier} was dropped while it was compared.")
    rows = table_at(runtime.lake.catalog.name, target.identifier, head.snapshot_id)
    return figures_in_silver(runtime.sessions.root(), rows, _compared(target), slices)


def _compared(target: Target) -> list[Column]:
    """The columns to compare, without those whose mask is null. For columns with another mask, only the count of values
    is compared."""
    masks = target.config.mask
    return [
        column.model_copy(update={"type": "binary"}) if column.name in masks else column
        for column in target.config.columns
        if masks.get(column.name) is not Mask.NULL
    ]

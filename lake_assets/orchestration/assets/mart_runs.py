"""The runs that bring gold up to date: one for each contiguous range of days, for all marts that need it.

Here: planning the runs, for the sensor and for `sync`. Not here: submitting them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

import dagster as dg

from lake_assets.config import LakeConfig
from lake_assets.gold.changed_days import stretches
from lake_assets.gold.mart import Mart
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.gold.view import mart_view
from lake_assets.orchestration.shared.day_partitions import daily_partitions
from lake_assets.runtime import LakeRuntime

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"


@dataclass(frozen=True, slots=True)
class MartRun:
    """One run: marts that are computed over the same days, or unpartitioned marts, without days."""

    marts: tuple[str, ...]
    days: tuple[date, date] | None

    @property
    def keys(self) -> list[dg.AssetKey]:
        return [dg.AssetKey(["gold", name]) for name in self.marts]

    @property
    def tags(self) -> dict[str, str]:
        """The range tags by which Dagster computes all the days in one run."""
        if self.days is None:
            return {}
        return {RANGE_START: self.days[0].isoformat(), RANGE_END: self.days[1].isoformat()}


@dataclass(frozen=True, slots=True)
class MartWork:
    runs: tuple[MartRun, ...]
    unpartitioned_days: tuple[date, ...]
    """Changed days without a partition (before `gold.start_date`, or in the future)."""
    reasons: tuple[str, ...]
    """Why stale marts are left out."""


def mart_work(
    runtime: LakeRuntime, marts: Sequence[Mart], refuse: Callable[[Mart], str | None] = lambda mart: None
) -> MartWork:
    """Runs that bring the stale marts up to date. `refuse` may return a reason to leave a stale mart out."""
    by_days: dict[tuple[date, date] | None, list[str]] = {}
    outside: set[date] = set()
    reasons = []
    loaded = LoadedTables(runtime.catalog)
    for mart in marts:
        view = mart_view(loaded, mart, runtime.lake.gold)
        if view is None and mart.at_cut:
            reasons.append(f"{mart.identifier} waits for a consistent cut that all of its inputs have")
        if view is None or not view.stale:
            continue
        if (reason := refuse(mart)) is not None:
            reasons.append(reason)
            continue
        if mart.partition_column is None:
            by_days.setdefault(None, []).append(mart.name)
            continue
        inside = within_partitions(runtime.lake, view.work)
        outside |= set(view.work) - set(inside)
        for stretch in stretches(inside):
            by_days.setdefault(stretch, []).append(mart.name)
    # Unpartitioned marts are first: they show the present.
    ordered = sorted(by_days.items(), key=lambda item: (item[0] is not None, item[0] or (date.min, date.min)))
    runs = tuple(MartRun(tuple(names), days) for days, names in ordered)
    return MartWork(runs, tuple(sorted(outside)), tuple(reasons))


def within_partitions(lake: LakeConfig, days: Sequence[date]) -> list[date]:
    """The days that have a partition: one unknown partition would fail a whole sensor tick."""
    partitions = daily_partitions(lake)
    last = partitions.get_last_partition_key()
    end = date.fromisoformat(last) if last is not None else date.min
    return [day for day in days if lake.gold.start_date <= day <= end]

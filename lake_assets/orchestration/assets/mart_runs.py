"""The runs that bring gold up to date: one for each contiguous range of partitions, for all marts that need it.

Here: planning the runs, for the sensor and for `sync`. Not here: submitting them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

import dagster as dg

from lake_assets.gold.mart import Mart
from lake_assets.gold.periods.grain import Grain, Period, beginning, between, stretches
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.gold.view import mart_view
from lake_assets.orchestration.shared.first_periods import FirstPeriods
from lake_assets.orchestration.shared.time_partitions import time_partitions
from lake_assets.runtime import LakeRuntime
from lake_assets.words import many

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
MOST_SHOWN = 5
"""The most periods that a sentence names."""


@dataclass(frozen=True, slots=True)
class MartRun:
    """One run: marts that are computed over the same partitions, or unpartitioned marts, without periods."""

    marts: tuple[str, ...]
    periods: tuple[Period, Period] | None
    """The first and the last, both included."""
    grain: Grain = Grain.DAY
    key_prefix: tuple[str, ...] = ()
    """Of the marts' asset keys."""

    @property
    def keys(self) -> list[dg.AssetKey]:
        return [dg.AssetKey([*self.key_prefix, "gold", name]) for name in self.marts]

    @property
    def described(self) -> str:
        """The marts, and how many partitions of them, for the progress of a command."""
        if self.periods is None:
            return ", ".join(self.marts)
        first, last = self.periods
        number = many(len(between(self.grain, first, last)), f"{self.grain}")
        return f"{', '.join(self.marts)}: {number} from {self.grain.key(first)} to {self.grain.key(last)}"

    @property
    def tags(self) -> dict[str, str]:
        """The range tags by which Dagster computes all the partitions in one run."""
        if self.periods is None:
            return {}
        return {RANGE_START: self.grain.key(self.periods[0]), RANGE_END: self.grain.key(self.periods[1])}


@dataclass(frozen=True, slots=True)
class MartWork:
    runs: tuple[MartRun, ...]
    outside: Mapping[str, str]
    """By mart with rows outside of its partitions (before the first one, or in the future), which rows they are."""
    reasons: tuple[str, ...]
    """Why stale marts are left out."""


def mart_work(
    runtime: LakeRuntime,
    marts: Sequence[Mart],
    refuse: Callable[[Mart], str | None] = lambda mart: None,
    first: FirstPeriods | None = None,
) -> MartWork:
    """Runs that bring the stale marts up to date. `refuse` may return a reason to leave a stale mart out. `first`:
    where the partitions begin, by default as in a run."""
    first = first or FirstPeriods.any(runtime.lake)
    by_periods: dict[tuple[Grain, tuple[Period, Period] | None], list[str]] = {}
    outside: dict[str, str] = {}
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
            by_periods.setdefault((Grain.DAY, None), []).append(mart.name)
            continue
        inside = within_partitions(view.work, mart.partitions, first.of_mart(mart))
        if (sentence := outside_sentence(mart, view.work, first)) is not None:
            outside[mart.identifier] = sentence
        for stretch in stretches(mart.partitions, inside):
            by_periods.setdefault((mart.partitions, stretch), []).append(mart.name)
    prefix = runtime.lake.key_prefix
    runs = [MartRun(tuple(names), periods, grain, prefix) for (grain, periods), names in by_periods.items()]
    return MartWork(tuple(sorted(runs, key=_order)), outside, tuple(reasons))


def _order(run: MartRun) -> tuple[bool, datetime, Grain]:
    """The order of the runs. Unpartitioned marts come first, because they show the present."""
    return run.periods is not None, beginning(run.periods[0] if run.periods else date.min), run.grain


def outside_sentence(mart: Mart, work: Sequence[Period], first: FirstPeriods) -> str | None:
    """Which periods of a mart's work list have no partition, of which columns their rows are, and what to do; None if
    there are none."""
    inside = set(within_partitions(work, mart.partitions, first.of_mart(mart)))
    outside = [period for period in work if period not in inside]
    if not outside:
        return None
    columns = sorted({f"{rule.identifier}.{rule.column}" for rule in mart.rules if rule.column is not None})
    shown = [mart.partitions.key(period) for period in outside[:MOST_SHOWN]]
    more = [f"and {len(outside) - MOST_SHOWN} more"] if len(outside) > MOST_SHOWN else []
    found = (
        f"{mart.identifier} leaves out the rows with {' or '.join(columns)} in "
        f"{many(len(outside), str(mart.partitions))} outside of its partitions: {', '.join(shown + more)}"
    )
    earliest, today = mart.partitions.of(first.earliest), datetime.now(UTC).date()
    if any(earliest <= period and beginning(period).date() <= today for period in outside):
        return f"{found}. The partitions begin later than the data does now: reload the code location"
    return f"{found}. Partitions go from gold.start_date ({first.earliest}) to today"


def within_partitions(periods: Sequence[Period], grain: Grain, first: Period) -> list[Period]:
    """The periods that have a partition, if partitions begin with `first`. One unknown partition would fail a whole
    sensor tick."""
    last = time_partitions(grain, first).get_last_partition_key()
    if last is None:
        return []
    return [period for period in periods if first <= period <= grain.of_key(last)]

"""Which periods of a mart a range of silver commits has changed, by the commits' summaries, without reading rows.

Here: the decision, over summaries as plain dictionaries. Not here: fetching them (`gold/view.py`). Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from lake_assets.gold.mart import Follow, Input
from lake_assets.gold.periods.grain import (
    Grain,
    Period,
    Periods,
    between,
    hull,
    parse_hours,
    parse_periods,
    span,
)
from lake_assets.silver.table.position import ALL, LOG_OFFSET, TOUCHED_DAYS, TOUCHED_HOURS, touched_property

PARTITION = "partitions."
WITHIN = {
    Grain.HOUR: ("hour",),
    Grain.DAY: ("day", "hour"),
    Grain.WEEK: ("day", "hour"),
    Grain.MONTH: ("day", "hour", "month"),
}
"""By grain, the Iceberg transforms whose partitions each lie in one period."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One snapshot of a silver table."""

    operation: str
    summary: Mapping[str, str]

    @property
    def changes_rows(self) -> bool:
        """False for maintenance, and for commits that only moved the position."""
        counts = ("added-records", "deleted-records", "added-position-deletes", "added-equality-deletes")
        return self.operation != "replace" and any(int(self.summary.get(c, "0")) for c in counts)


@dataclass(frozen=True, slots=True)
class Changed:
    """Periods that were touched; with `every`, all of them."""

    periods: Periods = frozenset()
    every: bool = False

    def __or__(self, other: "Changed") -> "Changed":
        return Changed(self.periods | other.periods, self.every or other.every)

    def __bool__(self) -> bool:
        return self.every or bool(self.periods)


def changed_periods(
    rule: Input, commits: Sequence[Commit] | None, grain: Grain, *, transform: str | None
) -> Changed:
    """The periods that commits touched by one input rule, before `spread_onwards`. `commits`: those after the commit
    that the mart has consumed. None if they are unknown (the first time, or because snapshots have expired); then every
    period counts as changed.

    `transform`: one of WITHIN by which the silver table partitions the rule's column, so that every commit names its
    periods; None if the batch's last commit names the periods of the whole batch.
    """
    if commits is None:
        return Changed(every=True)
    if rule.follow is Follow.EVERY_DAY:
        return Changed(every=any(commit.changes_rows for commit in commits))
    found = Changed()
    unnamed = False
    for commit in commits:
        if transform is not None:
            found |= _by_partition(rule, commit, grain, transform)
        elif LOG_OFFSET in commit.summary:
            found |= _by_batch(rule, commit, grain, changes_rows=unnamed or commit.changes_rows)
            unnamed = False
        else:
            unnamed = unnamed or commit.changes_rows
    return found | Changed(every=unnamed)


def _by_partition(rule: Input, commit: Commit, grain: Grain, transform: str) -> Changed:
    if not commit.changes_rows:
        return Changed()
    paths = [key.removeprefix(PARTITION) for key in commit.summary if key.startswith(PARTITION)]
    found: set[Period] = set()
    for path in paths:
        named = _value_in(path, f"{rule.column}_{transform}=")
        if named is None:
            # A file of a former partition spec: its rows may lie in any period.
            return Changed(every=True)
        if named != "null":
            found.add(grain.of(_beginning(named, transform)))
    # Without entries, the commit touched more partitions than the limit of its summary.
    return Changed(frozenset(found), every=not paths)


def _beginning(named: str, transform: str) -> date:
    """The beginning of a partition, from Iceberg's text for it."""
    try:
        if transform == "hour":
            return datetime.strptime(named, "%Y-%m-%d-%H").replace(tzinfo=UTC)
        return date.fromisoformat(f"{named}-01" if transform == "month" else named)
    except ValueError:
        # Python has no year 0 and no year 10000, where a source's zone moves a marker.
        return date.min if named.startswith(("-", "0")) else date.max


def _value_in(path: str, prefix: str) -> str | None:
    """The value in a partition such as `region=north/started_at_day=2026-03-01`; None when it has none."""
    return next((part.removeprefix(prefix) for part in path.split("/") if part.startswith(prefix)), None)


def _by_batch(rule: Input, commit: Commit, grain: Grain, *, changes_rows: bool) -> Changed:
    if not changes_rows:
        # Maintenance repeats a batch's properties in a commit without rows, so that they survive expiry.
        return Changed()
    kind = TOUCHED_HOURS if grain is Grain.HOUR else TOUCHED_DAYS
    named = commit.summary.get(touched_property(kind, str(rule.column)))
    if named is None or named == ALL:
        return Changed(every=True)
    found = parse_hours(named) if grain is Grain.HOUR else parse_periods(named)[1]
    return Changed(frozenset(map(grain.of, found)))


def spread_onwards(
    grain: Grain,
    periods: Iterable[Period],
    consumed_until: Period | None,
    until: Period,
    first_partition: Period,
    own: Periods = frozenset(),
) -> Periods:
    """The periods of DAY_ONWARDS: from the first touched one to the source's last commit. The period in which the
    mart's data ended last time counts as touched, because its state continued after that. If the source's last commit
    is now earlier (a table was rebuilt), the periods after it count as well: their states are no longer known. What
    lasts since a marker such as 1900-01-01 lasts in all periods of the mart, whose first and last one are `own`."""
    touched = {*periods, *((consumed_until,) if consumed_until is not None else ())}
    if not touched:
        return frozenset()
    lasting = own if any(period < first_partition for period in touched) else frozenset()
    ends = span({*touched, *lasting, until}, until, first_partition)
    return frozenset(touched).union(between(grain, min(ends), max(ends)) if ends else ())


def held_onwards(grain: Grain, periods: Periods, now: Period, first_partition: Period) -> Periods:
    """The periods in which there are states, by the periods of the changes: from the first one to `now`."""
    ends = span({*periods, now}, now, first_partition) if periods else frozenset()
    return periods.union(between(grain, min(ends), max(ends)) if ends else ())


def gap_to(
    grain: Grain, own: Periods, periods: Iterable[Period], now: Period, first: Period | None = None
) -> Periods:
    """The periods between a mart's span and new periods before or after it. A mart may have rows of zeros for periods
    without data, and must have the same ones whether it is computed at once or piece by piece."""
    beyond = {period for period in periods if not own or not min(own) <= period <= max(own)}
    return hull(grain, own | beyond, now, first) - hull(grain, own, now, first)

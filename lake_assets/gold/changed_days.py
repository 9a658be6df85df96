"""Which days of a mart a range of silver commits has changed, by the commits' summaries, without reading rows.

Here: the decision, over summaries as plain dictionaries. Not here: fetching them (`view.py`). Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from lake_assets.gold.mart import Follow, Input
from lake_assets.silver.table.position import ALL, LOG_OFFSET, touched_days_property

PARTITION = "partitions."
CENTURY = timedelta(days=36525)
YEAR = timedelta(days=366)


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
    """Days that were touched; with `every`, all days."""

    days: frozenset[date] = frozenset()
    every: bool = False

    def __or__(self, other: "Changed") -> "Changed":
        return Changed(self.days | other.days, self.every or other.every)

    def __bool__(self) -> bool:
        return self.every or bool(self.days)


def changed_days(rule: Input, commits: Sequence[Commit] | None, *, by_partition: bool) -> Changed:
    """The days that commits touched by one input rule, before `spread_onwards`. `commits`: those after the commit that
    the mart has consumed; None if they are unknown (the first time, or because snapshots have expired), so that every
    day counts as changed.

    `by_partition`: the silver table is partitioned by the day of the rule's column, so that every commit names its
    days; otherwise the batch's last commit names those of the whole batch.
    """
    if commits is None:
        return Changed(every=True)
    if rule.follow is Follow.EVERY_DAY:
        return Changed(every=any(commit.changes_rows for commit in commits))
    found = Changed()
    unnamed = False
    for commit in commits:
        if by_partition:
            found |= _days_by_partition(rule, commit)
        elif LOG_OFFSET in commit.summary:
            found |= _days_by_batch(rule, commit, changes_rows=unnamed or commit.changes_rows)
            unnamed = False
        else:
            unnamed = unnamed or commit.changes_rows
    return found | Changed(every=unnamed)


def _days_by_partition(rule: Input, commit: Commit) -> Changed:
    if not commit.changes_rows:
        return Changed()
    paths = [key.removeprefix(PARTITION) for key in commit.summary if key.startswith(PARTITION)]
    days: set[date] = set()
    for path in paths:
        named = _day_in(path, f"{rule.column}_day=")
        if named is None:
            # A file of a former partition spec: its rows may lie in any day.
            return Changed(every=True)
        if named != "null":
            days.add(date.fromisoformat(named))
    # Without entries, the commit touched more partitions than the limit of its summary.
    return Changed(frozenset(days), every=not paths)


def _day_in(path: str, prefix: str) -> str | None:
    """The day of a partition such as `region=north/started_at_day=2026-03-01`; None when it has none."""
    return next((part.removeprefix(prefix) for part in path.split("/") if part.startswith(prefix)), None)


def _days_by_batch(rule: Input, commit: Commit, *, changes_rows: bool) -> Changed:
    if not changes_rows:
        # Maintenance repeats a batch's properties in a commit without rows, so that they survive expiry.
        return Changed()
    named = commit.summary.get(touched_days_property(str(rule.column)))
    if named is None or named == ALL:
        return Changed(every=True)
    return Changed(parse_days(named))


def spread_onwards(days: Iterable[date], consumed_until: date | None, until: date) -> frozenset[date]:
    """The days of DAY_ONWARDS: from the first touched day to the source's last commit. The day on which the mart's data
    ended last time counts as touched, because its state continued after that. If the source's last commit is now an
    earlier one (a table was rebuilt), the days after it count as well: their states are no longer known."""
    touched = {*days, *((consumed_until,) if consumed_until is not None else ())}
    return hull({*touched, until}, until) if touched else frozenset()


def hull(days: Iterable[date], now: date) -> frozenset[date]:
    """Every day from the first to the last one, both included. Markers (see `span`) are included, but not the millions
    of days up to them."""
    given = frozenset(days)
    between = span(given, now)
    return given | frozenset(days_between(min(between), max(between)) if between else ())


def span(days: Iterable[date], now: date) -> frozenset[date]:
    """The first and the last of the days. A day more than a century before `now` or a year after it is a marker such as
    9999-12-31, not a date, and does not count."""
    inside = [day for day in days if now - CENTURY <= day <= now + YEAR]
    return frozenset((min(inside), max(inside)) if inside else ())


def ends(bounds: Iterable[date] | None, first_partition: date, now: date) -> frozenset[date]:
    """Days between which all of a column's days lie, by the bounds of its files; `bounds` is None if a file has none.

    Unknown bounds are taken to reach from the first partition to `now`. A marker makes a bound unknown, too: the file's
    other rows may have any day.
    """
    if bounds is None:
        return frozenset((first_partition, now))
    found = set(bounds)
    if any(day < now - CENTURY for day in found):
        found.add(first_partition)
    if any(day > now + YEAR for day in found):
        found.add(now)
    return frozenset(found)


def gap_to(own: frozenset[date], days: Iterable[date], now: date) -> frozenset[date]:
    """The days outside a mart's span up to new ones before or after it. A mart may have rows of zeros on days without
    data, and must have the same ones whether it is computed at once or day by day."""
    return hull({*own, *days}, now) - hull(own, now)


def days_between(first: date, last: date) -> list[date]:
    """Every day from first to last, both included."""
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def stretches(days: Iterable[date]) -> list[tuple[date, date]]:
    """Days as contiguous ranges, first and last included, in order."""
    found: list[tuple[date, date]] = []
    for day in sorted(days):
        if found and found[-1][1] + timedelta(days=1) == day:
            found[-1] = (found[-1][0], day)
        else:
            found.append((day, day))
    return found


def format_days(days: Iterable[date]) -> str:
    """`2026-03-01..2026-03-04,2026-03-09`: the format of pending days in a mart's summary."""
    return ",".join(str(a) if a == b else f"{a}..{b}" for a, b in stretches(days))


def parse_days(text: str) -> frozenset[date]:
    """The inverse of `format_days`; also parses plain lists of days."""
    found: set[date] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("..")
        found.update(days_between(date.fromisoformat(first), date.fromisoformat(last or first)))
    return frozenset(found)

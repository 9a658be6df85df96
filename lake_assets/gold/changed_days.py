"""Which days of a mart a stretch of silver commits concerns: read off the commits' summaries, nothing is scanned.

Here: the decision, over summaries as plain dictionaries. Not here: fetching them (`view.py`). Pure: no Spark, no
Dagster.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

from lake_assets.gold.mart import Follow, Input
from lake_assets.silver.position import LOG_OFFSET, TOUCHED_DAYS
from lake_assets.silver.touched_days import ALL

PARTITION = "partitions."


@dataclass(frozen=True, slots=True)
class Commit:
    """One snapshot of a silver table."""

    operation: str
    summary: Mapping[str, str]

    @property
    def changes_rows(self) -> bool:
        """False for maintenance, and for commits that only moved the position."""
        counts = ("added-records", "deleted-records", "added-position-deletes")
        return self.operation != "replace" and any(int(self.summary.get(c, "0")) for c in counts)


@dataclass(frozen=True, slots=True)
class Changed:
    """Days that were touched. `every` stands for all days there are."""

    days: frozenset[date] = frozenset()
    every: bool = False

    def __or__(self, other: "Changed") -> "Changed":
        return Changed(self.days | other.days, self.every or other.every)

    def __bool__(self) -> bool:
        return self.every or bool(self.days)


@dataclass(frozen=True, slots=True)
class Stretch:
    """The commits of one silver table after the one a mart has consumed. None: nobody can tell (first time, or the
    chain of snapshots was expired), so that everything counts as changed."""

    commits: tuple[Commit, ...] | None = field(default=None)


def changed_days(rule: Input, stretch: Stretch, *, by_partition: bool) -> Changed:
    """The days that the stretch touched by one input rule, before DAY_ONWARDS is spread over later days.

    `by_partition`: the silver table is partitioned by the day of the rule's column, so that every commit names its
    days; otherwise the batch's last commit names those of the whole batch.
    """
    if stretch.commits is None:
        return Changed(every=True)
    found = Changed()
    untold = False
    for commit in stretch.commits:
        if rule.follow is Follow.EVERY_DAY or by_partition:
            found |= _days_by_partition(rule, commit)
        elif LOG_OFFSET in commit.summary:
            found |= _days_by_batch(rule, commit, changes_rows=untold or commit.changes_rows)
            untold = False
        else:
            untold = untold or commit.changes_rows
    return found | Changed(every=untold)


def _days_by_partition(rule: Input, commit: Commit) -> Changed:
    if not commit.changes_rows:
        return Changed()
    prefix = f"{PARTITION}{rule.column}_day="
    days = [key.removeprefix(prefix) for key in commit.summary if key.startswith(prefix)]
    # Without entries the commit touched more partitions than its summary may name, or the rule is not about days.
    return Changed(frozenset(date.fromisoformat(day) for day in days if day != "null"), every=not days)


def _days_by_batch(rule: Input, commit: Commit, *, changes_rows: bool) -> Changed:
    named = commit.summary.get(f"{TOUCHED_DAYS}{rule.column}")
    if named is None:
        return Changed(every=changes_rows)
    return Changed(every=True) if named == ALL else Changed(parse_days(named))


def spread_onwards(days: Iterable[date], consumed_until: date | None, until: date) -> frozenset[date]:
    """DAY_ONWARDS: from the first touched day to the source's last commit. The day on which the mart's data ended
    the last time counts as touched, because its state lasted beyond what was known then."""
    first = min((*days, *((consumed_until,) if consumed_until is not None else ())), default=None)
    if first is None:
        return frozenset()
    return frozenset(days_between(first, until))


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
    """`2026-03-01..2026-03-04,2026-03-09`, as a mart's summary carries its pending days."""
    return ",".join(str(a) if a == b else f"{a}..{b}" for a, b in stretches(days))


def parse_days(text: str) -> frozenset[date]:
    """The inverse of `format_days`; also takes plain lists of days."""
    found: set[date] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("..")
        found.update(days_between(date.fromisoformat(first), date.fromisoformat(last or first)))
    return frozenset(found)

"""Periods: the hours, days, weeks or months that are the partitions of a mart.

Times are UTC, so that every period has its usual length, also where clocks are changed. A period is named by its
beginning: a date, or for an hour a time. Not here: which periods have changed (`gold/changed_periods.py`). Pure.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from itertools import pairwise

from lake_assets.config.base import CENTURY

YEAR = timedelta(days=366)
"""The longest time without rows that is filled: a longer one is between a wrong date and the others, or no business."""
HOUR_KEY = "%Y-%m-%d-%H:%M"

Period = date
"""The first day, or for an hour its first instant: a `datetime`, which is a `date`, too."""
Periods = frozenset[Period]


class Grain(StrEnum):
    """How long the periods of a mart are."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    """From Monday on."""
    MONTH = "month"

    def of(self, moment: date) -> Period:
        """The period in which a time, or the beginning of a day, lies."""
        if self is Grain.HOUR:
            return beginning(moment).replace(minute=0, second=0, microsecond=0)
        day = beginning(moment).date()
        if self is Grain.WEEK:
            return day - timedelta(days=day.weekday())
        return day.replace(day=1) if self is Grain.MONTH else day

    def after(self, period: Period) -> Period:
        """The next period."""
        if self is Grain.HOUR:
            return period + timedelta(hours=1)
        if self is Grain.MONTH:
            return (period + timedelta(days=31)).replace(day=1)
        return period + timedelta(days=7 if self is Grain.WEEK else 1)

    def key(self, period: Period) -> str:
        """Dagster's partition key."""
        if isinstance(period, datetime):
            return period.replace(tzinfo=None).isoformat(sep="-", timespec="minutes")
        return period.isoformat()

    def of_key(self, key: str) -> Period:
        """The inverse of `key`."""
        if self is Grain.HOUR:
            return datetime.strptime(key, HOUR_KEY).replace(tzinfo=UTC)
        return date.fromisoformat(key)

    def last_day(self, period: Period) -> date:
        """The last day of a period, or the day in which an hour lies."""
        return period.date() if isinstance(period, datetime) else self.after(period) - timedelta(days=1)

    def window(self, first: Period, last: Period) -> tuple[datetime, datetime]:
        """The first instant and the exclusive end of the periods from first to last."""
        return beginning(first), beginning(self.after(last))


def beginning(moment: date) -> datetime:
    """A time in UTC, or the first instant of a day."""
    if isinstance(moment, datetime):
        return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return datetime.combine(moment, time(), UTC)


def between(grain: Grain, first: Period, last: Period) -> list[Period]:
    """Every period from first to last, both included."""
    found = [first] if first <= last else []
    while found and found[-1] < last:
        found.append(grain.after(found[-1]))
    return found


def hull(grain: Grain, periods: Iterable[Period], now: Period, first: Period | None = None) -> Periods:
    """The periods, and those between two of them that are at most a YEAR apart. Markers (see `is_marker`) are included,
    but nothing between them and the other periods."""
    given = frozenset(periods)
    dates = sorted(period for period in given if not is_marker(period, now, first))
    gaps = ((a, b) for a, b in pairwise(dates) if b - a <= YEAR)
    return given.union(*(between(grain, a, b) for a, b in gaps))


def span(periods: Iterable[Period], now: Period, first: Period | None = None) -> Periods:
    """The first and the last of the periods, without markers."""
    dates = [period for period in periods if not is_marker(period, now, first)]
    return frozenset((min(dates), max(dates)) if dates else ())


def is_marker(period: Period, now: Period, first: Period | None = None) -> bool:
    """Whether the period is of a value such as 1900-01-01 or 9999-12-31, or of a wrong date: it lies before `first`,
    where partitions begin (by default a century before `now`), or more than a year after `now`."""
    return not (now - CENTURY if first is None else first) <= period <= now + YEAR


def stretches(grain: Grain, periods: Iterable[Period]) -> list[tuple[Period, Period]]:
    """Periods as contiguous ranges, first and last included, in order."""
    found: list[tuple[Period, Period]] = []
    for period in sorted(periods):
        if found and grain.after(found[-1][1]) == period:
            found[-1] = (found[-1][0], period)
        else:
            found.append((period, period))
    return found


def format_periods(grain: Grain, periods: Iterable[Period]) -> str:
    """`2026-03-01..2026-03-04,2026-03-09`, or `hour:2026-03-01T05..2026-03-01T07`: the format of a mart's summary."""
    found = (
        _text(grain, first) if first == last else f"{_text(grain, first)}..{_text(grain, last)}"
        for first, last in stretches(grain, periods)
    )
    text = ",".join(found)
    return text if grain is Grain.DAY or not text else f"{grain}:{text}"


def parse_periods(text: str) -> tuple[Grain, Periods]:
    """The inverse of `format_periods`; also parses plain lists of days."""
    named, colon, rest = text.partition(":")
    grain = Grain(named) if colon else Grain.DAY
    found: set[Period] = set()
    for part in filter(None, (rest if colon else text).split(",")):
        first, _, last = part.partition("..")
        found.update(between(grain, _parsed(grain, first), _parsed(grain, last or first)))
    return grain, frozenset(found)


def parse_hours(text: str) -> Periods:
    """The hours of a plain list such as `2026-03-01T05,2026-03-01T07`."""
    return frozenset(_parsed(Grain.HOUR, part) for part in filter(None, text.split(",")))


def _text(grain: Grain, period: Period) -> str:
    if grain is Grain.HOUR:
        assert isinstance(period, datetime), "hours are times"
        return period.replace(tzinfo=None).isoformat(timespec="hours")
    return period.isoformat()


def _parsed(grain: Grain, text: str) -> Period:
    if grain is Grain.HOUR:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    return date.fromisoformat(text)

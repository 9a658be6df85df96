"""Local times of a zone: the instants that its clocks show so. Pure.

A zone's clocks skip some local times (they are set forward) and show others twice (they are set back). Here: the only
table of these spans, computed from Python's time-zone database. Java's and Arrow's databases differ from it, in old
times and by their release, so neither decides. Not here: which column is a local time, and its conversion in Spark
(`bronze/values/text_values.py`).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Literal, TypeVar
from zoneinfo import ZoneInfo

AmbiguousTimes = Literal["earlier", "later"]
"""Which of the instants that a clock shows alike a local time is."""

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND, _DAY = timedelta(seconds=1), 86_400
CYCLE = 146_097 * _DAY
"""Seconds of 400 years, after which days of the year and of the week repeat, and so do a zone's rules."""
LAST_CYCLE = (datetime(2100, 1, 1, tzinfo=UTC) - _EPOCH) // _SECOND
"""Seconds from 1970 to the beginning of the last cycle of the table. From then on, only a zone's rules determine its
offset: the database's last single change is of 2087."""
_FIRST, _LAST = datetime(1800, 1, 1, tzinfo=UTC), datetime(2501, 1, 1, tzinfo=UTC)
"""Before the database's first change, of 1844; after `LAST_CYCLE`."""
_EVER = 100 * CYCLE
"""Seconds from 1970 to a time after all others."""
_STEP = timedelta(days=3)
"""Less than between any two changes of one zone; the nearest have four days between them."""


@dataclass(frozen=True, slots=True)
class Span:
    """Local times from `start` up to the next span that the zone's clocks show for the same number of instants."""

    start: int
    """Seconds since 1970 on the local clock."""
    offsets: tuple[int, ...]
    """Seconds by which the clock is ahead of UTC at each of the instants, the earliest first: as a rule one, none if
    the clocks skip the time, two if they show it twice."""


@dataclass(frozen=True, slots=True)
class LocalClock:
    """A zone, and which of its local times have an instant."""

    zone: str = "UTC"
    takes: Literal["single", "skipped", "doubled"] | AmbiguousTimes = "single"
    """single: only times that the clocks show once. earlier, later: these, and of times that the clocks show twice, one
    of the two instants. skipped, doubled: only such times, to find out why another clock takes none."""

    def offset(self, span: Span) -> int | None:
        """The offset by which a time in the span becomes an instant; None if it becomes none."""
        match self.takes:
            case "skipped":
                return None if span.offsets else 0
            case "doubled":
                return 0 if len(span.offsets) > 1 else None
            case "single" if len(span.offsets) > 1:
                return None
        if not span.offsets:
            return None
        return span.offsets[-1 if self.takes == "later" else 0]

    @lru_cache(maxsize=64)  # noqa: B019  (a clock is a value, and there are few)
    def offsets(self) -> list[tuple[int, int | None]]:
        """The start of each of the `spans` and its `offset`."""
        found: list[tuple[int, int | None]] = []
        for span in spans(self.zone):
            offset = self.offset(span)
            if not found or found[-1][1] != offset:
                found.append((span.start, offset))
        return found


def instants(zone: str, wall: datetime) -> list[datetime]:
    """The instants (UTC) that the zone's clocks show as `wall`, a time without a zone, the earliest first; none if they
    skip it. Raises OverflowError for an instant that Python does not have."""
    shown = wall.replace(tzinfo=UTC)
    span = in_force(spans(zone), (shown - _EPOCH) // _SECOND, attrgetter("start"))
    return [shown - offset * _SECOND for offset in span.offsets]


def in_force(known: Sequence[T], seconds: int, start: Callable[[T], int]) -> T:
    """The entry of `spans`, or of a clock's `offsets`, for a local time in seconds since 1970 on the clock. `start`:
    gives the start of an entry."""
    if seconds >= LAST_CYCLE:
        seconds = LAST_CYCLE + (seconds - LAST_CYCLE) % CYCLE
    # The first entry holds for all times before it, too.
    return known[max(0, bisect_right(known, seconds, key=start) - 1)]


def goes_back(zone: str, since: datetime) -> bool:
    """Whether the zone's clocks show a local time twice, after `since` (UTC)."""
    first = (since - _EPOCH) // _SECOND
    return any(len(span.offsets) > 1 and span.start >= first for span in spans(zone))


@lru_cache(maxsize=64)
def spans(zone: str) -> tuple[Span, ...]:
    """The spans of the zone up to the end of the last cycle, which later ones repeat. The first begins before all
    times."""
    if zone == "UTC":
        return (Span(-_EVER, (0,)),)  # as nearly everywhere, without the search of 40 ms
    periods = list(_periods(ZoneInfo(zone)))
    edges = sorted({edge + offset for first, end, offset in periods for edge in (first, end)})
    found: list[Span] = []
    place = 0
    for start in edges[:-1]:
        while periods[place][1] + _DAY < start:  # no offset is a day
            place += 1
        near = periods[place : place + 4]
        offsets = tuple(offset for first, end, offset in near if first + offset <= start < end + offset)
        if not found or found[-1].offsets != offsets:
            found.append(Span(start, offsets))
    return tuple(found)


def _periods(zone: ZoneInfo) -> Iterator[tuple[int, int, int]]:
    """The instants between two changes of the zone's offset, and the offset: first, end and offset in seconds."""
    first, at = -_EVER, _FIRST
    offset = at.astimezone(zone).utcoffset()
    while at < _LAST:
        after = at + _STEP
        if (changed := after.astimezone(zone).utcoffset()) != offset:
            end = _change(zone, at, after)
            yield first, end, _seconds(offset)
            first, offset = end, changed
        at = after
    yield first, _EVER, _seconds(offset)


def _change(zone: ZoneInfo, before: datetime, after: datetime) -> int:
    """The second, between the two instants, from which on the offset is another one."""
    old = before.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = before + (after - before) // _SECOND // 2 * _SECOND
        before, after = (middle, after) if middle.astimezone(zone).utcoffset() == old else (before, middle)
    return _seconds(after - _EPOCH)


def _seconds(duration: timedelta | None) -> int:
    assert duration is not None, "a ZoneInfo has an offset at every instant"
    return duration // _SECOND

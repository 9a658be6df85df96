"""Up to where a stream's transactions have landed whole.

With transaction details, a change says its place in its transaction, and the first one of a transaction says where the
transaction before ended. So the changes of a source are one chain, over all tables and shards. A transaction is whole
when the next one has landed and nothing is missing before it. Here: the chain, and the gaps in it. Not here: for what
silver waits (`silver/plan/cut.py`). Pure.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from operator import attrgetter
from typing import Any, NamedTuple

Place = tuple[int, int]
"""Of a change: its transaction, and its number in it."""
_TICK = timedelta(microseconds=1)
MOST_PARTS = 200
"""Shards that lag behind each other at 10,000 transactions a second have thousands of loose ends."""


class Linked(NamedTuple):
    """One change of any table, and the one before it."""

    sequence: str
    """Its place among all changes of the source, as 35 digits."""
    place: Place
    before: Place | None
    """The change before it, of whatever table; None if DMS does not say it, as in the first message of a task."""
    at: datetime
    """When it was committed, UTC."""


@dataclass(frozen=True, slots=True)
class Part:
    """Changes that follow each other, with none missing in between."""

    before: Place | None
    """The change before the first one."""
    last: Place
    first_sequence: str
    last_sequence: str
    earliest: datetime
    """The earliest commit."""
    latest: datetime
    """The commit of the last transaction, of which more may come."""
    whole: datetime | None
    """The latest commit of the transactions before that one; None without any."""
    since: datetime
    """When the first of them landed, UTC."""
    changes: int

    @classmethod
    def of(cls, changes: Sequence[Linked], now: datetime) -> "Part":
        """The part of these changes, each of which is before the next one."""
        first, last = changes[0], changes[-1]
        ended = [change.at for change in changes if change.place[0] != last.place[0]]
        return cls(
            before=first.before,
            last=last.place,
            first_sequence=first.sequence,
            last_sequence=last.sequence,
            earliest=min(change.at for change in changes),
            latest=last.at,
            whole=max(ended, default=None),
            since=now,
            changes=len(changes),
        )

    def followed_by(self, other: "Part") -> "Part":
        """Both as one."""
        ended = [at for at in (self.whole, other.whole) if at is not None]
        if other.last[0] != self.last[0]:
            ended.append(self.latest)
        return replace(
            self,
            last=other.last,
            last_sequence=max(self.last_sequence, other.last_sequence),
            earliest=min(self.earliest, other.earliest),
            latest=other.latest,
            whole=max(ended, default=None),
            since=min(self.since, other.since),
            changes=self.changes + other.changes,
        )


@dataclass(frozen=True, slots=True)
class Transactions:
    """What has landed of a source's transactions."""

    main: Part | None = None
    """Everything up to a change."""
    others: tuple[Part, ...] = ()
    """Later changes, in order. What is before each of them has not landed."""
    unlisted: Part | None = None
    """What else has landed behind them, as if it were one part: the log has a note of each landing."""
    whole: datetime | None = None
    """All transactions that were committed up to this time have landed whole, but for those of before the first
    landing; UTC. None before that one."""
    gaps: int = 0
    """How often changes were missing that no shard had."""
    gap: tuple[Place, Place] | None = None
    """The last of them: the last change that had landed, and the last one that is missing."""
    again: int = 0
    """How many changes DMS has sent again."""

    def with_landed(
        self, changes: Iterable[Linked], now: datetime, searched: datetime | None = None
    ) -> "Transactions":
        """With the changes of one landing, whose time is `now`. `searched`: what is missing before changes that had
        landed by this time is in no shard. That is a gap."""
        given = [*changes]
        # By place: two transactions of PostgreSQL may have one microsecond, and so one sequence.
        landed = sorted({change.place: change for change in given}.values())
        known = [*([self.main] if self.main else []), *self.others]
        if not (parts := _linked([*known, *_parts(landed, now, known)])):
            return self
        main, *rest = parts
        others, gaps, gap = list[Part](), self.gaps, self.gap
        again = self.again + len(given) - len(landed)
        for part in rest:
            if part.last_sequence <= main.last_sequence:
                again += part.changes
            elif part.before is None and part.first_sequence <= main.last_sequence:
                # A task has begun again with a change that had landed, and went on.
                again += sum(part.first_sequence <= one.sequence <= main.last_sequence for one in landed)
                main = main.followed_by(part)
            elif not others and searched is not None and part.since <= searched:
                if part.before is not None and _behind(self.unlisted, main) is None:
                    gaps, gap = gaps + 1, (main.last, part.before)
                main = main.followed_by(part)
            else:
                others.append(part)
        unlisted = _behind(self.unlisted, main)
        if unlisted is not None and not others and searched is not None and unlisted.since <= searched:
            main, unlisted = main.followed_by(unlisted), None
        if more := others[MOST_PARTS:]:
            every = sorted([*more, *([unlisted] if unlisted else [])], key=attrgetter("last_sequence"))
            unlisted = replace(reduce(Part.followed_by, every), since=now)
        whole = self._whole(main, [*others, *([unlisted] if unlisted else [])])
        return Transactions(main, tuple(others[:MOST_PARTS]), unlisted, whole, gaps, gap, again)

    @property
    def gap_sentence(self) -> str | None:
        """The last gap, for a user."""
        if self.gap is None:
            return None
        (transaction, number), missing = self.gap
        return (
            f"behind change {number} of transaction {transaction}, the changes up to change {missing[1]} of "
            f"{missing[0]} have not landed, and no shard has them: their messages could not be read (see the "
            "quarantine), DMS has lost messages, its task was started at a later place, or its mapping was changed"
        )

    def _whole(self, main: Part, others: Iterable[Part]) -> datetime:
        incomplete = min([main.latest, *(part.earliest for part in others)]) - _TICK
        known = incomplete if main.whole is None else min(main.whole, incomplete)
        return known if self.whole is None else max(known, self.whole)


def _behind(unlisted: Part | None, part: Part) -> Part | None:
    """What is unlisted, if some of it is behind the part."""
    return unlisted if unlisted is not None and unlisted.last_sequence > part.last_sequence else None


def _parts(changes: Iterable[Linked], now: datetime, known: Collection[Part]) -> list[Part]:
    """The parts of one landing. `changes`: by sequence. Changes that come again end where a `known` part does, so that
    what is new behind them follows it."""
    ends: dict[Place, list[Linked]] = {}
    stops, starts = {part.last for part in known}, {part.first_sequence for part in known}
    for change in changes:
        before, run = change.before, list[Linked]()
        if before is not None and before not in stops and change.sequence not in starts:
            run = ends.pop(before, run)
        run.append(change)
        ends[change.place] = run
    return [Part.of(run, now) for run in ends.values()]


def _linked(parts: Iterable[Part]) -> list[Part]:
    """The parts, in order, those that follow each other as one."""
    following: dict[Place, Part] = {}
    for part in sorted(parts, key=attrgetter("last_sequence")):
        if part.before is not None:
            following[part.before] = part
    found, taken = list[Part](), set[Part]()
    for part in sorted(parts, key=attrgetter("first_sequence")):
        if part in taken:
            continue
        taken.add(part)
        whole = part
        while (behind := following.get(whole.last)) is not None and behind not in taken:
            taken.add(behind)
            whole = whole.followed_by(behind)
        found.append(whole)
    return found


def from_json(found: Any) -> Transactions:
    """From the JSON of its fields' values, in order."""
    main, others, unlisted, whole, gaps, gap, again = found
    last = gap and (tuple(gap[0]), tuple(gap[1]))
    return Transactions(
        main and _part(*main),
        tuple(_part(*part) for part in others),
        unlisted and _part(*unlisted),
        _time(whole),
        gaps,
        last,
        again,
    )


def _part(before: Any, last: Any, first_sequence: str, last_sequence: str, *others: Any) -> Part:
    *times, changes = others
    earliest, latest, whole, since = map(_time, times)
    assert earliest is not None
    assert latest is not None
    assert since is not None
    place = before and tuple(before)
    return Part(place, tuple(last), first_sequence, last_sequence, earliest, latest, whole, since, changes)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)

"""Which row of the source each change belongs to, where its key does not determine it.

A database checks its keys at a transaction's end, so that within a transaction a key may have several rows: in a swap,
or in `id = id + 1`, a row moves to a key before the row that had it has moved away. And an update that has only some of
its columns keeps the others of its row, under whichever key the row was before. Following the rows resolves both.

Here: following the rows of the few doubtful keys, without their values. Not here: which keys are doubtful
(`last_changes.py`), collecting the steps and building images (`key_moves.py`). Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lake_assets.silver.table.change_events import (
    DELETED,
    EARLIER,
    INSERTED,
    MOVED_AWAY,
    MOVED_HERE,
    UPDATED,
    commit_of,
)

Place = tuple[str, str, int]
"""Sequence, file and row of a change."""


@dataclass(frozen=True, slots=True)
class Step:
    """One event of a key."""

    key: int
    """The key's number."""
    kind: str
    sequence: str
    flushed: str
    file: str
    row: int
    partial: bool = False
    """Whether the image lacks columns."""
    repeats: bool = False
    """Whether a change with the same sequence is the same change, because the sequence is DMS's own."""
    loaded: bool = False
    """Whether the full load, which ran at that time, has read this image, or the columns that it has."""
    in_load: bool = False
    """Whether the full load ran at that time, or nearly."""
    lacks: frozenset[str] = frozenset()
    """The columns that a partial image lacks."""
    kept: bool = False
    """Whether all columns that a partial image lacks are of `kept_when_null`."""
    required: frozenset[str] = frozenset()
    """Of the columns that a partial image lacks, those that are not NULL if no former image is known."""
    phase: int = 0
    """The phase of a timeline (`past/timeline.py`)."""
    since: tuple[datetime, ...] = ()
    """In a timeline, the time of an event of the table's rows."""
    begins: bool = False
    """Whether that event is the beginning of a row."""
    vanishes: bool = False
    """Whether the epoch of the next full load begins, of which it is not known whether it has the row."""

    @property
    def transaction(self) -> tuple[int, str]:
        return self.phase, commit_of(self.sequence)

    @property
    def may_be_left_out(self) -> bool:
        return self.in_load or self.phase == EARLIER

    @property
    def place(self) -> Place:
        return self.sequence, self.file, self.row

    @property
    def order(self) -> tuple[object, ...]:
        in_timeline = (self.phase, self.since, self.begins)
        # A row leaves its old key before it arrives at the new one.
        return *in_timeline, self.sequence, self.flushed, self.file, self.row, self.kind != MOVED_AWAY


class Undecidable(Exception):
    """The changes do not determine which of two rows an update changes, or a row's former values."""

    def __init__(self, step: Step, reason: str) -> None:
        super().__init__(reason)
        self.step = step


@dataclass(slots=True)
class _Row:
    """A row of the source: the changes that make up its image; the oldest one has all columns."""

    images: list[Step] = field(default_factory=list)
    perhaps: list[Step] = field(default_factory=list)
    """Updates that may be of this row, and that no later image with all columns has superseded."""
    past: list[list[Step]] = field(default_factory=list)
    """The changes of each of its partial images so far."""
    moved: Step | None = None
    """The change that brought it to its key."""
    past_elsewhere: int = 0
    """How many of `past` are from before that change."""
    left: Step | None = None
    """The event by which it was deleted, or vanished."""
    read_at: int | None = None
    """The key under which the full load has read the values that it has from it."""

    @property
    def is_loaded(self) -> bool:
        """Whether no change has an image of the row, only a full load or the table."""
        return all(not step.sequence for step in self.images)

    @property
    def is_unknown(self) -> bool:
        """Whether it lacks values that the full load may have, because it came from a key without a row."""
        first = self.images[0] if self.images else None
        return first is not None and first.partial and (first.kept or first.in_load)

    @property
    def has_loaded_values(self) -> bool:
        """Whether the full load has read the values that the changes show since the row came to its key."""
        assert self.moved is not None
        *before, last = (step for step in self.images if step.order >= self.moved.order)
        return last.loaded and all(step.loaded for step in _needed(before, last.lacks))

    def takes(self, step: Step) -> None:
        if not step.partial:
            self.images.clear()
            self.perhaps.clear()
            self.read_at = None if step.sequence else step.key
        self.images[1:] = _needed(self.images[1:], step.lacks)
        self.images.append(step)

    def arrives(self, step: Step) -> None:
        self.takes(step)
        self.moved, self.past_elsewhere, self.left = step, len(self.past), None

    def is_alone(self) -> None:
        """No other row has its key any more, so that the updates which may be of it are. It may have moved since."""
        changes = sorted([*self.images, *self.perhaps], key=lambda step: step.order)
        self.images, self.perhaps = [], []
        for step in changes:
            self.takes(step)

    def image_now(self) -> list[Step]:
        """The changes of its image, which may turn out later: the list then changes."""
        self.past.append([*self.images, *self.perhaps])
        return self.past[-1]

    def is_as_loaded(self, other: "_Row") -> None:
        """The full load has read the row as `other`, after it had moved to its key."""
        for images in (self.images, *self.past[self.past_elsewhere :]):
            first = images[0] if images else other.images[0]
            if first.partial:
                images[:0] = other.images
            elif not first.sequence or first.phase < other.images[0].phase:
                images[:1] = other.images


def _needed(images: Sequence[Step], lacking: frozenset[str]) -> list[Step]:
    """The changes whose images have columns that later ones lack; `lacking`: what the latest of all lacks. So a row
    that is updated again and again has a short list."""
    if not lacking:
        return [*images]
    found = []
    for step in reversed(images):
        if not lacking <= step.lacks:
            found.append(step)
            lacking &= step.lacks
    return found[::-1]


def survivors(steps: Iterable[Step]) -> dict[int, list[Place]]:
    """For each key that has a row in the end, the changes that make up the row's image, the oldest first.

    A key that loses a row loses the one that it has had longest: a row that moves in during a swap is not the one that
    moves out. Between two transactions a key has one row at most; where it seems to have more, because a full load has
    read rows that later changes describe as well, the last one counts. Within a transaction, or where two have the same
    time, an inserted row with the image that the load has read is that row. Raises Undecidable for an update that may
    be of one of several rows, and for a row with only a partial image, unless its other columns may stay NULL.
    """
    found = _Rows(steps).living
    for row in found.values():
        _refuse_unknown(row.images)
    return {key: [step.place for step in row.images] for key, row in found.items()}


def whole_images(steps: Iterable[Step]) -> dict[Place, list[Place]]:
    """For each change with a partial image, the changes that make up its row's image at that time, the oldest first.
    Changes from before the full load, or from while it ran, are left out if they lack values that the row must have:
    the load shows the rows that remain, and must not wait for others. Raises as `survivors`."""
    rows = _Rows(steps)
    for row in rows.living.values():
        _refuse_unknown(row.images)
    known = {
        place: images
        for place, images in rows.made.items()
        if not (images[-1].may_be_left_out and _is_unknown(images))
    }
    for images in known.values():
        _refuse_unknown(images)
    return {place: [step.place for step in images] for place, images in known.items()}


def _is_unknown(images: Sequence[Step]) -> bool:
    return bool(frozenset.intersection(*(step.required for step in images)))


def _refuse_unknown(images: Sequence[Step]) -> None:
    if _is_unknown(images):
        raise Undecidable(
            images[0], "an update lacks columns, and the former values of its row are not known"
        )


class _Rows:
    """The rows, followed from one step to the next."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.made: dict[Place, list[Step]] = {}
        """The changes that make up each partial image."""
        self._present: dict[int, list[_Row]] = defaultdict(list)
        self._loaded: dict[int, _Row] = {}
        """By key, the row that the full load has read."""
        self._gone: dict[int, _Row] = {}
        """By key, the row that was deleted last, or that is not known to be in the full load."""
        self._moving: dict[Place, _Row] = {}
        self._moved: dict[tuple[int, tuple[int, str]], _Row] = {}
        """By key and transaction, the row that moved away last. Without sequences, the same change may come again."""
        self._owners: dict[int, _Row] = {}
        """By key, the row that the full load has read there, as far as it is known."""
        self._follow(steps)
        self.living = {key: present[0] for key, present in self._present.items() if present}
        for row in self.living.values():
            if row.perhaps:
                reason = "an update does not determine which of several rows with its key it changes"
                raise Undecidable(row.perhaps[0], reason)

    def _follow(self, steps: Iterable[Step]) -> None:
        touched: dict[int, None] = {}
        transaction: tuple[int, str] | None = None
        seen: dict[tuple[int, int, str, str], Step] = {}
        for step in sorted(steps, key=lambda s: s.order):
            change = (step.phase, step.key, step.kind, step.sequence)
            if step.repeats and (first := seen.setdefault(change, step)) is not step:
                if first.place in self.made:
                    self.made[step.place] = self.made[first.place]
                continue
            present = self._present[step.key]
            if transaction != step.transaction:
                transaction = step.transaction
                self._commit_ends(touched)
                touched.clear()
            touched[step.key] = None
            if (
                step.loaded
                and present
                and present[0].is_loaded
                and (step.kind == INSERTED or len(present) > 1)
            ):
                # The load has read this very row.
                del present[0]
                if len(present) == 1:
                    self._is_read(present[0], step.key)
                    present[0].is_alone()
            if step.kind in (DELETED, MOVED_AWAY):
                self._leaves(step, present)
            elif step.kind in (INSERTED, MOVED_HERE):
                self._arrives(step, present)
            else:
                assert step.kind == UPDATED, step
                self._is_updated(step, present)
            if step.partial and step.kind not in (DELETED, MOVED_AWAY):
                # Of several rows with its key, the last one is that of the key once the transaction has ended.
                self.made[step.place] = present[-1].image_now()
        self._commit_ends(touched)

    def _leaves(self, step: Step, present: list[_Row]) -> None:
        place = (step.key, step.transaction)
        again = self._moved.get(place) if step.kind == MOVED_AWAY and not step.repeats else None
        row = present.pop(0) if present else again or self._former(step)
        if step.kind == MOVED_AWAY:
            self._moving[step.place] = self._moved[place] = row
            return
        row.left = step
        self._gone[step.key] = row
        if step.vanishes:
            self._loaded.pop(step.key, None)

    def _arrives(self, step: Step, present: list[_Row]) -> None:
        row = self._moving.pop(step.place, None) or _Row()
        row.arrives(step)
        if not any(one is row for one in present):
            present.append(row)
        self._gone.pop(step.key, None)
        if not step.sequence:
            self._loaded[step.key] = _Row([step])
            self._owners[step.key] = row
        elif step.loaded and not step.partial:
            for other, key in self._owns(row, step.key):
                self._is_read(other, key)

    def _is_updated(self, step: Step, present: list[_Row]) -> None:
        if not present:
            present.append(self._former(step))
        if len(present) == 1:
            present[0].takes(step)
        for row in present if len(present) > 1 else ():
            row.perhaps.append(step)

    def _former(self, step: Step) -> _Row:
        """The row of a change of a key without a row. The full load may not have it because it was deleted meanwhile;
        and without sequences, a change that comes again follows the delete of its row in the same transaction."""
        row = self._gone.pop(step.key, _Row())
        left = row.left
        if left is None:
            return row
        vanished = left.vanishes and step.may_be_left_out
        return row if vanished or left.transaction == step.transaction else _Row()

    def _commit_ends(self, keys: Iterable[int]) -> None:
        """Keeps only the last row of each key, because a key has one row between two transactions. The other rows had
        left before, so updates that may be of any of the rows are of the last one."""
        for key in keys:
            if present := self._present[key]:
                self._has_arrived(present, key)
                if len(present) > 1:
                    del present[:-1]
                    present[0].is_alone()

    def _has_arrived(self, present: list[_Row], key: int) -> None:
        row = present[-1]
        # If the load has read the row after it had moved here, no other row has left the key since.
        beside = len(present) > 1 and present[-2].is_loaded and (row.is_unknown or _in_load(row))
        if self._may_be_read(row, key) and (beside or self._is_probably_read(row, key)):
            self._is_read(row, key)
        self._owners.setdefault(key, row)

    def _may_be_read(self, row: _Row, key: int) -> bool:
        moved_here = row.moved is not None and row.moved.kind == MOVED_HERE
        return moved_here and row.read_at != key and key in self._loaded

    def _is_probably_read(self, row: _Row, key: int) -> bool:
        """Whether the load has read the row under its key, though another row has left the key, as far as the files
        show it: no other row has the values that the load has read there."""
        assert row.moved is not None, "it may be read only where it moved to"
        if row.is_unknown:
            return row.moved.loaded or row.has_loaded_values
        return key not in self._owners and row.read_at is not None and row.moved.loaded

    def _is_read(self, row: _Row, key: int) -> None:
        """The load has read the row under its key, and so others under theirs: the row that came from this key, and
        the one that is now at the key from which this row came."""
        found = [(row, key)]
        while found:
            row, key = found.pop()
            row.is_as_loaded(self._loaded[key])
            former, row.read_at = row.read_at, key
            found += self._owns(row, key)
            if former is not None and former != key and self._owners.get(former) is row:
                del self._owners[former]
                for other in self._present[former][-1:]:
                    if self._may_be_read(other, former) and self._is_probably_read(other, former):
                        found.append((other, former))

    def _owns(self, row: _Row, key: int) -> list[tuple[_Row, int]]:
        """The row is the one that the load has read under the key. Gives the row that came from the key, with its key
        of now, if the load has read it there."""
        former, self._owners[key] = self._owners.get(key), row
        if former is None or former is row or former.read_at != key or former.moved is None:
            return []
        now = former.moved.key
        is_there = any(one is former for one in self._present[now])
        return [(former, now)] if is_there and self._may_be_read(former, now) and former.moved.loaded else []


def _in_load(row: _Row) -> bool:
    return row.moved is not None and row.moved.in_load

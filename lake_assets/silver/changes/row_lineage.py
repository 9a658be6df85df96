"""Which row of the source each change belongs to, where its key does not determine it.

A database checks its keys at a transaction's end, so that within a transaction a key may have several rows: in a swap,
or in `id = id + 1`, a row moves to a key before the row that had it has moved away. And an update that has only some of
its columns keeps the others of its row, under whichever key the row was before. Following the rows resolves both.

Here: following the rows of the few doubtful keys, without their values. Not here: which keys are doubtful
(`collapse.py`), collecting the steps and building images (`key_moves.py`). Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lake_assets.silver.table.change_events import (
    DELETED,
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
    """Whether the full load, which ran at that time, has read this image."""
    lacks: frozenset[str] = frozenset()
    """The columns that a partial image lacks."""
    kept: bool = False
    """Whether all columns that a partial image lacks are of `kept_when_null`."""
    may_stay_null: bool = False
    """Whether these columns are NULL if no former image is known."""

    @property
    def place(self) -> Place:
        return self.sequence, self.file, self.row

    @property
    def order(self) -> tuple[str, str, str, int, bool]:
        # A row leaves its old key before it arrives at the new one.
        return self.sequence, self.flushed, self.file, self.row, self.kind != MOVED_AWAY


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

    @property
    def is_loaded(self) -> bool:
        """Whether no change has an image of the row, only a full load or the table."""
        return all(not step.sequence for step in self.images)

    @property
    def is_unknown(self) -> bool:
        """Whether it lacks values of `kept_when_null`, because it came from a key without a row."""
        return bool(self.images) and self.images[0].partial and self.images[0].kept

    def takes(self, step: Step) -> None:
        if not step.partial:
            self.images.clear()
            self.perhaps.clear()
        self.images[1:] = _needed(self.images[1:], step.lacks)
        self.images.append(step)


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


def _commit_ends(present: list[_Row]) -> None:
    """Keeps only the last row, because a key has one row between two transactions. The other rows had left before, so
    updates that may be of any of the rows are of the last one."""
    if len(present) > 1:
        if present[-1].is_unknown and present[-2].is_loaded:
            # The load has read the row after it had moved here.
            present[-1].images[:0] = present[-2].images
        del present[:-1]
        updates, present[0].perhaps = present[0].perhaps, []
        for step in updates:
            present[0].takes(step)


def survivors(steps: Iterable[Step]) -> dict[int, list[Place]]:
    """For each key that has a row in the end, the changes that make up the row's image, the oldest first.

    A key that loses a row loses the one that it has had longest: a row that moves in during a swap is not the one that
    moves out. Between two transactions a key has one row at most; where it seems to have more, because a full load has
    read rows that later changes describe as well, the last one counts. Within a transaction, or where two have the same
    time, an inserted row with the image that the load has read is that row. Raises Undecidable for an update that may
    be of one of several rows, and for a row with only a partial image, unless its other columns may stay NULL.
    """
    rows: dict[int, list[_Row]] = {}
    commits: dict[int, str] = {}
    moving: dict[Place, _Row] = {}
    seen: set[tuple[int, str, str]] = set()
    for step in sorted(steps, key=lambda s: s.order):
        if step.repeats:
            if (change := (step.key, step.kind, step.sequence)) in seen:
                continue
            seen.add(change)
        present = rows.setdefault(step.key, [])
        if commits.get(step.key) != commit_of(step.sequence):
            commits[step.key] = commit_of(step.sequence)
            _commit_ends(present)
        if step.loaded and present and present[0].is_loaded and (step.kind == INSERTED or len(present) > 1):
            del present[0]  # the load has read this very row
        if step.kind in (DELETED, MOVED_AWAY):
            gone = present.pop(0) if present else _Row()
            if step.kind == MOVED_AWAY:
                moving[step.place] = gone
        elif step.kind in (INSERTED, MOVED_HERE):
            row = moving.pop(step.place, None) or _Row()
            row.takes(step)
            present.append(row)
        else:
            assert step.kind == UPDATED, step
            if not present:
                present.append(_Row())
            if len(present) == 1:
                present[0].takes(step)
            for row in present if len(present) > 1 else ():
                row.perhaps.append(step)
    for present in rows.values():
        _commit_ends(present)
    found = {key: present[0] for key, present in rows.items() if present}
    for row in found.values():
        if row.perhaps:
            raise Undecidable(
                row.perhaps[0], "an update does not determine which of several rows with its key it changes"
            )
        if (first := row.images[0]).partial and not first.may_stay_null:
            raise Undecidable(
                first, "an update lacks columns, and the former values of its row are not known"
            )
    return {key: [step.place for step in row.images] for key, row in found.items()}

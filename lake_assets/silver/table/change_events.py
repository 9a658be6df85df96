"""Words and figures of changes that plans, strategies and reports share. Pure.

Here: kinds of events, names of key columns, a commit's part of a sequence, the figures of a batch. Not here: computing
any of it (`silver/changes/collapse.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

COMMIT_DIGITS = 16
"""The leading digits of a sequence that are the time of its transaction's commit."""

INSERTED, MOVED_HERE, UPDATED, DELETED, MOVED_AWAY = "I", "M", "U", "D", "A"
"""Kinds of events; the first two bring a row to a key, the last two take one away."""


@dataclass(frozen=True, slots=True)
class ChangeFigures:
    """What was read for a batch; filled once the batch has been computed."""

    rows: int = 0
    by_op: dict[str, int] = field(default_factory=dict)
    min_sequence: str = ""
    max_sequence: str = ""
    max_commit_ts: datetime | None = None
    min_commit_ts: datetime | None = None
    """Of changes; rows of a full load have none of their own."""
    used: int = 0
    """Rows after the unusable were left out, counted behind that filter."""
    bad_rows: int = 0
    first_change_file: str | None = None
    """Address of the first file that updates or deletes."""
    passed_over: int = 0
    """Of the rows, those of another batch by the consistent cut: applied before, or waiting for it. All other figures
    but `rows` are without them."""
    waiting: int = 0
    """Of those, the ones that wait."""
    behind_cut: int = 0
    """Of the others, those that an earlier cut should have had: its tags lack them."""
    read_before: int = 0
    """Rows of files that an earlier batch has read, too."""

    def is_late(self, max_sequence: str) -> bool:
        """Whether a change is not newer than `max_sequence`, the highest that the table has seen."""
        return "" < self.min_sequence <= max_sequence


def key_columns(key: Sequence[object]) -> list[str]:
    """The columns that hold a key's values in events and states, whatever the source calls them."""
    return [f"_key_{position}" for position in range(len(key))]


def commit_of(sequence: str) -> str:
    """The commit time in a sequence, as digits; equal for all changes of a transaction."""
    return sequence[:COMMIT_DIGITS]

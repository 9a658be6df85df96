"""Terms and figures of changes that plans, strategies and reports share. Pure.

Here: kinds of events, phases of a timeline, names of key columns, a commit's part of a sequence, the figures of a
batch. Not here: computing any of it (`silver/reduce/`), late changes (`silver/plan/lateness.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lake_assets.bronze.decode.dms_columns import KEY

COMMIT_DIGITS = 16
"""The leading digits of a sequence that are the time of its transaction's commit."""

INSERTED, MOVED_HERE, UPDATED, DELETED, MOVED_AWAY = "I", "M", "U", "D", "A"
"""Kinds of events; the first two add a row to a key, the last two remove one."""
KNOWN, EARLIER, VANISHED, OWN = range(4)
"""Phases of a timeline (`silver/reduce/past/timeline.py`): the table's rows; changes from before the epoch that the
table lacks; the end of every key that the full load does not have; the epoch's own rows and changes."""


@dataclass(frozen=True, slots=True)
class ChangeFigures:
    """The figures of the rows that were read for a batch, known once the batch has been computed."""

    rows: int = 0
    by_op: dict[str, int] = field(default_factory=dict)
    min_sequence: str = ""
    max_sequence: str = ""
    max_commit_ts: datetime | None = None
    min_commit_ts: datetime | None = None
    """The oldest commit of the changes; rows of a full load have none of their own."""
    used: int = 0
    """Rows that remain after the filter of unusable rows, counted after it."""
    bad_rows: int = 0
    passed_over: int = 0
    """Rows that belong to another batch by the consistent cut: applied before, or waiting. No other figure but `rows`
    includes them."""
    waiting: int = 0
    """Those of `passed_over` that wait for the cut."""
    behind_cut: int = 0
    """Rows of the batch that belong to an earlier cut; the tags of that cut lack them."""
    read_before: int = 0
    """Rows of files that an earlier batch has read as well."""

    def __add__(self, other: "ChangeFigures") -> "ChangeFigures":
        """The figures of both; `other` are those of later files."""
        both = (self, other)
        latest = [each.max_commit_ts for each in both if each.max_commit_ts is not None]
        oldest = [each.min_commit_ts for each in both if each.min_commit_ts is not None]
        return ChangeFigures(
            rows=self.rows + other.rows,
            by_op={op: self.by_op[op] + other.by_op[op] for op in self.by_op},
            min_sequence=min((each.min_sequence for each in both if each.min_sequence), default=""),
            max_sequence=max(self.max_sequence, other.max_sequence),
            max_commit_ts=max(latest, default=None),
            min_commit_ts=min(oldest, default=None),
            used=self.used + other.used,
            bad_rows=self.bad_rows + other.bad_rows,
            passed_over=self.passed_over + other.passed_over,
            waiting=self.waiting + other.waiting,
            behind_cut=self.behind_cut + other.behind_cut,
            read_before=self.read_before + other.read_before,
        )


def key_columns(key: Sequence[object]) -> list[str]:
    """The columns that hold a key's values in events and states, whatever the source calls them."""
    return [KEY.format(place=place) for place in range(len(key))]


def commit_of(sequence: str) -> str:
    """The commit time in a sequence, as digits; equal for all changes of a transaction."""
    return sequence[:COMMIT_DIGITS]

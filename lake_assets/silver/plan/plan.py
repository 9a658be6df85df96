"""A plan of a silver table: its next batch, or why there is none.

Here: the values. Not here: deciding them (`planner.py`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.errors import Remedy, TableStopped

LARGE_ROWS, LARGE_BYTES = 50_000, 16 * 2**20
"""A batch with at least so many rows, or bytes as stored, takes longer than all usual batches of a round together."""


def are_large(files: Iterable[LoggedFile]) -> bool:
    """Whether these files make a large batch."""
    files = list(files)
    rows = sum(file.rows for file in files if file.rows is not None)
    return rows >= LARGE_ROWS or sum(file.size for file in files) >= LARGE_BYTES


class State(StrEnum):
    """The state of a silver table against the file log."""

    UP_TO_DATE = "up to date"
    NO_FILES = "no files"
    PENDING = "pending"
    WAITING = "waiting"
    STOPPED = "stopped"
    FAILING = "failing"
    """It has a batch, and its newest turn failed."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a table is stopped, and what the user has to do: sentences for the user."""

    reason: str
    next_step: str
    remedy: Remedy | None = None

    def error(self, table: str) -> TableStopped:
        """The error of the turn; `table` is `schema.table`."""
        return TableStopped(table, self.reason, self.next_step).mended_by(self.remedy)


@dataclass(frozen=True, slots=True)
class Batch:
    """Files that one commit applies. `files` is empty when all pending files are superseded."""

    kind: Literal["full_load", "cdc", "truncate", "drop"]
    """`full_load` replaces the table, `truncate` empties it, `drop` drops it once it is empty."""
    files: tuple[LoggedFile, ...]
    upto: int
    """The table's log offset once the batch is applied."""
    epoch: int
    superseded_files: int = 0
    """Files left out: flushed before the epoch began, so that the full load has their changes, or rewritten since."""
    vanished: tuple[LoggedFile, ...] = ()
    """Records that the batch passes, which mark all files before them as vanished."""
    cut: datetime | None = None
    """The commit up to which rows are applied, UTC; later ones wait. None: all are applied."""
    reopened: frozenset[int] = frozenset()
    """Offsets of those of `files` that an earlier batch has read, and that have waiting rows."""
    again: bool = False
    """Whether the files were applied before, and their keys are recomputed from all files."""

    @property
    def own_files(self) -> list[LoggedFile]:
        """The files without those that an earlier batch has read."""
        return [file for file in self.files if file.offset not in self.reopened]

    @property
    def rows(self) -> int | None:
        """Rows of all files by their own count; None if a file has no count."""
        counts = [file.rows for file in self.files]
        return None if None in counts else sum(count for count in counts if count is not None)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a table: at most one of the three, and none when the table is up to date."""

    batch: Batch | None = None
    waiting: str | None = None
    """Why no batch can be applied yet: a sentence for the user."""
    stop: Stop | None = None
    note: str | None = None
    """A sentence about a batch that the table's new files do not explain."""

    @property
    def state(self) -> State:
        if self.stop is not None:
            return State.STOPPED
        if self.waiting is not None:
            return State.WAITING
        return State.UP_TO_DATE if self.batch is None else State.PENDING


UP_TO_DATE = Plan()

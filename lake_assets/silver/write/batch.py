"""What applying a batch did: the figures that are checked, shown and stored.

Here: the result of one batch and of one table's turn. Not here: computing it (`silver/apply/apply_batch.py`), showing
it (`orchestration/assets/silver_report.py`).
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.silver.table import batch_latency as latency
from lake_assets.silver.table.batch_latency import Passage
from lake_assets.silver.table.position import BATCH, Position
from lake_assets.silver.table.targets import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lake_assets.spark.checkpoint import Observed

NO_CHANGES = "none"
"""As the lowest sequence of a batch that has no changes."""
REWRITE = "rewrite"
"""Strategy of a batch whose one commit replaces all of a table's files, by the rows that stay and the new ones."""
OPERATIONS = {"I": "inserted", "U": "updated", "D": "deleted"}


@dataclass(frozen=True, slots=True)
class Written:
    """What a mode has written to the branch, and what is left for the commit that bears the position."""

    strategy: str
    """`overwrite`, `append`, `delete_and_append`, `rewrite` or `delete`."""
    keys: int = 0
    """Distinct keys after the collapse; an upper bound for a full load, the rows for a log."""
    rows: int = 0
    images: "DataFrame | None" = None
    """Rows still to be appended; None when they are on the branch already."""
    replaced: int | None = None
    """Rows that the written ones stand for, by reading them; None where nobody needs to read those."""
    versions: int = 0
    """Of a table that keeps what was before, the images that its rows were made of, what it held included."""
    touched: Mapping[str, str] = field(default_factory=dict)
    """Per tracked column the days that old and new images lie in, as the summary carries them."""
    followed: int = 0
    """Keys among `keys` that no change of the batch names: its rows came from there."""
    taken_back: int = 0
    """Rows among `rows` that were written by a first pass and taken back by a second."""
    kept: "Observed | None" = None
    """`rows`: those among `images`, beside `rows`, that were there before: the commit replaces the whole table."""
    unseen_updates: Callable[[int], int] = lambda removed: 0
    """Of a batch that has removed so many rows; until it is published."""
    present: int | None = None
    """Of a batch in order, keys that the table should have, because their first change updates or deletes a row."""
    unmatched: int = 0
    """Rows that were to be taken away from a table without a key, and were not there."""

    def unknown_rows(self, removed: int, unseen_updates: int, epoch: int) -> int:
        """Changes of rows that the table did not have, of a batch that has removed so many rows. Below a full load only
        updates count: a row that is deleted while the load runs may be in none of its parts."""
        if epoch or self.present is None:
            return unseen_updates
        return max(0, self.present - removed)


@dataclass(slots=True)
class BatchResult:
    """One published commit."""

    kind: str
    """`full_load`, `cdc` or `truncate`."""
    strategy: str
    files: int
    first_key: str | None
    last_key: str | None
    bytes: int
    rows_counted: int
    """Rows of the files by their own count, made without Spark."""
    rows_read: int
    by_op: dict[str, int]
    keys: int
    rows_written: int
    rows_removed: int
    rows_before: int
    position: Position
    replayed_bytes: int = 0
    """Bytes read again, because a file came late or a key's last change does not tell its state; else 0."""
    unseen_updates: int = 0
    """Updates of keys that the table did not have, which no before image explains; each became a row."""
    unmatched: int = 0
    """Rows that deletes and updates were to take away from a table without a key, and that were not there."""
    min_sequence: str = ""
    """The lowest of the batch's changes; empty when it has none."""
    superseded_files: int = 0
    rows_behind_cut: int = 0
    """Rows that came after the consistent cut that they belong to; repetitions of applied rows included."""
    rows_quarantined: int = 0
    files_quarantined: int = 0
    schema_changes: tuple[str, ...] = ()
    """What the batch changed about silver's columns, a sentence each."""
    vanished: tuple[LoggedFile, ...] = ()
    """Records that it passed, which say that all of the table's files before them have vanished."""
    first_file_at: datetime | None = None
    """When the oldest of its CDC files was written, UTC; None when it has none."""
    first_commit_at: datetime | None = None
    """The oldest commit of its changes, UTC."""
    published_at: datetime | None = None
    """UTC; None until it is."""
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def passage(self) -> Passage | None:
        """How long its changes took; None without CDC files."""
        if self.first_file_at is None or self.published_at is None:
            return None
        return Passage(self.first_file_at, self.published_at, self.first_commit_at)

    @property
    def rows(self) -> int:
        """Live rows of the table after the batch."""
        return self.position.rows

    def properties(self) -> dict[str, str]:
        """The batch's figures as summary properties, so that they can be read back without Dagster."""
        figures = {
            "kind": self.kind,
            "strategy": self.strategy,
            "files": self.files,
            "bytes": self.bytes,
            "rows-read": self.rows_read,
            "rows-quarantined": self.rows_quarantined,
            "unmatched": self.unmatched,
            "rows-behind-cut": self.rows_behind_cut,
            "min-sequence": self.min_sequence or NO_CHANGES,
            **{f"rows-{name}": self.by_op[op] for op, name in OPERATIONS.items()},
        }
        told = {f"{BATCH}{name}": str(value) for name, value in figures.items()}
        return told | latency.properties(self.first_file_at, self.first_commit_at)


@dataclass(slots=True)
class TableResult:
    """One table's turn: the batches it published, and why it is not further, if it is not."""

    target: Target
    batches: list[BatchResult] = field(default_factory=list)
    waiting: str | None = None
    error: Exception | None = None
    position: Position = field(default_factory=Position)


class Stopwatch:
    """Seconds per stage of a batch."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - start, 3)

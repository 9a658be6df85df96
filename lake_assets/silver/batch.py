"""What applying a batch did: the figures that are checked, shown and stored.

Here: the result of one batch and of one table's turn. Not here: computing it (`apply.py`), showing it (`report.py`).
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from lake_assets.silver.collapse import ChangeFigures
from lake_assets.silver.position import BATCH, Position
from lake_assets.silver.targets import Target

OPERATIONS = {"I": "inserted", "U": "updated", "D": "deleted"}


@dataclass(slots=True)
class Written:
    """What a mode has written to the branch, and what is left for the commit that bears the position."""

    strategy: str
    """`overwrite`, `append` or `delete_and_append`."""
    changes: ChangeFigures
    rows_counted: int
    """Rows of the files by their own count."""
    keys: int
    """Distinct keys after the collapse; an upper bound for a full load, the rows for a log."""
    rows: int
    images: DataFrame | None = None
    """Rows still to be appended; None when they are on the branch already."""
    replaced: int | None = None
    """Rows that the written ones stand for, by reading them; None where nobody needs to read those."""
    versions: int = 0
    """Of a table that keeps what was before, the images that its rows were made of, what it held included."""
    touched: dict[str, str] = field(default_factory=dict)
    """Per tracked column the days that old and new images lie in, as the summary carries them."""


def nothing_readable() -> Written:
    """What a batch without a readable file writes: its position alone."""
    return Written("append", ChangeFigures(by_op=dict.fromkeys("IUD", 0)), rows_counted=0, keys=0, rows=0)


@dataclass(slots=True)
class BatchResult:
    """One published commit."""

    kind: str
    """`full_load` or `cdc`."""
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
    """Bytes read again because a file came late; 0 for a batch in order."""
    superseded_files: int = 0
    rows_quarantined: int = 0
    files_quarantined: int = 0
    schema_changes: tuple[str, ...] = ()
    """What the batch changed about silver's columns, a sentence each."""
    seconds: dict[str, float] = field(default_factory=dict)

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
            **{f"rows-{name}": self.by_op[op] for op, name in OPERATIONS.items()},
        }
        return {f"{BATCH}{name}": str(value) for name, value in figures.items()}


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

"""The result of applying a batch: the figures that are checked, shown and stored.

Here: the result of one batch and of one table's turn. Not here: computing it (`silver/apply/apply_batch.py`), showing
it (`orchestration/assets/silver_report.py`).
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.silver.table import batch_latency as latency
from lake_assets.silver.table.batch_latency import Passage
from lake_assets.silver.table.position import BATCH, NO_CHANGES, Position
from lake_assets.silver.table.targets import Target

OPERATIONS = {"I": "inserted", "U": "updated", "D": "deleted"}
MOST_STAGES = 12
"""The stages of which a commit has the seconds: every commit of a table writes the summaries of all again."""


@dataclass(slots=True)
class BatchResult:
    """One published commit."""

    kind: str
    """`full_load`, `cdc` or `truncate`."""
    strategy: str
    reason: str
    files: int
    first_key: str | None
    last_key: str | None
    bytes: int
    rows_counted: int
    """Rows of the files by their own count, without Spark."""
    rows_read: int
    by_op: dict[str, int]
    keys: int
    rows_written: int
    rows_removed: int
    rows_before: int
    position: Position
    replayed_bytes: int = 0
    """Bytes read again, because a file arrived late or a key's last change does not determine its state; else 0."""
    unseen_updates: int = 0
    """Updates of keys that the table did not have, which no before image explains; each became a row."""
    unmatched: int = 0
    """Rows that deletes and updates should have removed from a table without a key, and that it did not have."""
    min_sequence: str = ""
    """The lowest sequence of the batch's changes; empty when it has none."""
    superseded_files: int = 0
    rows_behind_cut: int = 0
    """Rows that arrived after the consistent cut to which they belong; repetitions of applied rows included."""
    rows_quarantined: int = 0
    files_quarantined: int = 0
    schema_changes: tuple[str, ...] = ()
    """A sentence for each change of the table's columns."""
    vanished: tuple[LoggedFile, ...] = ()
    """Records that the batch passed, which mark all of the table's files before them as vanished."""
    first_file_at: datetime | None = None
    """When the oldest of its CDC files was written, UTC; None when it has none."""
    first_commit_at: datetime | None = None
    """The oldest commit of its changes, UTC."""
    data_files: int = 0
    """What a full scan of the table opens after the batch."""
    delete_files: int = 0
    deleted_rows: int = 0
    """Rows of the data files that a scan reads in vain."""
    published_at: datetime | None = None
    """UTC; None until the batch is published."""
    seconds: dict[str, float] = field(default_factory=dict)
    began_at: datetime | None = None
    """When it was begun, UTC."""
    run_id: str = ""
    """The run of Dagster; empty without one."""
    batch_id: str = ""
    """See `BatchContext.id`."""

    @property
    def passage(self) -> Passage | None:
        """The latency of its changes; None without CDC files."""
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
            "reason": self.reason,
            "files": self.files,
            "bytes": self.bytes,
            "rows-read": self.rows_read,
            "rows-quarantined": self.rows_quarantined,
            "unmatched": self.unmatched,
            "rows-behind-cut": self.rows_behind_cut,
            "min-sequence": self.min_sequence or NO_CHANGES,
            "seconds": round(sum(self.seconds.values()), 3),  # until its last commit
            "stages": self._stages(),
            "began-at": "" if self.began_at is None else self.began_at.isoformat(timespec="milliseconds"),
            "run-id": self.run_id,
            "id": self.batch_id,
            **{f"rows-{name}": self.by_op[op] for op, name in OPERATIONS.items()},
        }
        properties = {f"{BATCH}{name}": str(value) for name, value in figures.items() if value != ""}
        return properties | latency.properties(self.first_file_at, self.first_commit_at)

    def _stages(self) -> str:
        """The longest stages until its last commit, as JSON; empty without any that took a millisecond."""
        longest = sorted(self.seconds.items(), key=lambda stage: stage[1], reverse=True)[:MOST_STAGES]
        found = {name: seconds for name, seconds in longest if seconds}
        return json.dumps(found, separators=(",", ":")) if found else ""


@dataclass(slots=True)
class TableResult:
    """The result of one table's turn: the published batches, and why it stopped before the head of the log, if so."""

    target: Target
    batches: list[BatchResult] = field(default_factory=list)
    waiting: str | None = None
    error: Exception | None = None
    position: Position = field(default_factory=Position)


class Stopwatch:
    """Seconds per stage of a batch. A stage within another one does not count for that."""

    def __init__(self) -> None:
        self.began_at = datetime.now(UTC)
        self.seconds: dict[str, float] = {}
        self._within: list[float] = []
        """Of each stage that has not ended, the seconds of the stages within it."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        self._within.append(0.0)
        try:
            yield
        finally:
            whole = time.perf_counter() - start
            own = whole - self._within.pop()
            self.seconds[name] = round(self.seconds.get(name, 0.0) + own, 3)
            if self._within:
                self._within[-1] += whole

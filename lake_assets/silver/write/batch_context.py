"""The context of one batch: the table, its position, the files, a Spark session; fixed while the batch is applied.

Here: those, and values derived from them. Not here: reading the files (`batch_reader.py`), writing the rows
(`silver/apply/apply_batch.py`, `current/upsert.py`, `append_only_tables.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from lake_assets.bronze.files.inspect import UnreadableFile
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.quarantine.quarantine_log import Quarantined
from lake_assets.bronze.reader.staging import Staging
from lake_assets.iceberg.table_io import current_snapshot, summary
from lake_assets.runtime import LakeRuntime
from lake_assets.schema.contract import Contracts
from lake_assets.silver.changes.row_cut import ALL_ROWS, RowCut
from lake_assets.silver.plan.members import epoch_members, made_of
from lake_assets.silver.plan.planner import Batch
from lake_assets.silver.table.log_mark import LogMark, mark_of
from lake_assets.silver.table.position import Position
from lake_assets.silver.table.targets import Target
from lake_assets.silver.write.batch import Stopwatch
from lake_assets.spark.sql import Sql, table_address
from lake_assets.storage.object_store import ObjectStore
from lake_assets.words import many

SMALL_ROWS = 100_000
"""Limit of a small table's rows, and of the keys of a batch that rewrites it. A limit of bytes is not enough: equal
rows need almost no space but still time; keys are sent to every task, and one task writes one file."""
MOST_FILES = 64
"""Limit of a small table's files if it has partitions: a rewrite writes a file for each of them."""
Damaged = dict[tuple[str, str], UnreadableFile]
"""Errors of unreadable files, by key and version."""


@dataclass(frozen=True, slots=True)
class BatchContext:
    """One batch of one table, in a Spark session of its own."""

    runtime: LakeRuntime
    spark: SparkSession
    target: Target
    position: Position
    batch: Batch
    logged: Sequence[LoggedFile]
    """All files of the table in the log."""
    contracts: Contracts
    staging: Staging
    """Where this process leaves rows for Spark."""
    table: Table | None = None
    """The table from which the batch was planned; None if it did not exist."""
    stage: Callable[[str], None] = lambda name: None
    """Called with the name of each stage as it begins."""
    damaged: Damaged = field(default_factory=dict)
    """Files on which a reader failed although they seem whole."""
    reshape: bool = False
    """Whether the table's rows are of another shape or masked otherwise: none of them is read, all are replaced."""
    states: DataFrame | None = None
    """States of keys to write instead of those that the batch's files give; such a batch has no files."""
    spark_reads: bool = True
    """Whether Spark may read Parquet files as they are, and large full loads be written before their keys are known."""
    watch: Stopwatch = field(default_factory=Stopwatch)

    @property
    def store(self) -> ObjectStore:
        """Where the source's files are."""
        return self.runtime.store(self.target.source)

    @property
    def address(self) -> Sql:
        """The table in Spark, by its main branch."""
        return table_address(self.runtime.lake.catalog.name, self.target.identifier)

    @property
    def main(self) -> DataFrame:
        """The table's rows as readers see them, without the batch. It does not read the planned snapshot, which may
        lack a column: if main has moved since, the batch is not published anyway."""
        return self.spark.table(self.address)

    @property
    def members(self) -> tuple[LoggedFile, ...]:
        """All files of the epoch from which the table's state after the batch is computed."""
        return epoch_members(self.logged, self.batch.upto)

    @property
    def made_of(self) -> Sequence[LoggedFile]:
        """The files from which the table is computed after the batch, by its mode."""
        batch = self.batch
        known = [file for file in self.logged if file.offset <= batch.upto]
        return made_of(known, self.target.mode, batch.upto)

    @property
    def counted_among(self) -> Mapping[tuple[str, str], str | None]:
        """By key and version, the `LoggedFile.counted_among` of the files of `made_of`."""
        return {(file.key, file.version): file.counted_among for file in self.made_of if not file.retry}

    @property
    def log_mark(self) -> LogMark | None:
        """The mark of the log at the batch's new position."""
        log, upto = self.runtime.file_log, self.batch.upto
        files = log.files(self.target.source, self.target.table, upto=upto)
        return mark_of(log.identity(), upto, files, self.made_of)

    @property
    def row_cut(self) -> RowCut:
        """Which rows of the batch's files belong to the batch."""
        if self.batch.cut is None and not self.batch.reopened:
            return ALL_ROWS
        return RowCut(self.batch.cut, self.batch.reopened, self.position.cut)

    @property
    def why_marked(self) -> str | None:
        """Why the table's rows are marked as deleted; None if it is small enough to be rewritten."""
        if self.target.tracked.by_partition:
            return "a mart follows its partitions"
        if not 0 < self.position.rows <= SMALL_ROWS:
            return f"the table has {many(self.position.rows, 'row')}"
        totals = summary(current_snapshot(self.table))
        files = int(totals.get("total-data-files", "0"))
        # Its own partitions: those of lake.yaml may be newer.
        if files > MOST_FILES and self.table is not None and self.table.spec().fields:
            return f"the table has partitions and {many(files, 'file')}"
        size = int(totals.get("total-files-size", "-1")) / 2**20
        limit = self.runtime.lake.automation.rewrite_below_mb
        return (
            None if 0 <= size < limit else f"the table has {size:.1f} MB, and rewrite_below_mb is {limit:g}"
        )

    def rewrites(self, keys: int) -> bool:
        """Whether a batch of so many keys replaces the whole table."""
        return self.why_marked is None and 0 < keys <= SMALL_ROWS

    def why_not_rewritten(self, keys: int) -> str:
        """Why a batch of so many keys does not replace the whole table."""
        return self.why_marked or f"{many(keys, 'key', 'are')} too many to rewrite a small table"

    @property
    def retries(self) -> bool:
        """Whether the batch retries rows that were quarantined earlier."""
        return any(file.retry for file in self.batch.files)

    def held(self) -> list[Quarantined]:
        """The table's entries in the quarantine, in every state."""
        return self.runtime.quarantine.all(self.target.identifier)

"""The context of one batch: the table, its position, the files, a Spark session; fixed while the batch is applied.

Here: those, and values derived from them. Not here: reading the files (`reader.py`), what becomes of the rows
(`silver/reduce/`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_hex

from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from lake_assets.bronze.files.inspect import UnreadableFile
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.quarantine.quarantine_log import Quarantined
from lake_assets.bronze.reader.staging import Staging
from lake_assets.runtime import LakeRuntime
from lake_assets.schema.contract import Contracts
from lake_assets.silver.batch.result import Stopwatch
from lake_assets.silver.changes.row_cut import ALL_ROWS, RowCut
from lake_assets.silver.plan.members import epoch_members, made_of
from lake_assets.silver.plan.plan import Batch
from lake_assets.silver.table.log_mark import LogMark, mark_of
from lake_assets.silver.table.position import Position
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import Sql, table_address
from lake_assets.storage.object_store import ObjectStore

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
    spark_reads: bool = True
    """Whether Spark may read Parquet files as they are, and large full loads be written before their keys are known."""
    watch: Stopwatch = field(default_factory=Stopwatch)
    id: str = field(default_factory=lambda: token_hex(8))
    """What its log lines, its commit and its row of the batch log have in common."""

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
    def retries(self) -> bool:
        """Whether the batch retries rows that were quarantined earlier."""
        return any(file.retry for file in self.batch.files)

    def held(self) -> list[Quarantined]:
        """The table's entries in the quarantine, in every state."""
        return self.runtime.quarantine.all(self.target.identifier)

"""What one batch is applied with: the table, its position, the files, a Spark session. None of it changes meanwhile.

Here: those, and what follows from them alone. Not here: reading the files (`batch_reader.py`), what is done with the
rows (`silver/apply/apply_batch.py`, `upsert.py`, `log_tables.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from lake_assets.bronze.files.inspect import UnreadableFile
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.quarantine.quarantine_log import Held
from lake_assets.runtime import LakeRuntime
from lake_assets.schema.contract import Contracts
from lake_assets.silver.changes.row_cut import ALL_ROWS, RowCut
from lake_assets.silver.plan.planner import Batch, epoch_members, made_of
from lake_assets.silver.table.log_mark import LogMark, mark_of
from lake_assets.silver.table.position import Position
from lake_assets.silver.table.targets import Target
from lake_assets.silver.write.batch import Stopwatch
from lake_assets.spark.sql import Sql, table_address
from lake_assets.storage.object_store import ObjectStore

Damaged = dict[tuple[str, str], UnreadableFile]
"""By key and version."""


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
    table: Table | None = None
    """As it was planned from; None for a table that was not there."""
    stage: Callable[[str], None] = lambda name: None
    """Told the name of each stage as it begins."""
    damaged: Damaged = field(default_factory=dict)
    """Files that a reader failed on though they look whole."""
    again: bool = False
    """Whether the batch's files were applied before, and their keys are computed again from everything."""
    reshape: bool = False
    """Whether the table's rows are of another shape: none of them is read, all are replaced."""
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
        """The table's rows as readers have them, without the batch. Not those of the planned snapshot, which may lack a
        column: had main moved since, nothing of the batch could be published."""
        return self.spark.table(self.address)

    @property
    def members(self) -> tuple[LoggedFile, ...]:
        """Every file of the epoch that the table's state after the batch is a function of."""
        return epoch_members(self.logged, self.batch.epoch, self.batch.upto)

    @property
    def made_of(self) -> Sequence[LoggedFile]:
        """The files that the table is made of after the batch, by its mode."""
        batch = self.batch
        known = [file for file in self.logged if file.offset <= batch.upto]
        return made_of(known, self.target.mode, batch.epoch, batch.upto)

    @property
    def log_mark(self) -> LogMark | None:
        """The log's record that the batch brings the table to."""
        log, upto = self.runtime.file_log, self.batch.upto
        files = log.files(self.target.source, self.target.table, upto=upto)
        return mark_of(log.identity(), upto, files, self.made_of)

    @property
    def row_cut(self) -> RowCut:
        """Which rows of the batch's files are its own."""
        if self.batch.cut is None and not self.batch.reopened:
            return ALL_ROWS
        return RowCut(self.batch.cut, self.batch.reopened, self.position.cut)

    @property
    def retries(self) -> bool:
        """Whether the batch has rows that were set aside earlier."""
        return any(file.retry for file in self.batch.files)

    def held(self) -> list[Held]:
        """What the quarantine has of the table, whatever became of it."""
        return self.runtime.quarantine.all(self.target.identifier)

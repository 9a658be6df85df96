"""What one batch is applied with: the table, its position, the files, a Spark session.

Here: those, and reading files with them. Not here: what is done with the rows (`apply.py`, `keyed.py`, `logs.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from lake_assets.bronze.file_log import LoggedFile
from lake_assets.bronze.inspect import UnreadableFile
from lake_assets.bronze.recount import counted
from lake_assets.errors import TableStopped
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.batch import Stopwatch
from lake_assets.silver.plan import Batch
from lake_assets.silver.position import Position
from lake_assets.silver.reading import Reading
from lake_assets.silver.targets import Target


@dataclass
class Work:
    """One batch of one table, in a Spark session of its own."""

    runtime: LakeRuntime
    spark: SparkSession
    target: Target
    position: Position
    batch: Batch
    logged: Sequence[LoggedFile]
    """All files of the table in the log."""
    stage: Callable[[str], None] = lambda name: None
    """Told the name of each stage as it begins."""
    watch: Stopwatch = field(default_factory=Stopwatch)
    replayed_bytes: int = 0
    """Bytes read again because a file came late."""

    def read(self, files: Sequence[LoggedFile]) -> Reading:
        """Raises TableStopped for a file that cannot be read, or whose columns do not fit the contract."""
        whole = [self._counted(file) for file in files]
        return Reading(self.spark, self.runtime.store(self.target.source), self.target, whole)

    def read_again(self, files: Sequence[LoggedFile]) -> Reading:
        """`read`, of files that were applied before."""
        self.replayed_bytes += sum(file.size for file in files)
        return self.read(files)

    def _counted(self, file: LoggedFile) -> LoggedFile:
        try:
            tables = self.runtime.lake.sources[self.target.source].tables
            return counted(self.runtime.store(self.target.source), file, self.target.dms, tables)
        except UnreadableFile as error:
            raise TableStopped(
                self.target.table, str(error), "Have DMS write it again, or remove it."
            ) from error

"""A batch's files being read, with a witness of what was seen of them.

Here: the usable changes of some files, and the refusal of files with rows that are unusable or went missing. Not here:
what becomes of the changes (`keyed.py`, `logs.py`).
"""

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.bad_rows import stop_for_bad_row, stop_for_missing_rows
from lake_assets.bronze.file_log import LoggedFile
from lake_assets.bronze.object_store import ObjectStore
from lake_assets.bronze.reader import read_changes
from lake_assets.silver.collapse import ChangeFigures, figures, observe_changes
from lake_assets.silver.targets import Target


class Reading:
    """The changes of `files`: compute something from `good`, then ask for `figures`."""

    def __init__(
        self, spark: SparkSession, store: ObjectStore, target: Target, files: Sequence[LoggedFile]
    ) -> None:
        """`files` with their own row counts. Raises TableStopped when a file's columns do not fit the contract."""
        self._table = target.table
        self._files = files
        self._changes = read_changes(
            spark, store, files, name=target.table, table=target.config, dms=target.dms
        )
        observed, self._observation = observe_changes(self._changes)
        self.good = observed.filter(F.col("_bad").isNull())
        """The changes as `bronze.reader` describes them, without the unusable."""

    @property
    def rows_counted(self) -> int:
        """Rows of the files by their own count, made without Spark."""
        return sum(file.rows or 0 for file in self._files)

    def figures(self) -> ChangeFigures:
        """What was seen while `good` was computed; blocks until it has been. Raises TableStopped for rows that cannot
        be used, and RowCountMismatch when the files hold more or fewer rows by their own count."""
        seen = figures(self._observation)
        if seen.bad_rows:
            stop_for_bad_row(self._table, seen.bad_rows, seen.first_bad, self._changes)
        if seen.rows != self.rows_counted:
            stop_for_missing_rows(self._table, self._files, self._changes)
        return seen

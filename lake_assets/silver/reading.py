"""A batch's files being read, with a witness of what was seen of them.

Here: the usable changes of some files, each file by the contract that holds for it, and the refusal of files whose rows
went missing. Not here: what becomes of the changes (`keyed.py`, `logs.py`), or of rows that cannot be used
(`setting_aside.py`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.bad_rows import stop_for_missing_rows
from lake_assets.bronze.file_log import LoggedFile
from lake_assets.bronze.object_store import ObjectStore
from lake_assets.bronze.places import in_places, placed
from lake_assets.bronze.reader import read_changes
from lake_assets.config import Mode
from lake_assets.schema.contract import Contracts, ContractVersion
from lake_assets.schema.images import today
from lake_assets.silver.collapse import ChangeFigures, figures, observe_changes, observe_used
from lake_assets.silver.targets import Target
from lake_assets.spark.checkpoint import Observed, checkpointed


class Reading:
    """The changes of `files`: compute something from `good`, then ask for `figures`."""

    def __init__(
        self,
        spark: SparkSession,
        store: ObjectStore,
        target: Target,
        files: Sequence[LoggedFile],
        contracts: Contracts,
        only: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """`files` with their own row counts, at least one. `only`: of a file of that key, nothing but the rows at these
        places, from 0. Raises TableStopped when a file's columns do not fit the contract."""
        self._table = target.table
        self._only = only or {}
        self.files = files
        groups: dict[tuple[int, frozenset[str]], list[LoggedFile]] = defaultdict(list)
        for file in files:
            version = contracts.at(file.offset)
            groups[version.number, version.contract.gone_at(file.written_at)].append(file)
        parts = [
            self._read(spark, store, target, groups[number, gone], contracts, version, gone)
            for version in contracts.versions
            for number, gone in groups
            if number == version.number
        ]
        self.changes = reduce(_union, parts)
        """Every row, unusable ones included."""
        if self._only:
            addresses = {store.spark_uri(key): places for key, places in self._only.items()}
            self.changes = in_places(spark, self.changes, addresses)
        observed, self._observation = observe_changes(self.changes)
        self.good, self._used = observe_used(observed.filter(F.col("_bad").isNull()))
        """The changes as `bronze.reader` describes them, without the unusable."""

    def _read(
        self,
        spark: SparkSession,
        store: ObjectStore,
        target: Target,
        files: Sequence[LoggedFile],
        contracts: Contracts,
        version: ContractVersion,
        gone: frozenset[str],
    ) -> DataFrame:
        contract = version.contract
        table = contract.table(target.config, gone)
        changes = read_changes(
            spark,
            store,
            files,
            name=target.table,
            table=table,
            dms=contract.dms,
            partial=target.mode is Mode.CURRENT,
        )
        if contract.columns == target.image_columns:
            return changes
        names = contracts.names_today(version.number, drops=target.schema_changes.dropped == "drop")
        return today(
            changes, contract.columns, names, target.image_columns, target.key, target.config.defaults
        )

    def checkpointed(self, rows: DataFrame, *observed: Observed) -> DataFrame:
        """Rows computed from `good`, which are computed now; fills the observations that are in their plan."""
        return checkpointed(rows, (self._observation, self._used, *observed))

    @property
    def rows_counted(self) -> int:
        """Rows of the files by their own count, made without Spark."""
        return sum(
            len(self._only[file.key]) if file.key in self._only else file.rows or 0 for file in self.files
        )

    def bad_rows(self) -> DataFrame:
        """`_file`, `_place` (from 0) and `_bad` of the rows that cannot be used; reads the files once more."""
        return placed(self.changes).filter(F.col("_bad").isNotNull()).select("_file", "_place", "_bad")

    def figures(self) -> ChangeFigures:
        """What was seen while `good` was computed; blocks until it has been. Raises RowCountMismatch when the files
        hold more or fewer rows by their own count."""
        seen = figures(self._observation, self._used)
        if seen.rows != self.rows_counted:
            stop_for_missing_rows(self._table, self.files, self.changes)
        return seen


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    """Contracts of one table may differ in whether a marker for what is not supplied is known."""
    both = one.unionByName(other, allowMissingColumns=True)
    if one.columns == other.columns or "_unsupplied" not in both.columns:
        return both
    return both.withColumn("_unsupplied", F.coalesce("_unsupplied", F.array().cast("array<string>")))

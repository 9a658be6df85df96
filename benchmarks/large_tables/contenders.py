"""Who applies the files: this package, and others on the same Spark server.

Here: one class for each. Not here: the files (`workloads.py`), the order and the times (`__main__.py`).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import duckdb
from pyspark.sql import DataFrame, SparkSession

from benchmarks.large_tables.workloads import COLUMNS
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.silver.write.batch import BatchResult

try:
    import deltalake
except ImportError:  # only `make bench-full` needs it
    deltalake = None

NAMES = ", ".join(COLUMNS)
VALUES = ", ".join(f"s.{name}" for name in COLUMNS)
NEWEST = (
    "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY change_seq DESC) AS newest FROM changes) "
    "WHERE newest = 1"
)
DELETE = "WHEN MATCHED AND s.Op = 'D' THEN DELETE"
UPDATE = f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in COLUMNS)}"
INSERT = f"WHEN NOT MATCHED AND s.Op <> 'D' THEN INSERT ({NAMES}) VALUES ({VALUES})"
MERGE_ON_READ = (
    "'format-version' = '3', 'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', "
    "'write.merge.mode' = 'merge-on-read'"
)


MOST_FILES = 10
"""Files that a contender with two statements a file applies; hundreds would take an hour."""


class TooSlow(Exception):
    """The contender was not measured. Its table is up to date."""


class Contender(Protocol):
    """Applies files to a table of its own."""

    name: str

    def load(self, files: Sequence[Path]) -> None:
        """Creates the table from the files of a full load."""

    def apply(self, files: Sequence[Path]) -> None:
        """Applies the files of a batch. Raises TooSlow."""

    def rows(self, spark: SparkSession) -> DataFrame | None:
        """The rows of its table; None if it has none that equals the source."""


@dataclass
class Product:
    """This package: a scan and the table's turn, as in a run of its sensor."""

    lake: Lake
    name: str = "lake_assets"
    results: list[BatchResult] = field(default_factory=list)
    scan_seconds: float = 0

    def load(self, files: Sequence[Path]) -> None:
        self.apply(files)

    def apply(self, files: Sequence[Path]) -> None:
        began = time.perf_counter()
        logged = log_arrivals(self.lake.runtime, "bench").logged
        self.scan_seconds = time.perf_counter() - began
        assert len(logged) == len(files), logged
        self.results = []
        for result in apply_tables(self.lake.runtime, self.lake.targets):
            if result.error is not None:
                raise result.error
            self.results += result.batches
        assert sum(batch.files for batch in self.results) == len(files)

    def rows(self, spark: SparkSession) -> DataFrame:
        return spark.table(f"{self.lake.config.catalog.name}.silver_bench.items")


@dataclass
class TextbookMerge:
    """One MERGE with delete, update and insert, of the newest change of each key; merge-on-read, format 3."""

    spark: SparkSession
    catalog: str
    name: str = "textbook MERGE"
    namespace: str = "textbook"
    properties: str = MERGE_ON_READ

    def load(self, files: Sequence[Path]) -> None:
        """Without any transformation: a plain append."""
        rows = _read(self.spark, files)
        rows.createOrReplaceTempView("loaded")
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.catalog}.{self.namespace}")
        self.spark.sql(
            f"CREATE TABLE {self.table()} USING iceberg TBLPROPERTIES ({self.properties}) AS "
            f"SELECT {NAMES} FROM loaded"
        )

    def apply(self, files: Sequence[Path]) -> None:
        self.merge(files, DELETE, UPDATE, INSERT)

    def merge(self, files: Sequence[Path], *clauses: str) -> None:
        """One MERGE of the newest change of each key in the files."""
        _read(self.spark, files).createOrReplaceTempView("changes")
        self.spark.sql(f"MERGE INTO {self.table()} t USING ({NEWEST}) s ON t.id = s.id {' '.join(clauses)}")

    def table(self) -> str:
        return f"{self.catalog}.{self.namespace}.items"

    def rows(self, spark: SparkSession) -> DataFrame:
        return spark.table(self.table())


class CopyOnWriteMerge(TextbookMerge):
    """The same, by rewriting the files that a change touches: Iceberg's default."""

    def __init__(self, spark: SparkSession, catalog: str) -> None:
        super().__init__(spark, catalog, "copy-on-write MERGE", "copied", "'format-version' = '2'")


class PerFileMerge(TextbookMerge):
    """The design that AWS has published for DMS files: for each file a MERGE of its deletes, then one of the others."""

    def __init__(self, spark: SparkSession, catalog: str) -> None:
        super().__init__(spark, catalog, "AWS per file", "by_file")

    def apply(self, files: Sequence[Path]) -> None:
        if len(files) > MOST_FILES:
            super().apply(files)  # for the comparison of rows in the end
            raise TooSlow
        for file in sorted(files):
            self.merge([file], DELETE)
            self.merge([file], UPDATE, INSERT)


class DeltaMerge:
    """delta-rs, without Spark: one merge of the newest change of each key, found by DuckDB."""

    name = "delta-rs merge"

    def __init__(self, folder: Path) -> None:
        self._table = str(folder / "delta")

    def load(self, files: Sequence[Path]) -> None:
        rows = duckdb.sql(f"SELECT {NAMES} FROM read_parquet({[str(file) for file in files]})")
        deltalake.write_deltalake(self._table, rows.to_arrow_reader())

    def apply(self, files: Sequence[Path]) -> None:
        changes = duckdb.sql(f"FROM read_parquet({[str(file) for file in files]})")
        newest = duckdb.sql(NEWEST).to_arrow_table()
        assert changes is not None, "the statement names it"
        merge = deltalake.DeltaTable(self._table).merge(newest, "t.id = s.id", "s", "t")
        values = {name: f"s.{name}" for name in COLUMNS}
        merge = merge.when_matched_delete("s.Op = 'D'").when_matched_update(values)
        merge.when_not_matched_insert(values, "s.Op <> 'D'").execute()

    def rows(self, spark: SparkSession) -> DataFrame:
        files = deltalake.DeltaTable(self._table).file_uris()
        return _read(spark, [Path(file.removeprefix("file://")) for file in files])


@dataclass
class Floor:
    """What no exact way can do without: read the changes, read the table's keys, write the changed rows, commit."""

    spark: SparkSession
    catalog: str
    of: str
    """The table whose keys are read."""
    name: str = "floor"

    def load(self, files: Sequence[Path]) -> None:
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.catalog}.least")
        self.spark.sql(
            f"CREATE TABLE {self.catalog}.least.items USING iceberg TBLPROPERTIES ({MERGE_ON_READ}) AS "
            f"SELECT * FROM {self.of} LIMIT 0"
        )

    def apply(self, files: Sequence[Path]) -> None:
        rows = _read(self.spark, files)
        rows.createOrReplaceTempView("least_changes")
        self.spark.sql(
            f"SELECT count(*), max(_pos) FROM {self.of} WHERE id IN (SELECT id FROM least_changes)"
        ).collect()
        rows.filter("Op <> 'D'").selectExpr(*COLUMNS).writeTo(f"{self.catalog}.least.items").append()

    def rows(self, spark: SparkSession) -> None:
        return None


def _read(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    return spark.read.parquet(*(f"file://{file}" for file in files))

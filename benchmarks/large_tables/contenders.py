"""Who applies the files: this package, and others on the same Spark server.

Here: one class for each. Not here: the files (`workloads.py`), the order and the times (`__main__.py`).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from benchmarks.large_tables.workloads import COLUMNS
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.silver.write.batch import BatchResult

NAMES = ", ".join(COLUMNS)
PROPERTIES = (
    "'format-version' = '3', 'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', "
    "'write.merge.mode' = 'merge-on-read'"
)


class Contender(Protocol):
    """Applies files to a table of its own."""

    name: str

    def load(self, files: Sequence[Path]) -> None:
        """Creates the table from the files of a full load."""

    def apply(self, files: Sequence[Path]) -> None:
        """Applies the files of a batch."""

    def table(self) -> str:
        """The table's address in Spark; empty if it has none that equals the source."""


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

    def table(self) -> str:
        return f"{self.lake.config.catalog.name}.silver_bench.items"


@dataclass
class TextbookMerge:
    """One MERGE with delete, update and insert, of the newest change of each key; merge-on-read, format 3."""

    spark: SparkSession
    catalog: str
    name: str = "textbook MERGE"

    def load(self, files: Sequence[Path]) -> None:
        """Without any transformation: a plain append."""
        rows = _read(self.spark, files)
        rows.createOrReplaceTempView("loaded")
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.catalog}.textbook")
        self.spark.sql(
            f"CREATE TABLE {self.table()} USING iceberg TBLPROPERTIES ({PROPERTIES}) AS SELECT {NAMES} FROM loaded"
        )

    def apply(self, files: Sequence[Path]) -> None:
        _read(self.spark, files).createOrReplaceTempView("changes")
        self.spark.sql(
            f"MERGE INTO {self.table()} t USING (SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY "
            "change_seq DESC) AS newest FROM changes) WHERE newest = 1) s ON t.id = s.id "
            "WHEN MATCHED AND s.Op = 'D' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in COLUMNS)} "
            f"WHEN NOT MATCHED AND s.Op <> 'D' THEN INSERT ({NAMES}) VALUES ({', '.join(f's.{n}' for n in COLUMNS)})"
        )

    def table(self) -> str:
        return f"{self.catalog}.textbook.items"


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
            f"CREATE TABLE {self.catalog}.least.items USING iceberg TBLPROPERTIES ({PROPERTIES}) AS "
            f"SELECT * FROM {self.of} LIMIT 0"
        )

    def apply(self, files: Sequence[Path]) -> None:
        rows = _read(self.spark, files)
        rows.createOrReplaceTempView("least_changes")
        self.spark.sql(
            f"SELECT count(*), max(_pos) FROM {self.of} WHERE id IN (SELECT id FROM least_changes)"
        ).collect()
        rows.filter("Op <> 'D'").selectExpr(*COLUMNS).writeTo(f"{self.catalog}.least.items").append()

    def table(self) -> str:
        return ""


def _read(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    return spark.read.parquet(*(f"file://{file}" for file in files))

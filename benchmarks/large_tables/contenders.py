"""Who applies the files: this package, a textbook MERGE and a floor, on the same Spark server.

Here: one class for each. Not here: further ones (`further.py`), the files (`workloads.py`), the times (`bench.py`).
"""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from benchmarks.large_tables.results import PRODUCT
from benchmarks.large_tables.workloads import COLUMNS
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.silver.batch.result import BatchResult
from lake_assets.silver.table.targets import Target

NAMES = ", ".join(COLUMNS)
DELETE = "WHEN MATCHED AND s.Op = 'D' THEN DELETE"
MERGE_ON_READ = (
    "'format-version' = '3', 'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', "
    "'write.merge.mode' = 'merge-on-read'"
)
SPARK_TYPES = {name: kind.replace("timestamptz", "timestamp") for name, kind in COLUMNS.items()}
CSV_SCHEMA = ", ".join(
    f"{name} {kind}"
    for name, kind in (
        {"Op": "string", "commit_ts": "string"} | SPARK_TYPES | {"change_seq": "string"}
    ).items()
)
CSV_OPTIONS: dict[str, bool | str] = {"header": True, "multiLine": True, "quote": '"', "escape": '"'}


def update(columns: Iterable[str]) -> str:
    """The clause of a MERGE that sets these columns."""
    return f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in columns)}"


def insert(columns: Sequence[str]) -> str:
    """The clause of a MERGE that inserts rows of these columns."""
    values = ", ".join(f"s.{name}" for name in columns)
    return f"WHEN NOT MATCHED AND s.Op <> 'D' THEN INSERT ({', '.join(columns)}) VALUES ({values})"


UPDATE, INSERT = update(COLUMNS), insert(tuple(COLUMNS))


class TooSlow(Exception):
    """The contender was not measured. Its table is up to date."""

    def __init__(self, estimate: float = math.nan) -> None:
        """`estimate`: seconds that it would take."""
        super().__init__()
        self.estimate = estimate


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
    """This package: a scan and the tables' turns, as in a run of its sensor."""

    lake: Lake
    targets: Sequence[Target]
    name: str = PRODUCT
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
        for result in apply_tables(self.lake.runtime, self.targets):
            if result.error is not None:
                raise result.error
            self.results += result.batches
        assert sum(batch.files for batch in self.results) == len(files)

    def rows(self, spark: SparkSession) -> DataFrame:
        """The rows of its first table."""
        return spark.table(f"{self.lake.config.catalog.name}.{self.targets[0].identifier}")

    def stages(self) -> str:
        """Seconds of the last batches' stages."""
        taken = {"scan": self.scan_seconds}
        for batch in self.results:
            for name, seconds in batch.seconds.items():
                taken[name] = taken.get(name, 0) + seconds
        strategies = "/".join(batch.strategy for batch in self.results)
        return f"{strategies}: " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in taken.items())


@dataclass
class TextbookMerge:
    """One MERGE with delete, update and insert, of the newest change of each key; merge-on-read, format 3."""

    spark: SparkSession
    catalog: str
    name: str = "textbook MERGE"
    namespace: str = "textbook"
    items: str = "items"
    properties: str = MERGE_ON_READ
    columns: Sequence[str] = tuple(COLUMNS)
    key: Sequence[str] = ("id",)

    def load(self, files: Sequence[Path]) -> None:
        """A plain append of the files' rows, without any transformation."""
        read(self.spark, files).createOrReplaceTempView(f"loaded_{self.items}")
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.catalog}.{self.namespace}")
        self.spark.sql(
            f"CREATE TABLE {self.table()} USING iceberg TBLPROPERTIES ({self.properties}) AS "
            f"SELECT {', '.join(self.columns)} FROM loaded_{self.items}"
        )

    def apply(self, files: Sequence[Path]) -> None:
        self.merge(files, DELETE, update(self.columns), insert(self.columns))

    def merge(self, files: Sequence[Path], *clauses: str) -> None:
        """One MERGE of the newest change of each key in the files."""
        changes = f"changes_{self.items}"
        read(self.spark, files).createOrReplaceTempView(changes)
        same = " AND ".join(f"t.{name} = s.{name}" for name in self.key)
        self.spark.sql(
            f"MERGE INTO {self.table()} t USING ({newest(changes, self.key)}) s ON {same} {' '.join(clauses)}"
        )

    def table(self) -> str:
        return f"{self.catalog}.{self.namespace}.{self.items}"

    def rows(self, spark: SparkSession) -> DataFrame | None:
        return spark.table(self.table())


@dataclass
class Floor:
    """The work that no exact way can avoid: read the changes, read the table's keys, write the changed rows, commit."""

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
        rows = read(self.spark, files)
        rows.createOrReplaceTempView("least_changes")
        self.spark.sql(
            f"SELECT count(*), max(_pos) FROM {self.of} WHERE id IN (SELECT id FROM least_changes)"
        ).collect()
        rows.filter("Op <> 'D'").selectExpr(*COLUMNS).writeTo(f"{self.catalog}.least.items").append()

    def rows(self, spark: SparkSession) -> None:
        return None


def newest(changes: str, key: Sequence[str] = ("id",)) -> str:
    """The statement for the newest change of each key in a view."""
    place = f"row_number() OVER (PARTITION BY {', '.join(key)} ORDER BY change_seq DESC)"
    return f"SELECT * FROM (SELECT *, {place} AS newest FROM {changes}) WHERE newest = 1"


def read(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    """Spark's plain read, with the schema of the rows if they are CSV."""
    paths = [f"file://{file}" for file in files]
    if files[0].suffix == ".csv":
        return spark.read.schema(CSV_SCHEMA).options(**CSV_OPTIONS).csv(paths)
    return spark.read.parquet(*paths)

"""Further contenders; only `--all` and `--with` measure them. Most take many times as long.

Here: one class for each that runs in this process or on its Spark. Not here: this package, a textbook MERGE and the
floor (`contenders.py`), other engines (`other_engines.py`).
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import In
from pyspark.sql import DataFrame, SparkSession

from benchmarks.large_tables.bench import Bench
from benchmarks.large_tables.contenders import (
    DELETE,
    INSERT,
    NAMES,
    UPDATE,
    Contender,
    TextbookMerge,
    TooSlow,
    newest,
    read,
)
from benchmarks.large_tables.other_engines import SCRIPTS, OtherEngine
from benchmarks.large_tables.workloads import COLUMNS

with suppress(ImportError):  # only `make bench-full` needs it
    import deltalake

COPY_ON_WRITE = "'format-version' = '2'"
"""Table properties for copy-on-write, which is Iceberg's default."""
MOST_FILES = 10
"""The most files that are applied by a contender with two statements a file: hundreds would take it most of an hour."""
PER_FILE = "AWS per file"
MOST_KEYS = 10_000
"""The most keys of a batch that PyIceberg applies: 100,000 changes took it 44 s on a table of 300,000 rows."""


def further(bench: Bench, parts: Sequence[str]) -> list[Contender]:
    """The contenders whose names have one of these parts."""
    spark, catalog = bench.spark, bench.catalog
    here: list[Contender] = [
        CopyOnWriteMerge(spark, catalog),
        PerFileMerge(spark, catalog),
        SampleMerge(spark, catalog),
        DeltaMerge(bench.folder / "warehouse"),
        Upsert(spark, catalog, bench.lake.runtime.catalog),
    ]
    chosen = [each for each in here if _has_part(each.name, parts)]
    return chosen + [OtherEngine(name, bench.folder) for name in SCRIPTS if _has_part(name, parts)]


def _has_part(name: str, parts: Sequence[str]) -> bool:
    return any(part in name for part in parts)


class CopyOnWriteMerge(TextbookMerge):
    """The textbook MERGE by rewriting the files that a change touches: Iceberg's default."""

    def __init__(self, spark: SparkSession, catalog: str) -> None:
        super().__init__(spark, catalog, "copy-on-write MERGE", "copied", properties=COPY_ON_WRITE)


class PerFileMerge(TextbookMerge):
    """The design that AWS has published for DMS files: for each file a MERGE of its deletes, then one of the others."""

    def __init__(self, spark: SparkSession, catalog: str) -> None:
        super().__init__(spark, catalog, PER_FILE, "by_file")

    def apply(self, files: Sequence[Path]) -> None:
        ordered = sorted(files)
        first, rest = ordered[:MOST_FILES], ordered[MOST_FILES:]
        began = time.perf_counter()
        for file in first:
            self.merge([file], DELETE)
            self.merge([file], UPDATE, INSERT)
        if rest:
            each = (time.perf_counter() - began) / len(first)
            super().apply(rest)  # for the comparison of rows in the end
            raise TooSlow(each * len(files))


class SampleMerge(TextbookMerge):
    """What `processBatch` of aws-samples/transactional-datalake-using-apache-iceberg-on-aws-glue does with a batch.

    It looks the table up, takes the newest change of each key, and counts and MERGEs the upserts, then the deletes, on
    a copy-on-write table. Two things differ: the newest change is that of the highest `change_seq`, because the sample
    orders by the time alone and changes of one key share it; and the statement names the columns, because the table
    has none for the operation. The counts before each MERGE are the sample's.
    """

    def __init__(self, spark: SparkSession, catalog: str) -> None:
        super().__init__(spark, catalog, "AWS sample, per batch", "by_batch", properties=COPY_ON_WRITE)

    def apply(self, files: Sequence[Path]) -> None:
        changes = read(self.spark, files)
        if changes.count() == 0:
            return
        tables = self.spark.sql(f"SHOW TABLES IN {self.catalog}.{self.namespace}").collect()
        assert self.items in {table["tableName"] for table in tables}
        changes.createOrReplaceTempView("sample_changes")
        last = self.spark.sql(newest("sample_changes"))
        self._merge(last.filter("Op <> 'D'"), UPDATE, INSERT)
        self._merge(last.filter("Op = 'D'"), DELETE)

    def _merge(self, rows: DataFrame, *clauses: str) -> None:
        if rows.count() == 0:
            return
        rows.createOrReplaceTempView("sample_rows")
        self.spark.sql(f"MERGE INTO {self.table()} t USING sample_rows s ON s.id = t.id {' '.join(clauses)}")


class DeltaMerge:
    """delta-rs, without Spark: one merge of the newest change of each key, found by DuckDB."""

    name = "delta-rs merge"

    def __init__(self, folder: Path) -> None:
        self._table = str(folder / "delta")

    def load(self, files: Sequence[Path]) -> None:
        rows = duckdb.read_parquet([str(file) for file in files]).project(NAMES)
        deltalake.write_deltalake(self._table, rows.to_arrow_reader())

    def apply(self, files: Sequence[Path]) -> None:
        merge = deltalake.DeltaTable(self._table).merge(newest_rows(files), "t.id = s.id", "s", "t")
        values = {name: f"s.{name}" for name in COLUMNS}
        merge = merge.when_matched_delete("s.Op = 'D'").when_matched_update(values)
        merge.when_not_matched_insert(values, "s.Op <> 'D'").execute()

    def rows(self, spark: SparkSession) -> DataFrame:
        files = deltalake.DeltaTable(self._table).file_uris()
        return read(spark, [Path(file.removeprefix("file://")) for file in files])


class Upsert(TextbookMerge):
    """PyIceberg, without Spark: in one commit a delete of the deleted keys and an upsert of the newest rows of the
    others. Spark writes the full load."""

    def __init__(self, spark: SparkSession, catalog: str, tables: Catalog) -> None:
        super().__init__(spark, catalog, "PyIceberg upsert", "upserted", properties=COPY_ON_WRITE)
        self._tables = tables
        self._behind = False

    def apply(self, files: Sequence[Path]) -> None:
        last = newest_rows(files)
        if self._behind or last.num_rows > MOST_KEYS:
            self._behind = True
            raise TooSlow
        table = self._tables.load_table((self.namespace, self.items))
        deleted = pc.equal(last["Op"], "D")
        kept = last.filter(pc.invert(deleted)).select(list(COLUMNS)).cast(table.schema().as_arrow())
        with table.transaction() as commit:
            commit.delete(In(term="id", literals=last.filter(deleted)["id"].to_pylist()))
            commit.upsert(kept, join_cols=["id"])

    def rows(self, spark: SparkSession) -> DataFrame | None:
        return None if self._behind else super().rows(spark)


def newest_rows(files: Sequence[Path]) -> pa.Table:
    """The newest change of each key, found by DuckDB."""
    changes = duckdb.read_parquet([str(file) for file in files])
    last = changes.query("changes", newest("changes"))
    assert last is not None, "it is a SELECT"
    return last.to_arrow_table()

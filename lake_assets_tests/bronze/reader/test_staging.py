"""Tables with rows for Spark, and what is left of them."""

import gc
import warnings
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from lake_assets.bronze.reader import staging
from lake_assets.bronze.reader.arrow_frame import arrow_frame
from lake_assets.bronze.reader.staging import StagedTable, Staging, drop_abandoned
from lake_assets.iceberg.catalog import ensure_namespace
from lake_assets.iceberg.ops_table import NAMESPACE
from lake_assets.iceberg.table_io import tables_in
from lake_assets.runtime import LakeRuntime
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS, lake_config

SCHEMA = pa.schema([("c0", pa.string())])
ROWS = pa.table({"c0": pa.array(["a", "b"]).dictionary_encode()})


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    found = LakeRuntime(lake_config(tmp_path, {"public.items": ITEMS})).catalog
    ensure_namespace(found, NAMESPACE)
    return found


def files(folder: Path) -> list[Path]:
    return [path for path in (folder / "warehouse").rglob("*") if path.is_file()]


def test_wide_rows_do_not_wait_in_memory_for_many_others(
    tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "BYTES_OF_A_GROUP", 3 * ROWS.nbytes)
    with Staging(catalog, "lake").table(SCHEMA).file() as out:
        for _ in range(7):
            out.add(ROWS)
    (path,) = tmp_path.rglob("*.parquet")
    with pq.ParquetFile(path) as file:
        groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    assert groups == [6, 6, 2]


@pytest.mark.filterwarnings("error")
def test_a_file_that_is_given_up_leaves_nothing(
    tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()  # what other tests have left
    monkeypatch.setattr(staging, "ROWS_OF_A_GROUP", 1)
    batch = Staging(catalog, "lake")
    with pytest.raises(ValueError, match="given up"):
        give_up(batch.table(SCHEMA))
    gc.collect()
    batch.clear()
    assert files(tmp_path) == []
    assert tables_in(catalog, "lake_ops") == set()


def give_up(table: StagedTable) -> None:
    with table.file() as out:
        out.add(ROWS)
        raise ValueError("given up")


def test_tables_of_killed_processes(tmp_path: Path, catalog: Catalog) -> None:
    """Those of running batches stay."""
    table = Staging(catalog, "lake").table(SCHEMA)
    with table.file() as out:
        out.add(ROWS)
    table.publish()
    now = datetime.now(UTC)
    assert drop_abandoned(catalog, now + staging.LONGEST - timedelta(minutes=1)) == 0
    assert len(files(tmp_path)) > 3
    assert drop_abandoned(catalog, now + staging.LONGEST + timedelta(minutes=1)) == 1
    assert files(tmp_path) == []
    assert not tables_in(catalog, "lake_ops")


@pytest.mark.spark
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_spark_has_the_rows_of_every_type(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """As from a plan."""
    columns: dict[str, Any] = {
        "c0": pa.array([True], pa.bool_()),
        "c1": pa.array([-(2**31)], pa.int32()),
        "c2": pa.array([2**63 - 1], pa.int64()),
        "c3": pa.array([0.1], pa.float32()),
        "c4": pa.array([-0.0], pa.float64()),
        "c5": pa.array(["ü"], pa.string()),
        "c6": pa.array([b"\xff"], pa.binary()),
        "c7": pa.array([-1], pa.int32()).cast(pa.date32()),
        "c8": pa.array([-1], pa.int64()).cast(pa.timestamp("us")),
        "c9": pa.array([-1], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "c10": pa.array([Decimal("-1.50")], pa.decimal128(38, 2)),
        "c11": pa.array([["a", None]], pa.list_(pa.string())),
    }
    nothing = pa.table({name: pa.nulls(1, values.type) for name, values in columns.items()})
    one = pa.concat_tables([pa.table(columns), nothing])
    # No rows in no piece, as a filter leaves them.
    table = pa.concat_tables([one] * rows) if rows else pa.Table.from_batches([], one.schema)
    runtime = LakeRuntime(lake_config(tmp_path, {"public.items": ITEMS}))
    ensure_namespace(runtime.catalog, NAMESPACE)
    batch = Staging(runtime.catalog, runtime.lake.catalog.name)
    session = runtime.sessions.root()
    planned = arrow_frame(session, table, batch)
    monkeypatch.setattr("lake_assets.bronze.reader.arrow_frame.IN_PLAN_ROWS", -1)
    monkeypatch.setattr("lake_assets.bronze.reader.arrow_frame.ROWS_OF_A_TASK", 2)
    staged = arrow_frame(session, table, batch)
    assert [(f.name, f.dataType.simpleString()) for f in staged.schema] == [
        (f.name, f.dataType.simpleString()) for f in planned.schema
    ]
    assert sorted(map(str, staged.collect())) == sorted(map(str, planned.collect()))
    assert staged.count() == 2 * rows
    batch.clear()
    assert [path for path in files(tmp_path) if "staged" in str(path)] == []

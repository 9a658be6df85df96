"""Tables as parameters of a user's assets, and their results as tables: every type, columns, snapshots, cuts, upserts.

Real runs and tables. Not here: partitions (`test_run_partitions.py`).
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyspark.sql import DataFrame

from lake_assets.errors import KeyMismatch
from lake_assets.orchestration.io_managers.iceberg_io_manager import (
    KEY,
    WRITE_MODE,
    IcebergIOManager,
    TableIOManager,
)
from lake_assets.orchestration.io_managers.table_values import COLUMNS, CUT, SNAPSHOT
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.silver.apply.cut_tags import tag_of

pytestmark = pytest.mark.spark
ROWS: list[dict[str, Any]] = [{"id": 1, "word": "one"}, {"id": 2, "word": None}]


def materialize(lake: Lake, *assets: Any, **arguments: Any) -> dg.ExecuteInProcessResult:
    return dg.materialize(list(assets), resources={"io": TableIOManager(lake.runtime)}, **arguments)


def result_of(name: str, rows: Callable[[], Any], **metadata: Any) -> dg.AssetsDefinition:
    @dg.asset(key=["gold", name], io_manager_key="io", metadata=metadata)
    def own() -> Any:
        return rows()

    return own


def stored(lake: Lake, name: str) -> list[dict[str, Any]]:
    rows = lake.runtime.catalog.load_table(f"gold.{name}").scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def loaded(lake: Lake, upstream: dg.AssetsDefinition, kind: Any, **metadata: Any) -> Any:
    """The value of a parameter of this type."""
    seen: list[Any] = []

    def compute(table: Any) -> None:
        seen.append(table)

    compute.__annotations__ = {"table": kind} if kind is not None else {}
    given = dg.AssetIn(key=upstream.key, input_manager_key="io", metadata=metadata)
    reader = dg.asset(name="reader", ins={"table": given})(compute)
    materialize(lake, upstream, reader, selection=[reader])
    return seen[0]


@pytest.fixture(scope="module")
def words(lake: Lake) -> dg.AssetsDefinition:
    asset = result_of("words", lambda: pa.Table.from_pylist(ROWS))
    materialize(lake, asset)
    return asset


def by_duckdb(rows: Any) -> Any:
    return duckdb.from_arrow(pa.Table.from_pylist(rows))


READ: dict[Any, Callable[[Any], list[dict[str, Any]]]] = {
    None: lambda frame: [row.asDict() for row in frame.collect()],
    DataFrame: lambda frame: [row.asDict() for row in frame.collect()],
    pa.Table: lambda table: table.to_pylist(),
    pa.RecordBatchReader: lambda reader: reader.read_all().to_pylist(),
    pd.DataFrame: lambda frame: frame.astype(object).where(frame.notna(), None).to_dict("records"),
    pl.DataFrame: lambda frame: frame.to_dicts(),
    pl.LazyFrame: lambda frame: frame.collect().to_dicts(),
    duckdb.DuckDBPyRelation: lambda rows: rows.to_arrow_table().to_pylist(),
    Table: lambda table: table.scan().to_arrow().to_pylist(),
}


@pytest.mark.parametrize("kind", READ, ids=lambda kind: getattr(kind, "__module__", "") + str(kind))
def test_a_parameter_has_the_type_that_it_declares(lake: Lake, words: dg.AssetsDefinition, kind: Any) -> None:
    value = loaded(lake, words, kind)
    assert isinstance(value, kind or DataFrame)
    assert sorted(READ[kind](value), key=lambda row: row["id"]) == ROWS


@pytest.mark.parametrize("kind", [DataFrame, pa.Table, pl.DataFrame])
def test_only_the_columns_that_an_input_names(lake: Lake, words: dg.AssetsDefinition, kind: Any) -> None:
    assert list(loaded(lake, words, kind, **{COLUMNS: ["word"]}).columns)
    assert set(READ[kind](loaded(lake, words, kind, **{COLUMNS: ["word"]}))[0]) == {"word"}
    with pytest.raises(dg.DagsterInvariantViolationError, match=r"has no column colour, .* it has id, word"):
        loaded(lake, words, kind, **{COLUMNS: ["colour"]})


def test_a_type_that_no_table_has(lake: Lake, words: dg.AssetsDefinition) -> None:
    with pytest.raises(
        dg.DagsterInvariantViolationError, match=r"gold.words cannot be loaded as .*: pyspark"
    ):
        loaded(lake, words, dict)


def test_a_table_that_is_not_there_yet(lake: Lake) -> None:
    with pytest.raises(dg.DagsterInvariantViolationError, match=r"has no table gold.later yet"):
        loaded(lake, result_of("later", lambda: None), pa.Table)


@pytest.mark.parametrize("kind", [DataFrame, pa.Table])
def test_an_earlier_snapshot_and_a_consistent_cut(lake: Lake, kind: Any) -> None:
    name = f"moving_{kind.__name__.lower()}"
    rows = ROWS[:1]
    asset = result_of(name, lambda: pa.Table.from_pylist(rows))
    materialize(lake, asset)
    table = lake.runtime.catalog.load_table(f"gold.{name}")
    first = table.current_snapshot()
    assert first is not None
    cut = datetime(2024, 3, 1, tzinfo=UTC)
    address = f"{lake.config.catalog.name}.gold.{name}"
    lake.runtime.sessions.root().sql(
        f"ALTER TABLE {address} CREATE TAG {tag_of(cut)} AS OF VERSION {first.snapshot_id}"
    )
    rows = ROWS
    materialize(lake, asset)
    assert len(READ[kind](loaded(lake, asset, kind))) == 2
    for metadata in ({SNAPSHOT: first.snapshot_id}, {CUT: "newest"}, {CUT: "2024-03-01T00:00:00Z"}):
        assert READ[kind](loaded(lake, asset, kind, **metadata)) == ROWS[:1]
    with pytest.raises(dg.DagsterInvariantViolationError, match=r"has no snapshot 7"):
        loaded(lake, asset, kind, **{SNAPSHOT: 7})
    with pytest.raises(dg.DagsterInvariantViolationError, match=r"no consistent cut 2025.*it has 2024-03-01"):
        loaded(lake, asset, kind, **{CUT: "2025-01-01"})


RESULTS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "arrow": pa.Table.from_pylist,
    "reader": lambda rows: pa.Table.from_pylist(rows).to_reader(),
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "duckdb": by_duckdb,
}


@pytest.mark.parametrize("kind", RESULTS)
def test_a_result_of_every_type_becomes_a_table(lake: Lake, kind: str) -> None:
    materialize(lake, result_of(f"result_{kind}", lambda: RESULTS[kind](ROWS)))
    assert stored(lake, f"result_{kind}") == ROWS


def test_a_result_that_is_no_table(lake: Lake) -> None:
    with pytest.raises(dg.DagsterInvariantViolationError, match=r"stores Spark DataFrames .* not list"):
        materialize(lake, result_of("wrong", lambda: [1, 2]))


@pytest.mark.parametrize("kind", ["polars", "arrow"])
def test_unsigned_integers(lake: Lake, kind: str) -> None:
    """Their greatest values, as the types of the table that hold them."""
    bits = (8, 16, 32, 64)
    row = {"id": 1} | {f"u{n}": 2**n - 1 for n in bits}
    types = {"id": pa.int64()} | {f"u{n}": getattr(pa, f"uint{n}")() for n in bits}
    rows = pa.Table.from_pylist([row, {"id": 2}], pa.schema(types))
    materialize(
        lake, result_of(f"unsigned_{kind}", lambda: pl.from_arrow(rows) if kind == "polars" else rows)
    )
    assert stored(lake, f"unsigned_{kind}") == [row, {"id": 2} | {f"u{n}": None for n in bits}]
    fields = lake.runtime.catalog.load_table(f"gold.unsigned_{kind}").schema().fields
    assert [str(field.field_type) for field in fields] == ["long", "int", "int", "long", "decimal(20, 0)"]


@pytest.mark.parametrize(
    "kind", [pa.time32("s"), pa.time64("us"), pa.list_(pa.uint32()), pa.duration("s")], ids=str
)
def test_a_type_that_no_table_can_have(lake: Lake, kind: pa.DataType) -> None:
    rows = pa.schema({"id": pa.int64(), "at": kind}).empty_table()
    message = r"gold/untyped returned the column at of type .*cast it to another type in the asset"
    with pytest.raises(dg.DagsterInvariantViolationError, match=message):
        materialize(lake, result_of("untyped", lambda: rows))


def test_a_result_without_columns(lake: Lake) -> None:
    with pytest.raises(dg.DagsterInvariantViolationError, match="gold/bare returned rows without columns"):
        materialize(lake, result_of("bare", lambda: pd.DataFrame()))


def test_appended_rows(lake: Lake) -> None:
    asset = result_of("appended", lambda: pa.Table.from_pylist(ROWS), **{WRITE_MODE: "append"})
    materialize(lake, asset)
    materialize(lake, asset)
    assert [row["id"] for row in stored(lake, "appended")] == [1, 1, 2, 2]


def test_upserted_rows(lake: Lake) -> None:
    rows = ROWS
    asset = result_of("upserted", lambda: pa.Table.from_pylist(rows), **{WRITE_MODE: "upsert", KEY: ["id"]})
    materialize(lake, asset)
    rows = [{"id": 2, "word": "two"}, {"id": 3, "word": "three"}]
    materialize(lake, asset)
    expected = [ROWS[0], *rows]
    assert stored(lake, "upserted") == expected
    table = lake.runtime.catalog.load_table("gold.upserted")
    before = table.current_snapshot()
    wrong: list[list[dict[str, Any]]] = [
        [{"id": 4, "word": "a"}, {"id": 4, "word": "b"}],
        [{"id": None, "word": "c"}, {"id": 5, "word": "d"}],
    ]
    for rows in wrong:  # noqa: B007  (the asset returns them)
        with pytest.raises(KeyMismatch, match=r"its own id, .* There is (4 in 2 rows|None in 1 row)\."):
            materialize(lake, asset)
    assert table.refresh().current_snapshot() == before
    assert set(table.refs()) == {"main"}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({WRITE_MODE: "merge"}, "must be overwrite, append, upsert or difference"),
        ({WRITE_MODE: "upsert"}, "name the columns of its key in metadata 'lake/key'"),
    ],
)
def test_metadata_that_is_wrong(lake: Lake, metadata: dict[str, Any], message: str) -> None:
    with pytest.raises(dg.DagsterInvariantViolationError, match=message):
        materialize(lake, result_of("wrong", lambda: pa.Table.from_pylist(ROWS), **metadata))


def test_the_io_manager_without_a_lake(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own catalog's settings as a user writes them."""
    catalog = lake.config.catalog
    assert catalog.uri is not None
    settings = {"name": catalog.name, "uri": catalog.uri.get_secret_value(), "warehouse": catalog.warehouse}
    spark = lake.config.spark.model_dump(mode="json", include={"mode", "remote", "conf"}, exclude_none=True)
    conf = {name: str(value) for name, value in lake.config.spark.conf.items()}
    monkeypatch.setenv("CATALOG_ADDRESS", settings["uri"])
    manager = IcebergIOManager(catalog=settings | {"uri": "${CATALOG_ADDRESS}"}, spark=spark | {"conf": conf})

    @dg.asset(key=["gold", "alone"], io_manager_key="io")
    def alone() -> pd.DataFrame:
        return pd.DataFrame(ROWS)

    @dg.asset(ins={"alone": dg.AssetIn(key=alone.key)})
    def total(alone: pl.DataFrame) -> int:
        return int(alone["id"].sum())

    resources = {"io": manager, "io_manager": dg.mem_io_manager}
    done = dg.materialize([alone, total], resources=resources)
    assert done.output_for_node("total") == 3
    assert stored(lake, "alone") == ROWS

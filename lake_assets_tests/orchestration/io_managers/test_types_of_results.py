"""What an own asset returns, run after run, into the table that it has: types that change, and rows that say no type.

Real runs and tables. Not here: which types a table can have at all (`test_table_values.py`).
"""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lake_assets.errors import ColumnMismatch, PartitionMismatch
from lake_assets.iceberg.table_io import load_table
from lake_assets.orchestration.io_managers.iceberg_io_manager import TableIOManager
from lake_assets.orchestration.io_managers.run_partitions import PARTITION_COLUMN
from lake_assets.orchestration.lake_definitions import Lake

pytestmark = pytest.mark.spark
DAYS = dg.DailyPartitionsDefinition("2024-03-01", end_date="2024-03-03")
FLOAT, DECIMAL = pa.float32(), pa.decimal128(10, 2)


def store(lake: Lake, name: str, result: Any, partition: str | None = None) -> None:
    """A run of an asset that returns the result; with a partition, of days by the column `c`."""

    @dg.asset(
        key=["gold", name],
        io_manager_key="io",
        partitions_def=DAYS if partition is not None else None,
        metadata={PARTITION_COLUMN: "c"},
    )
    def own() -> Any:
        return result

    dg.materialize([own], resources={"io": TableIOManager(lake.runtime)}, partition_key=partition)


def stored(lake: Lake, name: str) -> list[Any]:
    """The values of the column `c`."""
    return lake.runtime.catalog.load_table(f"gold.{name}").scan().to_arrow()["c"].to_pylist()


def column(values: Sequence[Any], kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({"c": pa.array(values, kind)})


LOST: dict[str, tuple[pa.Table, pa.Table, str]] = {
    "a fraction": (column([1]), column([1.7]), "c is double .* bigint in the table, .* 1 value such as 1.7"),
    "a large number": (column([1], pa.int32()), column([2**40]), f"c is bigint .* such as {2**40}"),
    "precision": (column([1], FLOAT), column([1.123456789]), "c is double .* float in the table"),
    "digits": (column([1], DECIMAL), column([Decimal("1.2345")]), r"c is decimal\(5,4\) .* such as 1.2345"),
    "the time of day": (
        column([date(2024, 1, 2)]),
        column([datetime(2024, 1, 1, 5, tzinfo=UTC)]),
        "c is timestamp .* date in the table",
    ),
    "a text": (column([1]), column(["7"]), "c is string in the computed rows and bigint in the table"),
    "a fraction in a list": (column([[1]]), column([[1.7]]), "c is double .* bigint in the table within it"),
}


@pytest.mark.parametrize("what", LOST)
def test_a_value_that_the_table_would_change_is_refused(lake: Lake, what: str) -> None:
    first, second, message = LOST[what]
    name = f"lost_{what.replace(' ', '_')}"
    store(lake, name, first)
    before = stored(lake, name)
    with pytest.raises(
        ColumnMismatch, match=f"gold.{name}: the column {message}.*Cast it to .* in the asset"
    ):
        store(lake, name, second)
    assert stored(lake, name) == before


KEPT: dict[str, tuple[pa.Table, pa.Table]] = {
    "whole numbers as floats": (column([1]), column([7.0, None])),
    "a wider decimal": (column([1], DECIMAL), column([Decimal("1.2000")], pa.decimal128(20, 4))),
    "a day as a time": (column([datetime(2024, 1, 1, 5, tzinfo=UTC)]), column([date(2024, 1, 2)])),
    "a list": (column([["a"]]), column([["b"], None])),
    "a map": (column([[("a", 1)]], pa.map_(pa.string(), pa.int64())),) * 2,
    "a struct": (column([{"a": 1, "b": "x"}]), column([{"b": "y", "a": 2}])),
}


@pytest.mark.parametrize("what", KEPT)
def test_a_value_that_the_table_holds_is_stored(lake: Lake, what: str) -> None:
    """Also in lists, maps and structs, again and again."""
    name = f"kept_{what.replace(' ', '_')}"
    for result in KEPT[what]:
        store(lake, name, result)
    expected = KEPT[what][1]["c"].to_pylist()
    if what == "a day as a time":
        assert [value.date() for value in stored(lake, name)] == expected
    else:
        assert stored(lake, name) == expected


def test_rows_without_a_type_still_say_so(lake: Lake) -> None:
    """Only a day without rows waits for them."""
    with pytest.raises(ColumnMismatch, match=r"gold.untyped: no value of c.* says which type it has"):
        store(lake, "untyped", pd.DataFrame({"c": [None], "n": [1]}), "2024-03-01")


EMPTY: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame({"c": pd.Series([], dtype=object), "n": []}),
    "pandas, in part": lambda: pd.DataFrame({"c": pd.to_datetime([]), "n": pd.Series([], dtype=object)}),
    "polars": lambda: pl.DataFrame({"c": [], "n": []}),
    "arrow": lambda: pa.table({"c": pa.nulls(0), "n": pa.nulls(0)}),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_a_day_without_rows_may_have_columns_without_a_type(lake: Lake, kind: str) -> None:
    """As those of an empty frame of pandas or Polars. Before the first rows, there is no table with wrong types."""
    name, day = f"empty_{kind.replace(', ', '_').replace(' ', '_')}", date(2024, 3, 1)
    store(lake, name, EMPTY[kind](), "2024-03-01")
    assert load_table(lake.runtime.catalog, f"gold.{name}") is None
    store(lake, name, pa.table({"c": [day], "n": [1.5]}), "2024-03-01")
    assert stored(lake, name) == [day]
    store(lake, name, EMPTY[kind](), "2024-03-01")
    assert stored(lake, name) == []


def test_a_column_without_a_value_gets_its_type_with_the_first_one(lake: Lake) -> None:
    for values in ([None], ["a"], [None]):
        store(lake, "later", pa.table({"id": [1], "c": values}))
        assert stored(lake, "later") == values
    field = lake.runtime.catalog.load_table("gold.later").schema().find_field("c")
    assert str(field.field_type) == "string"


def test_rows_that_are_refused_leave_no_table_and_no_column(lake: Lake) -> None:
    """Their types may be the mistake: with them, the corrected rows would not fit."""
    outside, inside = date(2024, 3, 2), date(2024, 3, 1)
    with pytest.raises(PartitionMismatch):
        store(lake, "corrected", pa.table({"c": [outside], "n": ["one"]}), "2024-03-01")
    store(lake, "corrected", pa.table({"c": [inside], "n": [1]}), "2024-03-01")
    with pytest.raises(PartitionMismatch):
        store(lake, "corrected", pa.table({"c": [outside], "n": [1], "m": [1]}), "2024-03-01")
    store(lake, "corrected", pa.table({"c": [inside], "n": [2]}), "2024-03-01")
    table = lake.runtime.catalog.load_table("gold.corrected")
    assert table.scan().to_arrow().to_pylist() == [{"c": inside, "n": 2}]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (pa.table({"c": [1], "C": [2]}), "columns c and C, which a table cannot tell apart"),
        (pa.Table.from_arrays([pa.array([1])] * 2, names=["c", "c"]), "columns c and c, which"),
        (pa.table({"": [1]}), "a column without a name"),
        (pd.Series([1], name="c"), "stores Spark DataFrames .* not Series"),
    ],
)
def test_columns_that_no_table_has(lake: Lake, result: Any, message: str) -> None:
    with pytest.raises(dg.DagsterInvariantViolationError, match=f"gold/unnamed.* {message}"):
        store(lake, "unnamed", result)
    assert not lake.runtime.catalog.table_exists("gold.unnamed")

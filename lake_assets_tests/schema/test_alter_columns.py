"""Silver through changes of its source's columns: rows, Iceberg's columns and field ids.

Here: a table that lives through six changes one after the other, and the same files replayed at once. Not here: which
change is allowed (`test_evolve.py`).
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets.errors import TableStopped
from lake_assets.schema.alter_columns import SilverSchema
from lake_assets.silver.apply import turn
from lake_assets.silver.changes import reading
from lake_assets.spark.sql import Sql
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.processes.faults import Killed

pytestmark = pytest.mark.spark
TABLE = "public.items"
FIRST: dict[str, Any] = {
    "id": "int not null",
    "name": "string not null",
    "size": "int",
    "price": "decimal(6, 2)",
}
TYPES: dict[str, pa.DataType] = {
    "id": pa.int32(), "name": pa.string(), "size": pa.int32(), "price": pa.decimal128(6, 2)
}  # fmt: skip


class Life:
    """A table, its file writer, and what it must look like."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.clock = Clock()
        self.columns = list(FIRST)
        self.types = dict(TYPES)

    def put(self, *changes: dict[str, Any]) -> None:
        self.clock.now += timedelta(minutes=1)
        self.bench.tables = {TABLE: {"columns": self.columns, "primary_key": ["id"]}}
        self.bench.put(cdc_file(TABLE, self.clock.now, changes, "parquet"), types=self.types)

    def change(self, op: str, **image: Any) -> dict[str, Any]:
        return self.clock.change(op, image)


def fields(bench: Bench) -> list[tuple[int, str, str, bool]]:
    return [(f.field_id, f.name, str(f.field_type), f.required) for f in bench.table().schema().fields]


def rows(bench: Bench) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = bench.stored()
    return sorted(found, key=lambda row: int(row["id"]))


def config(columns: dict[str, str], **more: Any) -> dict[str, Any]:
    return {TABLE: {"columns": columns, "primary_key": ["id"], **more}}


def six_changes(bench: Bench, after_each: Callable[[], None]) -> None:
    """Files of a table's life; `after_each` is called when a file or an edit of lake.yaml is there."""
    life = Life(bench)
    price = pa.scalar("1.25").cast(pa.decimal128(6, 2)).as_py()
    loaded = [{"id": n, "name": f"n{n}", "size": n, "price": price} for n in range(1, 6)]
    bench.put(load_file(TABLE, loaded, extension="parquet"), types=TYPES)
    life.put(life.change("U", id=1, name="one", size=1, price=price))
    after_each()
    # 1: the source adds a column; Parquet says its type.
    life.columns.append("colour")
    life.types["colour"] = pa.string()
    life.put(life.change("U", id=2, name="two", size=2, price=price, colour="red"))
    after_each()
    # 2: the source widens one, 3: and drops one that was required.
    life.types["size"] = pa.int64()
    life.put(life.change("U", id=3, name="three", size=3_000_000_000, price=price, colour=None))
    after_each()
    life.columns.remove("name")
    life.put(life.change("I", id=6, size=6, price=price, colour="blue"))
    after_each()
    # 4: lake.yaml renames a column and 5: widens another. 6: it adds one with a default.
    life.columns = ["id", "size", "cost", "colour", "stock"]
    life.types = {
        "id": pa.int32(), "size": pa.int64(), "cost": pa.decimal128(9, 2), "colour": pa.string(), "stock": pa.int32()
    }  # fmt: skip
    edited = {"id": "int not null", "name": "string", "size": "int", "cost": "decimal(9, 2)", "stock": "int"}
    bench.edit(config(edited, renamed_from={"cost": "price"}, defaults={"stock": 7}))
    life.put(life.change("U", id=4, size=4, cost=price, colour="green", stock=None))
    after_each()
    life.put(life.change("D", id=5))
    after_each()


def expected() -> list[dict[str, Any]]:
    price = pa.scalar("1.25").cast(pa.decimal128(9, 2)).as_py()

    def row(key: int, name: str | None, size: int, colour: str | None, stock: int | None) -> dict[str, Any]:
        return {"id": key, "name": name, "size": size, "cost": price, "colour": colour, "stock": stock}

    return [
        row(1, "one", 1, None, 7),
        row(2, "two", 2, "red", 7),
        row(3, "three", 3_000_000_000, None, 7),
        row(4, None, 4, "green", None),
        row(6, None, 6, "blue", 7),
    ]


@pytest.fixture(scope="module")
def lived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A table that has lived through the changes, a batch for each."""
    bench = Bench(tmp_path_factory.mktemp("lived"), config(FIRST))

    def apply() -> None:
        bench.apply()

    six_changes(bench, apply)
    return bench


def test_living_through_six_changes(lived: Bench) -> None:
    assert rows(lived) == expected()
    assert fields(lived) == [
        (1, "id", "int", True),
        (2, "name", "string", False),
        (3, "size", "long", False),
        (4, "cost", "decimal(9, 2)", False),
        (5, "colour", "string", False),
        (6, "stock", "int", False),
    ]


BATCHES = pytest.mark.parametrize(
    ("small_load", "kinds"), [(reading.SMALL_LOAD, ["full_load"]), (0, ["full_load", "cdc"])]
)


@BATCHES
def test_a_replay_of_the_whole_history_gives_the_same_table(
    lived: Bench, monkeypatch: pytest.MonkeyPatch, small_load: int, kinds: list[str]
) -> None:
    """The silver table is dropped, and built from the files again: each by the contract that first decided it."""
    before, ids = rows(lived), fields(lived)
    lived.lake.runtime.catalog.drop_table("silver_shop.items")
    monkeypatch.setattr(turn, "SMALL_LOAD", small_load)
    assert [batch.kind for batch in lived.apply()["items"]] == kinds
    assert (rows(lived), fields(lived)) == (before, ids)


@pytest.mark.long
def test_in_one_batch_it_is_the_same(spark: SparkSession, tmp_path: Path, lived: Bench) -> None:
    """The files were all there before the first run, which knows of lake.yaml as it is at the end alone."""
    bench = Bench(tmp_path, config(FIRST))
    six_changes(bench, lambda: None)
    bench.apply()
    assert rows(bench) == expected()
    assert [field[1:] for field in fields(bench)] != [field[1:] for field in fields(lived)], "another order"
    assert sorted(field[1:] for field in fields(bench)) == sorted(field[1:] for field in fields(lived))


@pytest.mark.long
def test_every_change_is_told(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(tmp_path, config(FIRST))
    told: list[str] = []

    def apply() -> None:
        for batch in bench.apply()["items"]:
            told.extend(batch.schema_changes)

    six_changes(bench, apply)
    assert told == [
        "add column colour string",
        "widen column size from int to long",
        "let column name be NULL",
        "keep column name, NULL from now on",
        "rename column price to cost",
        "widen column cost from decimal(6, 2) to decimal(9, 2)",
        "add column stock int default 7",
    ]


def test_an_edit_that_cannot_be_stops_the_table_before_anything_is_written(lived: Bench) -> None:
    snapshot, ids, tables = lived.table().current_snapshot(), fields(lived), lived.tables
    clock = Clock()
    clock.now += timedelta(days=1)
    lived.edit(config({"id": "int not null", "name": "int"}))
    lived.put(
        cdc_file(TABLE, clock.now, [clock.change("I", {"id": 9, "name": 1})], "parquet"),
        types={"id": pa.int32(), "name": pa.int32()},
    )
    error = lived.turn()["items"].error
    assert isinstance(error, TableStopped)
    assert "column name cannot become int: it is string" in str(error)
    assert (lived.table().current_snapshot(), fields(lived)) == (snapshot, ids)
    lived.tables = tables


@pytest.mark.long
@pytest.mark.parametrize("statement", [1, 2, 3])
def test_killed_between_two_changes_of_columns(
    spark: SparkSession, tmp_path: Path, lived: Bench, monkeypatch: pytest.MonkeyPatch, statement: int
) -> None:
    """ALTER TABLE shows at once; the next run finds some done, and makes the rest."""
    bench = Bench(tmp_path, config(FIRST))
    made = SilverSchema._alter
    left = [statement]

    def killing(self: SilverSchema, change: Sql) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        made(self, change)

    def apply() -> None:
        left[0] = statement
        monkeypatch.setattr(SilverSchema, "_alter", killing)
        try:
            bench.apply()
        except Killed:
            monkeypatch.setattr(SilverSchema, "_alter", made)
            bench.lake = bench.reopened()
            bench.apply()
        monkeypatch.setattr(SilverSchema, "_alter", made)

    six_changes(bench, apply)
    assert rows(bench) == expected()
    assert fields(bench)[:5] == [f for f in fields(bench) if f[0] <= 5]


@BATCHES
def test_a_column_that_silver_drops(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_load: int, kinds: list[str]
) -> None:
    policies = {"schema_changes": {"dropped": "drop"}}
    bench = Bench(tmp_path, config({"id": "int not null", "a": "string", "b": "string"}, **policies))
    bench.put(load_file(TABLE, [{"id": 1, "a": "x", "b": "y"}]))
    bench.apply()
    bench.edit(config({"id": "int not null", "a": "string"}, **policies))
    clock = Clock()
    bench.put(cdc_file(TABLE, clock.now, [clock.change("I", {"id": 2, "a": "z"})]))
    (batch,) = bench.apply()["items"]
    assert batch.schema_changes == ("drop column b",)
    assert rows(bench) == [{"id": 1, "a": "x"}, {"id": 2, "a": "z"}]
    bench.edit(config({"id": "int not null", "a": "string", "b": "string"}, **policies))
    clock.now += timedelta(minutes=1)
    bench.put(cdc_file(TABLE, clock.now, [clock.change("I", {"id": 3, "a": "z", "b": "new"})]))
    bench.apply()
    assert fields(bench)[-1][:2] == (4, "b"), "another column than the one that was dropped"
    assert [row["b"] for row in rows(bench)] == [None, None, "new"]
    before = rows(bench), fields(bench)
    bench.lake.runtime.catalog.drop_table("silver_shop.items")
    monkeypatch.setattr(turn, "SMALL_LOAD", small_load)
    assert [batch.kind for batch in bench.apply()["items"]] == kinds
    assert (rows(bench), fields(bench)) == before


@pytest.mark.long
def test_a_default_is_for_rows_from_before_the_column_not_from_after_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    edited = config({"id": "int not null", "a": "string", "stock": "int"}, defaults={"stock": 7})
    bench = Bench(tmp_path, edited)
    bench.tables = config({"id": "int not null", "a": "string"})
    bench.put(load_file(TABLE, [{"id": 1, "a": "x"}]))
    clock = Clock()

    def put(minute: int, key: int, columns: list[str], **image: Any) -> None:
        clock.now = Clock().now + timedelta(minutes=minute)
        bench.tables = {TABLE: {"columns": columns, "primary_key": ["id"]}}
        bench.put(cdc_file(TABLE, clock.now, [clock.change("I", {"id": key, "a": "y"} | image)]))
        bench.apply()

    put(10, 2, ["id", "a", "stock"], stock=1)
    put(20, 3, ["id", "a"])
    put(5, 4, ["id", "a"])  # late: from before the column
    put(15, 5, ["id", "a"])  # late as well, and from after the column was dropped
    put(30, 6, ["id", "a", "stock"], stock=2)
    expected = {1: 7, 2: 1, 3: None, 4: 7, 5: None, 6: 2}
    assert {row["id"]: row["stock"] for row in rows(bench)} == expected
    bench.edit(
        config(
            {"id": "int not null", "a": "string", "left": "int"},
            defaults={"left": 7},
            renamed_from={"left": "stock"},
        )
    )
    put(40, 7, ["id", "a"])
    put(3, 8, ["id", "a"])
    assert {row["id"]: row["left"] for row in rows(bench)} == expected | {7: None, 8: 7}
    bench.lake.runtime.catalog.drop_table("silver_shop.items")
    bench.apply()
    assert {row["id"]: row["left"] for row in rows(bench)} == expected | {7: None, 8: 7}


def test_a_change_of_columns_in_the_middle_of_a_file_without_a_header(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of the same width before and after, so that only the sequence of each row tells."""
    end = "2026030112060000" + "0" * 19
    earlier = [{"until_sequence": end, "columns": {"id": "int", "a": "string", "b": "string"}}]
    today = {"id": "int not null", "b": "string", "c": "string"}
    bench = Bench(tmp_path, config(today, earlier=earlier), dms={"add_column_name": False})
    bench.put_text(
        "public/items/20260301-120700000.csv",
        f"I,2026-03-01 12:05:59.000000,1,old a,old b,2026030112055900{1:019d},NULL",
        f"I,2026-03-01 12:06:00.000000,2,new b,new c,{end[:-1]}2,NULL",
        f"U,2026-03-01 12:06:00.000000,1,newer b,newer c,{end[:-1]}3,NULL",
        "I,2026-03-01 12:06:01.000000,3,too,many,fields,2,NULL,NULL",
        f"I,2026-03-01 12:06:02.000000,4,b,c,{end[:-1]}5,NULL",
        f"I,2026-03-01 12:05:59.500000,5,late a,late b,2026030112055950{6:019d},NULL",
    )
    (batch,) = bench.apply()["items"]
    assert (batch.rows_read, batch.rows_quarantined) == (6, 1)
    (held,) = bench.lake.runtime.quarantine.open("silver_shop.items")
    assert (held.row, held.line, held.reason) == (3, 4, "not 7 fields, but 9")
    assert rows(bench) == [
        {"id": 1, "b": "newer b", "c": "newer c"},
        {"id": 2, "b": "new b", "c": "new c"},
        {"id": 4, "b": "b", "c": "c"},
        {"id": 5, "b": "late b", "c": None},
    ]

"""Columns whose names silver cannot have, and names that only look as if it could not.

Here: what a file's column names do to a table and its contracts. Not here: what its types do (`test_evolve.py`).
"""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyspark.sql import SparkSession

from lake_assets.config import Column, TableConfig
from lake_assets.errors import TableStopped
from lake_assets.schema.contract_log import new_version
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench

TABLE, OTHER = "public.items", "public.others"
BASE: dict[str, Any] = {"columns": {"id": "int not null", "v": "int"}, "primary_key": ["id"]}
TYPES = {"id": pa.int32(), "v": pa.int32()}
CANNOT_BE: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "iceberg": ("_pos", "is a name that Iceberg reserves", "pos", {}),
    "iceberg, other case": ("_File", "is a name that Iceberg reserves", "file", {}),
    "case": ("V", "differs from v only in case", "v_2", {}),
    "nothing": ("", "has an empty name", "column", {}),
    "shape": ("_op", "has the name of a column that change_log adds", "op_2", {"also": ["change_log"]}),
}  # fmt: skip


class Life:
    """A table with a column of some name, and another one that has nothing to do with it."""

    def __init__(self, folder: Path, strange: str, **more: Any) -> None:
        self.strange, self.more, self.clock = strange, more, Clock()
        self.bench = Bench(folder, {TABLE: BASE | more, OTHER: BASE})

    def put(self, *changes: dict[str, Any], strange: bool = True) -> None:
        """A Parquet file, with the column or as they were before it."""
        self.clock.now += timedelta(minutes=1)
        columns = ["id", "v", *([self.strange] if strange else [])]
        kept = self.bench.tables
        self.bench.tables = {TABLE: {"columns": columns, "primary_key": ["id"]}, OTHER: BASE}
        types = TYPES | {self.strange: pa.int32()}
        self.bench.put(cdc_file(TABLE, self.clock.now, changes, "parquet"), types=types)
        self.bench.put(cdc_file(OTHER, self.clock.now, [self.change("I", self.clock.now.minute, 1)]))
        self.bench.tables = kept

    def load(self, *rows: Mapping[str, Any]) -> None:
        kept = self.bench.tables
        self.bench.tables = {TABLE: {"columns": list(rows[0]), "primary_key": ["id"]}, OTHER: BASE}
        types = TYPES | {self.strange: pa.int32()}
        self.bench.put(load_file(TABLE, rows, extension="parquet"), types=types)
        self.bench.tables = kept

    def change(self, op: str, key: int, v: int, value: int | None = None) -> dict[str, Any]:
        return self.clock.change(op, {"id": key, "v": v, self.strange: value})

    def mend(self, way: str, message: str) -> None:
        """lake.yaml with the lines that the message gives."""
        lines = [yaml.safe_load(line) for line in re.findall(r"`([a-z_]+: .*?[\]}])`", message)]
        table = {**BASE, **self.more}
        for line in lines:
            ((setting, value),) = line.items()
            if way == "ignore" and setting == "ignore":
                table["ignore"] = value
            elif way == "renamed_from" and setting != "ignore":
                table[setting] = {**table.get(setting, {}), **value}
        self.bench.edit({TABLE: table, OTHER: BASE})

    def stopped(self) -> str:
        """The message of the table, while the other one goes on."""
        results = self.bench.turn()
        errors = {name: result.error for name, result in results.items() if result.error is not None}
        assert isinstance(errors["items"], TableStopped), errors
        assert all(name.startswith("items") for name in errors)
        return str(errors["items"])

    def rows(self, name: str = "items") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.bench.stored(name)
        return sorted(found, key=lambda row: str(row))

    def versions(self, name: str = "items") -> int:
        return len(self.bench.lake.runtime.contracts.of(f"silver_shop.{name}").versions)


def mended(kinds: Iterable[str], *seldom: tuple[str, str]) -> list[Any]:
    """Each kind with both ways to mend it; of most kinds, unless it is `seldom`, every run of the tests has one."""
    often = {
        ("iceberg", "ignore"),
        ("case", "renamed_from"),
        ("nothing", "renamed_from"),
        ("shape", "renamed_from"),
    } - {*seldom}
    return [
        pytest.param(kind, way, marks=() if (kind, way) in often else pytest.mark.long)
        for kind in kinds
        for way in ("renamed_from", "ignore")
    ]


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "way"), mended(CANNOT_BE))
def test_a_column_that_cannot_be_stops_its_table_until_lake_yaml_says_what_it_is(
    spark: SparkSession, tmp_path: Path, kind: str, way: str
) -> None:
    strange, why, name, more = CANNOT_BE[kind]
    life = Life(tmp_path, strange, **more)
    life.load({"id": 1, "v": 1}, {"id": 2, "v": 2})
    life.bench.apply()
    known = life.versions()
    life.put(life.change("U", 1, 10, 100), life.change("I", 3, 30, 300), life.change("D", 2, 2))
    message = life.stopped()
    assert why in message
    assert f"lake-assets sync --table {TABLE}" in message
    assert life.versions() == known, "no contract is recorded of what cannot be"
    assert life.stopped() == message
    life.mend(way, message)
    life.bench.apply()
    life.put(life.change("U", 3, 31, 301))
    life.bench.apply()
    expected = [{"id": 1, "v": 10, name: 100}, {"id": 3, "v": 31, name: 301}]
    if way == "ignore":
        expected = [{"id": row["id"], "v": row["v"]} for row in expected]
    assert life.rows() == expected
    assert len(life.rows("others")) == 2, "the other table went on"


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("kind", CANNOT_BE)
def test_one_that_is_there_from_the_first_load_on(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    strange, _, name, more = CANNOT_BE[kind]
    life = Life(tmp_path, strange, **more)
    life.load({"id": 1, "v": 1, strange: 11}, {"id": 2, "v": 2, strange: 22})
    life.mend("renamed_from", life.stopped())
    life.bench.apply()
    assert life.rows() == [{"id": 1, "v": 1, name: 11}, {"id": 2, "v": 2, name: 22}]


@pytest.mark.spark
def test_a_column_that_the_source_has_renamed_in_case_only_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    life = Life(tmp_path, "V")
    life.load({"id": 1, "v": 1}, {"id": 2, "v": 2})
    life.bench.apply()
    clock = life.clock
    clock.now += timedelta(minutes=1)
    life.bench.tables = {TABLE: {"columns": ["id", "V"], "primary_key": ["id"]}, OTHER: BASE}
    life.bench.put(
        cdc_file(TABLE, clock.now, [clock.change("U", {"id": 1, "V": 10})], "parquet"),
        types={"id": pa.int32(), "V": pa.int32()},
    )
    message = life.stopped()
    assert "`renamed_from: {v: V}`" in message
    life.mend("renamed_from", message)
    life.bench.apply()
    assert life.rows() == [{"id": 1, "v": 10}, {"id": 2, "v": 2}]


@pytest.mark.spark
def test_lake_yaml_renames_in_case_only(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(tmp_path, "V")
    life.load({"id": 1, "v": 1}, {"id": 2, "v": 2})
    life.bench.apply()
    edited = BASE | {"columns": {"id": "int not null", "V": "int"}}
    life.bench.edit({TABLE: edited, OTHER: BASE})
    life.put(life.change("I", 3, 3), strange=False)
    message = life.stopped()
    assert "`renamed_from: {V: v}`" in message
    life.bench.edit({TABLE: edited | {"renamed_from": {"V": "v"}}, OTHER: BASE})
    life.bench.apply()
    assert life.rows() == [{"id": 1, "V": 1}, {"id": 2, "V": 2}, {"id": 3, "V": 3}]


ODD = [
    "x` int, `y",
    "a.b",
    "a b",
    "it's",
    'a"b',
    "a\nb",
    "${HOME}",
    "{table}",
    "\\",
    "日本",
    "_metadata",
    "_image",
    "t",
]


@pytest.mark.spark
def test_any_other_name_is_one_column(spark: SparkSession, tmp_path: Path) -> None:
    """All of them in one table of each shape, through a load, an update, a delete and a change of the key."""
    shapes: dict[str, dict[str, Any]] = {
        "public.current": {"primary_key": ["`k`"], "also": ["change_log", "history"]},
        "public.deleted": {"primary_key": ["`k`"], "mode": "soft_delete"},
        "public.whole": {"mode": "full_row"},
    }
    declared = {"`k`": "int not null", "v": "int"}
    dms = {"before_image_columns": "all"}
    tables = {name: {"columns": declared, **more} for name, more in shapes.items()}
    bench, clock = Bench(tmp_path, tables, dms=dms), Clock()
    types = dict.fromkeys(["`k`", "v", *ODD], pa.int32())

    def row(key: int, value: int | None) -> dict[str, Any]:
        return {"`k`": key, "v": value, **dict.fromkeys(ODD, value)}

    def put(*changes: dict[str, Any]) -> None:
        clock.now += timedelta(minutes=1)
        for name, more in shapes.items():
            columns = ["`k`", "v", *ODD]
            bench.tables = {name: {"columns": columns, **more}}
            bench.put(cdc_file(name, clock.now, changes, "parquet"), types=types)
        bench.tables = tables
        bench.apply()

    for name, more in shapes.items():
        bench.tables = {name: {"columns": ["`k`", "v"], **more}}
        rows = [{"`k`": key, "v": key} for key in range(1, 5)]
        bench.put(load_file(name, rows, extension="parquet"), types=types)
    bench.tables = tables
    bench.apply()
    unset = {"`k`": 1, "v": 1, **dict.fromkeys(ODD)}
    put(
        clock.change("I", row(9, 90)),
        clock.change("U", row(1, 10), unset),
        clock.change("D", {"`k`": 2, "v": 2, **dict.fromkeys(ODD)}),
        clock.change("U", row(7, 10), row(1, 10)),
    )
    expected = [
        {"`k`": 3, "v": 3, **dict.fromkeys(ODD)},
        {"`k`": 4, "v": 4, **dict.fromkeys(ODD)},
        row(7, 10),
        row(9, 90),
    ]

    def found(name: str) -> list[dict[str, Any]]:
        own = ["`k`", "v", *ODD]
        rows = bench.stored(name)
        alive = [r for r in rows if r.get("_is_current", True) and not r.get("_is_deleted", False)]
        return sorted(({n: r[n] for n in own} for r in alive), key=lambda r: int(r["`k`"]))

    for name in ("current", "current_history", "deleted", "whole"):
        assert found(name) == expected, name
    assert bench.table("current").schema().column_names == ["`k`", "v", *ODD]
    assert len(bench.table("current_changes").scan().to_arrow()) == 8


# --- a lake that an earlier release has poisoned


def poison(life: Life, silver: str, *statements: str) -> None:
    """What an earlier release left: a contract with the column, and what of its ALTER TABLE went through."""
    runtime = life.bench.lake.runtime
    known = runtime.contracts.of(silver)
    assert known.newest is not None
    contract = known.newest.contract.with_column(Column(name=life.strange, type="int"))
    offset = runtime.file_log.head()
    origin = f"{life.strange} came"
    runtime.contracts.add(silver, known, new_version(contract, offset, origin, known.newest.configured))
    spark = runtime.sessions.root()
    for statement in statements:
        spark.sql(statement.format(table=f"{life.bench.lake.config.catalog.name}.{silver}"))


POISONED: dict[str, tuple[str, dict[str, Any], tuple[str, ...], dict[str, int]]] = {
    "iceberg": ("_pos", {}, ("ALTER TABLE {table} ADD COLUMN `_pos` int",), {"pos": 100}),
    "case": ("V", {}, (), {"v_2": 100}),
    "shape": ("_op", {"also": ["change_log"]}, (), {"op_2": 100}),
}


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "way"), mended(POISONED, ("case", "renamed_from")))
def test_a_poisoned_lake_has_a_way_out(spark: SparkSession, tmp_path: Path, kind: str, way: str) -> None:
    strange, more, statements, new = POISONED[kind]
    life = Life(tmp_path, strange, **more)
    life.load({"id": 1, "v": 1}, {"id": 2, "v": 2})
    life.bench.apply()
    life.put(life.change("U", 1, 10, 100))
    life.bench.look()
    silver = "silver_shop.items_changes" if more else "silver_shop.items"
    poison(life, silver, *statements)
    message = life.stopped()
    life.mend(way, message)
    life.bench.apply()
    values = {} if way == "ignore" else new
    unset = dict.fromkeys(values)
    assert life.rows() == [{"id": 1, "v": 10, **values}, {"id": 2, "v": 2, **unset}]
    life.put(life.change("D", 1, 10, 100))
    life.bench.apply()
    assert life.rows() == [{"id": 2, "v": 2, **unset}]


@pytest.mark.spark
def test_a_name_that_an_earlier_release_took_for_two_columns(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(tmp_path, "x` int, `y")
    life.load({"id": 1, "v": 1}, {"id": 2, "v": 2})
    life.bench.apply()
    life.put(life.change("U", 1, 10, 100))
    life.bench.look()
    poison(life, "silver_shop.items", "ALTER TABLE {table} ADD COLUMN `x` int, `y` int")
    life.bench.apply()
    assert life.rows() == [{"id": 1, "v": 10, "x` int, `y": 100}, {"id": 2, "v": 2, "x` int, `y": None}]


@pytest.mark.spark
def test_ignore_forgets_a_column_that_a_file_brought(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(tmp_path, "colour")
    life.load({"id": 1, "v": 1}, {"id": 2, "v": 2})
    life.put(life.change("U", 1, 10, 100))
    life.bench.apply()
    life.bench.edit({TABLE: BASE | {"ignore": ["colour"]}, OTHER: BASE})
    life.put(life.change("U", 2, 20, 200))
    (batch,) = life.bench.apply()["items"]
    assert batch.schema_changes == ("keep column colour, NULL from now on",)
    assert life.rows() == [{"id": 1, "v": 10, "colour": 100}, {"id": 2, "v": 20, "colour": None}]


def test_lake_yaml_ignores_no_column_that_it_has() -> None:
    with pytest.raises(ValueError, match="names v, which columns has"):
        TableConfig.model_validate(BASE | {"ignore": ["v"]})

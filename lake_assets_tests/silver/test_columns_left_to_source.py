"""`columns: from_database`: a table of lake.yaml without a list of columns, beside a real PostgreSQL.

Here: what the lake takes the columns from, and when a table waits for them. Not here: columns that the source changes
later (`test_columns_from_source.py`).
"""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from pydantic import ValidationError
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lake_assets.cli import app
from lake_assets.config import LakeConfig
from lake_assets.config.config_file import load_lake
from lake_assets.errors import LakeError
from lake_assets.iceberg.table_io import load_table
from lake_assets.lake import Lake, open_lake, open_runtime
from lake_assets.orchestration.lake_definitions import build_definitions
from lake_assets_tests.helpers.lakes.small_lakes import DMS, ITEMS_HEADER, lake_config, write_file
from lake_assets_tests.helpers.oracles.live_table import ITEMS, Live, NewDatabase
from lake_assets_tests.helpers.orchestration.dagster_shop import DAILY

OPEN: dict[str, Any] = {"columns": "from_database", "primary_key": []}
SOURCE = """
CREATE TABLE items (id bigint PRIMARY KEY, name varchar(20) NOT NULL, price numeric(10, 2), at timestamptz);
CREATE TABLE odd (id bigint PRIMARY KEY, "_pos" text);
CREATE TABLE keyless (id bigint, name text);
CREATE TABLE ranges (id bigint PRIMARY KEY, open geometry_of_ours);
"""
SOURCE = SOURCE.replace("geometry_of_ours", "numeric")  # whose digits PostgreSQL does not limit
NOWHERE = "postgresql+psycopg://nobody:s3cret@127.0.0.1:1/none"


def lake_of(folder: Path, address: str | None, *tables: str, **sections: Any) -> LakeConfig:
    source = {"database": address} if address else {}
    return lake_config(
        folder, dict.fromkeys(tables, OPEN), source=source | sections.pop("source", {}), **sections
    )


@pytest.mark.spark
def test_a_table_needs_no_list(spark: SparkSession, new_database: NewDatabase, tmp_path: Path) -> None:
    live = Live(tmp_path, new_database, **OPEN)
    (target,) = live.bench.lake.targets
    assert target.key == ("id",)
    live.insert(1, name="a", size=1, price=Decimal("1.50"))
    live.load()
    live.changes(live.update(1, size=11), live.insert(2, name="b"))
    live.check()
    assert live.types() == {"id": "long", "name": "string", "size": "int", "price": "decimal(10, 2)"}

    live.ddl("ALTER TABLE items ALTER size TYPE bigint", "ALTER TABLE items ADD fee numeric(12, 3)")
    live.changes(live.update(2, fee=Decimal("0.125"), size=1 << 40))
    live.check()
    assert live.types()["size"] == "long"
    live.check_rebuilt()


def reopened(live: Live, address: str, **table: Any) -> Lake:
    """The lake as a new process opens it, with these keys of the table."""
    config = lake_config(live.bench.folder, {ITEMS: OPEN | table}, source={"database": address})
    config._given["catalog"]["name"] = (
        live.bench.lake.config.catalog.name
    )  # the helper makes a new one each time
    config = config.model_copy(update={"catalog": live.bench.lake.config.catalog})
    return open_lake(config)


def names(lake: Lake) -> list[str]:
    (target,) = lake.targets
    return [column.name for column in target.columns]


@pytest.mark.spark
def test_the_database_is_not_asked_again(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path
) -> None:
    live = Live(tmp_path, new_database, **OPEN)
    live.insert(1, name="a", size=1)
    live.load()
    live.changes(live.update(1, size=2))
    live.check()
    again = reopened(live, NOWHERE)
    assert again.broken == ()
    assert names(again) == ["id", "name", "size", "price"]
    # What files bring is in the contract, and can be named in lake.yaml.
    live.ddl("ALTER TABLE items ADD fee numeric(12, 3)")
    live.changes(live.update(1, fee=Decimal("0.125")))
    live.check()
    versions = len(live.bench.lake.runtime.contracts.of("silver_shop.items").versions)
    more = reopened(live, NOWHERE, comments={"fee": "What it costs"}, renamed_from={"title": "name"})
    assert names(more) == ["id", "title", "size", "price", "fee"]
    live.bench.lake = reopened(live, live.address)
    live.changes(live.update(1, size=3))
    live.check()
    assert len(live.bench.lake.runtime.contracts.of("silver_shop.items").versions) == versions
    with pytest.raises(LakeError, match=r"do not fit lake.yaml \(mask.nothing: is not a column"):
        reopened(live, NOWHERE, mask={"nothing": "redact"})


@pytest.mark.spark
@pytest.mark.parametrize("dropped", ["ignore", "drop"])
def test_a_process_that_knows_other_columns_changes_no_contract(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path, dropped: str
) -> None:
    live = Live(tmp_path, new_database, **OPEN, schema_changes={"dropped": dropped})
    live.insert(1, name="a", size=1)
    live.ddl("ALTER TABLE items ADD fee integer")
    later = reopened(live, live.address, schema_changes={"dropped": dropped})
    before, live.bench.lake = live.bench.lake, later
    live.update(1, fee=5)
    live.load()
    live.changes(live.update(1, size=2))
    live.check()
    assert "fee" not in names(before)
    assert "fee" in names(later)
    for lake in (before, later, before):
        live.bench.lake = lake
        live.changes(live.update(1, size=live.rows()[0]["size"] + 1))
        live.check()
    assert [row["fee"] for row in live.bench.stored()] == [5]
    assert len(live.bench.lake.runtime.contracts.of("silver_shop.items").versions) == 1


def test_columns_are_ignored_and_renamed(new_database: NewDatabase, tmp_path: Path) -> None:
    address = new_database(SOURCE)
    table = {**OPEN, "ignore": ["price"], "renamed_from": {"title": "name", "number": "id"}}
    lake = open_lake(lake_config(tmp_path, {ITEMS: table}, source={"database": address}))
    (target,) = lake.targets
    assert [(c.name, c.type, c.required) for c in target.columns] == [
        ("number", "long", True),
        ("title", "string", True),
        ("at", "timestamptz", False),
    ]
    assert target.key == ("number",)
    assert lake.runtime.lake is lake.config
    assert open_runtime(lake_of(tmp_path, address, ITEMS)).lake.open_tables == []


def test_a_table_waits_and_the_others_go_on(new_database: NewDatabase, tmp_path: Path) -> None:
    address = new_database(SOURCE)
    tables = [ITEMS, "public.odd", "public.keyless", "public.ranges", "public.gone"]
    lake = open_lake(lake_of(tmp_path, address, *tables))
    assert [target.table for target in lake.targets] == [ITEMS]
    said = {sentence.partition(": ")[0]: sentence for sentence in lake.broken}
    assert said.keys() == {*tables[1:]}
    assert "columns._pos: is a name that Iceberg reserves" in said["public.odd"]
    assert "primary_key" in said["public.keyless"]
    assert "the type of open is open" in said["public.ranges"]
    assert "It has no table public.gone" in said["public.gone"]


def test_without_any_table_there_is_no_lake(tmp_path: Path) -> None:
    with pytest.raises(
        LakeError, match=r"^public.items: lake.yaml leaves its columns to the source database"
    ) as found:
        open_lake(lake_of(tmp_path, NOWHERE, ITEMS))
    assert "s3cret" not in str(found.value)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({ITEMS: OPEN}, "from_database needs `database` of the source"),
        ({ITEMS: {"columns": {}}}, "names no column: declare them, or write from_database"),
        ({ITEMS: {"columns": "from_the_database"}}, "must be the columns by name, or from_database"),
    ],
)
def test_mistakes_of_lake_yaml(tmp_path: Path, tables: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        lake_config(tmp_path, tables)


def test_without_names_in_the_files_it_is_refused(tmp_path: Path) -> None:
    """Between a file and the first look at the source, a column may have gone and another one come."""
    with pytest.raises(ValidationError, match="needs the names of the columns in the files"):
        lake_of(tmp_path, NOWHERE, ITEMS, source={"dms": DMS | {"add_column_name": False}})


def test_marts_of_other_tables_stay(new_database: NewDatabase, tmp_path: Path) -> None:
    address = new_database(SOURCE.replace("items", "sales"))
    lake = open_lake(lake_of(tmp_path, address, "public.sales", "public.gone"), marts=[DAILY])
    assert [mart.name for mart in lake.marts] == [DAILY.name]
    lake = open_lake(lake_of(tmp_path, address, "public.odd", "public.sales", "public.gone"), marts=[DAILY])
    assert len(lake.broken) == 2
    waits = open_lake(lake_of(tmp_path, new_database(SOURCE), "public.sales", ITEMS), marts=[DAILY])
    assert waits.marts == ()
    assert waits.broken[1:] == ("gold.sales_daily is left out: it reads a table that waits.",)


def test_a_name_of_dms_is_a_mistake_of_its_table_alone(new_database: NewDatabase, tmp_path: Path) -> None:
    address = new_database(SOURCE + "CREATE TABLE named (id bigint PRIMARY KEY, change_seq text);")
    lake = open_lake(lake_of(tmp_path, address, ITEMS, "public.named"))
    assert [target.table for target in lake.targets] == [ITEMS]
    (sentence,) = lake.broken
    assert "column change_seq has the name of a column that DMS adds" in sentence


@pytest.mark.parametrize("address", ["sqlite:///x.db", f"postgresql+psycopg://u:s3cret@{'a' * 70}.example/d"])
def test_an_address_that_cannot_be_used_has_a_sentence(tmp_path: Path, address: str) -> None:
    with pytest.raises(LakeError, match=r"^public.items: lake.yaml leaves its columns") as found:
        open_lake(lake_of(tmp_path, address, ITEMS))
    assert "s3cret" not in str(found.value)


def test_two_columns_of_one_name_wait(new_database: NewDatabase, tmp_path: Path) -> None:
    table = {**OPEN, "renamed_from": {"price": "name"}}
    config = lake_config(tmp_path, {ITEMS: table}, source={"database": new_database(SOURCE)})
    with pytest.raises(LakeError, match="gives a column the name price, which another one has"):
        open_lake(config)


def test_a_mistake_that_the_columns_show_is_named(new_database: NewDatabase, tmp_path: Path) -> None:
    address = new_database(SOURCE)
    table = {**OPEN, "partition_by": ["day(taken)"]}
    with pytest.raises(LakeError, match=r"partition_by.*names taken, which columns does not have"):
        open_lake(lake_config(tmp_path, {ITEMS: table}, source={"database": address}))


@pytest.fixture
def project(new_database: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake.yaml with a table that has a list, and one that has none."""
    known = {"id": "long not null", "name": "string", "price": "decimal(10, 2)", "at": "timestamptz"}
    lake = {
        "catalog": {"uri": "catalog.db", "warehouse": "warehouse"},
        "sources": {
            "shop": {
                "location": "bronze",
                "dms": DMS,
                "database": "${SHOP}",
                "tables": {
                    ITEMS: {"columns": "from_database"},
                    "public.others": {"columns": known, "primary_key": ["id"]},
                },
            }
        },
    }
    (tmp_path / "lake.yaml").write_text(yaml.safe_dump(lake))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP", new_database(SOURCE))
    for table in ("items", "others"):
        row = "I,2026-03-01 10:00:00.000000,1,a,1.50,2026-03-01 09:00:00,,"
        write_file(tmp_path, f"public/{table}/LOAD00000001.csv", [ITEMS_HEADER, row])
        late = (
            "I,2026-03-01 11:00:00.000000,2,b,1.50,2026-03-01 09:00:00,20260301110000000000000000000000001,"
        )
        write_file(tmp_path, f"public/{table}/20260301-110000001.csv", [ITEMS_HEADER, late])
    return tmp_path


@pytest.mark.spark
def test_commands_and_dagster_name_the_table_that_waits(
    spark: SparkSession, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = load_lake().sources["shop"].database
    assert address is not None
    monkeypatch.setenv("SHOP", NOWHERE)
    waits = "public.items: lake.yaml leaves its columns to the source database"
    done = CliRunner().invoke(app, ["sync"])
    assert waits in " ".join(done.output.split())
    assert done.exit_code == 1
    assert "s3cret" not in done.output
    status = CliRunner().invoke(app, ["status"])
    assert waits in " ".join(status.output.split())
    assert status.exit_code == 1
    lake = open_lake(load_lake())
    assert rows(lake.runtime.catalog, "silver_shop.others") == 2
    keys = build_definitions(lake).resolve_all_asset_keys()
    assert dg.AssetKey(["silver", "shop", "others"]) in keys
    assert dg.AssetKey(["silver", "shop", "items"]) not in keys

    monkeypatch.setenv("SHOP", address.get_secret_value())
    done = CliRunner().invoke(app, ["sync"])
    assert done.exit_code == 0, done.output
    assert rows(lake.runtime.catalog, "silver_shop.items") == 2
    assert CliRunner().invoke(app, ["validate"]).exit_code == 0
    (version,) = open_lake(load_lake()).runtime.contracts.of("silver_shop.items").versions
    assert "the source database" in version.origin


def rows(catalog: Any, identifier: str) -> int:
    table = load_table(catalog, identifier)
    return 0 if table is None else table.scan().to_arrow().num_rows

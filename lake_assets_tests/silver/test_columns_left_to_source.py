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
from lake_assets.lake import open_lake, open_runtime
from lake_assets.orchestration.lake_definitions import build_definitions
from lake_assets_tests.helpers.lakes.small_lakes import DMS, ITEMS_HEADER, lake_config, write_file
from lake_assets_tests.helpers.oracles.live_table import ITEMS, Live, NewDatabase

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
@pytest.mark.parametrize("form", ["header", "no header", "json"])
def test_a_table_needs_no_list(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path, form: str
) -> None:
    live = Live(tmp_path, new_database, form, **OPEN)
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


@pytest.mark.spark
def test_the_database_is_not_asked_again(
    spark: SparkSession, new_database: NewDatabase, tmp_path: Path
) -> None:
    live = Live(tmp_path, new_database, **OPEN)
    live.insert(1, name="a", size=1)
    live.load()
    live.changes(live.update(1, size=2))
    live.check()
    config = lake_config(tmp_path, {ITEMS: OPEN}, source={"database": NOWHERE})
    config = config.model_copy(update={"catalog": live.bench.lake.config.catalog})
    config._given["catalog"] = {**config._given["catalog"], "name": live.bench.lake.config.catalog.name}
    again = open_lake(config)
    assert again.broken == ()
    assert [column.name for column in again.targets[0].columns] == ["id", "name", "size", "price"]
    # Its files go on being read by the contract, to which the source has added a column meanwhile.
    live.ddl("ALTER TABLE items ADD fee numeric(12, 3)")
    live.changes(live.update(1, fee=Decimal("0.125")))
    live.check()
    assert "fee" not in [column.name for column in open_lake(config).targets[0].columns]


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
    said = dict(zip(tables[1:], lake.broken, strict=True))
    for table, sentence in said.items():
        assert sentence.startswith(f"{table}: ")
    assert "columns._pos: is a name that Iceberg reserves" in said["public.odd"]
    assert "primary_key" in said["public.keyless"]
    assert "the type of open is open" in said["public.ranges"]
    assert "It has no table public.gone" in said["public.gone"]
    assert not lake.marts, "which may be of a table that waits"
    assert not lake.checks


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

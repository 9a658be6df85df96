"""`lake-assets warehouse`, `sync` and `status` on a lake with warehouses."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lake_assets.config import CatalogConfig
from lake_assets.errors import LakeError
from lake_assets.lake import open_lake
from lake_assets.outputs.reader_statements import _trino, statements_of
from lake_assets.outputs.snowflake.set_up import apply_setup
from lake_assets.outputs.snowflake.snowflake_connection import PATIENCE
from lake_assets_tests.helpers.lakes.command_lake import call
from lake_assets_tests.helpers.lakes.small_lakes import small_lake
from lake_assets_tests.helpers.servers.glue import glue_server
from lake_assets_tests.helpers.servers.s3 import client
from lake_assets_tests.helpers.warehouses.snowflake_account import SnowflakeAccount
from lake_assets_tests.helpers.warehouses.snowflake_lake import SECRET, commit, lake_of, raw

ORDERS = "silver_shop.orders"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with glue_server() as address:
        client("s3", address).create_bucket(Bucket="lake")
        yield address


@pytest.fixture
def account(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SnowflakeAccount:
    """An account for a lake with one table, silver_shop.orders."""
    lake = lake_of(raw(endpoint, "lake", tmp_path, refresh="each_commit", max_lag="0s"), tmp_path)
    if not lake.runtime.catalog.table_exists(ORDERS):
        commit(lake, ORDERS)
    found = SnowflakeAccount(tmp_path / "account.json", tmp_path / "lake.yaml")
    monkeypatch.setattr(
        "lake_assets.outputs.snowflake.snowflake_connection._connector", lambda: found.connect
    )
    return found


def test_the_script_is_printed(
    account: SnowflakeAccount, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path, "warehouse", "snowflake") == 0
    said = capsys.readouterr().out
    assert 'CREATE DATABASE IF NOT EXISTS "LAKE"' in said
    assert 'DESCRIBE CATALOG INTEGRATION "LAKE_CATALOG"' in said
    assert SECRET not in said
    assert account.statements() == []


def test_the_script_is_executed(
    account: SnowflakeAccount, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path, "warehouse", "snowflake", "--apply") == 0
    assert "4 statements were executed in Snowflake." in capsys.readouterr().out
    # A change of `refresh` reaches a table that is there.
    call(tmp_path, "sync")
    account.statements()
    assert call(tmp_path, "warehouse", "snowflake", "--apply") == 0
    assert (
        'ALTER ICEBERG TABLE "LAKE"."SILVER_SHOP"."ORDERS" SET AUTO_REFRESH = FALSE' in account.statements()
    )
    with account.changed() as state:
        login, *_ = state["connections"]
    assert login == {
        "account": "xy12345",
        "password": SECRET,
        "application": "lake_assets",
        **PATIENCE,
    }


def test_a_statement_that_is_refused_is_named(
    account: SnowflakeAccount, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    account.fail(**{"EXTERNAL VOLUME": f"Insufficient privileges for {SECRET}"})
    assert call(tmp_path, "warehouse", "snowflake", "--apply") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert 'Snowflake refuses CREATE EXTERNAL VOLUME IF NOT EXISTS "LAKE_FILES"' in said
    assert "Insufficient privileges for ***" in said


def test_sync_refreshes_and_status_shows_what_is_late(
    account: SnowflakeAccount, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path, "status") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"snowflake: {ORDERS} lacks commits since" in said
    assert "Snowflake does not have it yet" in said
    account.fail(connect=f"Incorrect username or password {SECRET}")
    call(tmp_path, "sync")
    said = " ".join(capsys.readouterr().err.split())
    assert "snowflake: Snowflake: Incorrect username or password ***" in said
    account.fail(connect=None)
    assert call(tmp_path, "sync") == 0
    assert "1 table created in Snowflake." in capsys.readouterr().err
    assert call(tmp_path, "status") == 0


@pytest.mark.parametrize(
    ("engine", "parts"),
    [
        ("athena", ['SELECT * FROM "awsdatacatalog"."silver_shop"."orders" LIMIT 10;', "glue:GetTable"]),
        ("redshift", ['CREATE EXTERNAL SCHEMA IF NOT EXISTS "silver_shop" FROM DATA CATALOG DATABASE']),
        ("databricks", ["TYPE glue OPTIONS (aws_region 'us-east-1', aws_account_id '123456789012'"]),
        (
            "trino",
            ["iceberg.catalog.type=glue", "hive.metastore.glue.region=us-east-1", "fs.native-s3.enabled"],
        ),
        ("duckdb", ["ATTACH '123456789012' AS lake (TYPE iceberg, ENDPOINT_TYPE 'glue');"]),
    ],
)
def test_what_other_engines_need(
    account: SnowflakeAccount,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    engine: str,
    parts: list[str],
) -> None:
    assert call(tmp_path, "warehouse", engine) == 0
    said = capsys.readouterr().out
    for part in parts:
        assert part in said
    assert "arn:aws:glue:us-east-1:123456789012:database/silver_shop" in said or engine == "duckdb"
    assert "arn:aws:s3:::lake/warehouse/*" in said
    assert "format version is 3" not in said


def test_what_an_engine_cannot_read_is_named(tmp_path: Path) -> None:
    lake = small_lake(tmp_path)
    said = statements_of(lake, "trino")
    assert "trino cannot read these tables, whose format version is 3" in said
    assert "silver_shop.items" in said


def test_no_password_of_the_catalog_is_printed(tmp_path: Path) -> None:
    uri = "https://lake:s3cr3tpass@catalog.example/api?token=s3cr3tpass"
    lake = small_lake(tmp_path)
    catalog = CatalogConfig.model_validate({"type": "rest", "uri": uri, "warehouse": "s3://lake/w"})
    changed = open_lake(lake.config.model_copy(update={"catalog": catalog}))
    said = "\n".join(_trino(changed))
    assert "iceberg.rest-catalog.uri=https://catalog.example/api" in said
    assert "s3cr3tpass" not in said


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        ("athena", "athena reads a catalog of type glue, and that of this lake is sqlite"),
        ("oracle", "nothing to set up for oracle; known are athena, databricks, duckdb, redshift, snowflake"),
    ],
)
def test_an_engine_that_cannot_read_the_lake(tmp_path: Path, engine: str, reason: str) -> None:
    with pytest.raises(LakeError, match=reason):
        statements_of(small_lake(tmp_path), engine)


def test_without_a_connection_nothing_is_executed(endpoint: str, tmp_path: Path) -> None:
    lake = lake_of(raw(endpoint, "lake", tmp_path, connect={}), tmp_path)
    with pytest.raises(LakeError, match="connect is missing"):
        apply_setup(lake)


def test_the_connector_is_named_where_it_is_missing(
    endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "snowflake.connector", None)
    lake_of(raw(endpoint, "lake", tmp_path), tmp_path)
    assert call(tmp_path, "warehouse", "snowflake", "--apply") == 1
    assert "install lake_assets[snowflake]" in " ".join(capsys.readouterr().err.split())


def test_the_connector_knows_what_it_is_given() -> None:
    from snowflake.connector.connection import DEFAULT_CONFIGURATION

    assert {*PATIENCE, "application", "account", "user", "private_key_file", "role", "warehouse"} <= {
        *DEFAULT_CONFIGURATION
    }

"""The check of silver against a real PostgreSQL, whose rows the DMS files have.

Here: one table at rest, damaged, and in motion. Not here: the other checks (`test_data_checks.py`).
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from pyspark.sql import SparkSession

from lake_assets.checks.data_check import Outcome
from lake_assets.checks.source_rules import equals_source
from lake_assets.config import S3Config, SourceConfig
from lake_assets.lake import open_lake
from lake_assets_tests.helpers.oracles.masks import MASKING
from lake_assets_tests.helpers.orchestration.dagster_shop import QUIET, STOPS, Shop, open_shop
from lake_assets_tests.helpers.reconcile.restored import restorer
from lake_assets_tests.helpers.servers.postgresql import Login, psycopg_engine
from lake_assets_tests.helpers.servers.secrets import Secret, secrets_config

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 200
TABLE: dict[str, Any] = {
    "columns": {"id": "long not null", "name": "string", "at": "timestamptz"},
    "primary_key": ["id"],
    **STOPS,
}


@pytest.fixture
def source(postgresql: str) -> Iterator[sa.Engine]:
    """A database with 200 sales."""
    engine = psycopg_engine(postgresql)
    statements = [
        "DROP SCHEMA IF EXISTS shop CASCADE",
        "CREATE SCHEMA shop",
        "CREATE TABLE shop.sales (id bigint PRIMARY KEY, name varchar(20), at timestamptz)",
        f"INSERT INTO shop.sales SELECT n, 'n' || n, '2026-03-01 10:00:00Z' FROM generate_series(1, {ROWS}) n",
    ]
    execute(engine, *statements)
    yield engine
    execute(engine, "DROP SCHEMA shop CASCADE")
    engine.dispose()


def execute(engine: sa.Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


@pytest.fixture(scope="module")
def made(
    spark: SparkSession, postgresql: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], Shop]:
    shop = landed(tmp_path_factory.mktemp("shop"), postgresql, TABLE)
    shop.instance.dispose()
    return restorer(shop)


@pytest.fixture
def shop(made: Callable[[], Shop], source: sa.Engine) -> Iterator[Shop]:
    """A lake with the rows of the source."""
    shop = made()
    yield shop
    shop.instance.dispose()


def landed(folder: Path, database: str, table: dict[str, Any]) -> Shop:
    shop = open_shop(
        folder,
        marts=(),
        tables={"shop.sales": table},
        source={"database": database},
        checks={"source_patience": "0s"},
        **MASKING,
    )
    land(shop, range(1, ROWS + 1))
    shop.apply()
    return shop


def land(shop: Shop, ids: Any) -> None:
    path = Path(shop.change("sales", list(ids)))
    (shop.folder / "bronze/shop/sales").mkdir(parents=True, exist_ok=True)
    (shop.folder / "bronze" / path).rename(shop.folder / "bronze/shop/sales" / path.name)


def evaluate(shop: Shop, sleep: Callable[[float], None] = lambda seconds: None) -> Outcome:
    (target,) = shop.lake.targets
    return equals_source(target, sleep)(shop.lake.runtime, ())


def write(shop: Shop, statement: str) -> None:
    table = f"{shop.lake.config.catalog.name}.silver_shop.sales"
    shop.lake.runtime.sessions.root().sql(statement.format(table=table))


def test_the_same_rows_in_dagster(shop: Shop) -> None:
    job = shop.definitions.get_repository_def().get_job("checks")
    run = job.execute_in_process(instance=shop.instance, run_config=QUIET)
    (found,) = [e for e in run.get_asset_check_evaluations() if e.check_name == "equals_source"]
    assert found.passed
    assert found.metadata["slices_equal"].value == 51
    assert found.asset_key == dg.AssetKey(["silver", "shop", "sales"])
    (columns,) = [e for e in run.get_asset_check_evaluations() if e.check_name == "same_columns"]
    assert (columns.passed, columns.metadata["columns_at_source"].value) == (True, 3)


@pytest.mark.parametrize(
    ("statement", "difference"),
    [
        ("UPDATE {table} SET name = 'longer' WHERE id = 77", "id 76 to 79: length(name) differs"),
        (
            "UPDATE {table} SET name = NULL WHERE id = 77",
            "id 76 to 79: count(name) differs: 4 in the source, 3 in silver",
        ),
        ("UPDATE {table} SET at = at + INTERVAL 1 SECOND WHERE id = 77", "id 76 to 79: max(at) differs"),
        (
            "DELETE FROM {table} WHERE id >= 196",
            "id 196 to 199: count(*) differs: 4 in the source, 0 in silver",
        ),
        ("UPDATE {table} SET id = 178 WHERE id = 77", "id 76 to 79: sum(id) differs"),
    ],
)
def test_rows_that_differ(shop: Shop, statement: str, difference: str) -> None:
    write(shop, statement)
    found = evaluate(shop)
    assert not found.passed
    assert difference in found.figures["differences"].splitlines()
    assert found.figures["slices_equal"] == 51 - found.figures["slices_different"]


@pytest.mark.parametrize(
    ("statement", "difference"),
    [
        ("ADD COLUMN fare numeric(10, 2)", "fare: decimal(10, 2) at the source, not in the contract"),
        ("DROP COLUMN name", "name: string in the contract, not at the source"),
        ("RENAME COLUMN name TO title", "name: string in the contract, not at the source"),
        ("ALTER COLUMN at TYPE date", "at: date at the source, timestamptz in the contract"),
        ("ALTER COLUMN id TYPE numeric(25, 0)", "id: decimal(25, 0) at the source, long in the contract"),
        ("DROP CONSTRAINT sales_pkey", "primary key: none at the source, id in the contract"),
    ],
)
def test_columns_that_drift(shop: Shop, source: sa.Engine, statement: str, difference: str) -> None:
    (check,) = [check for check in shop.lake.checks if check.name == "same_columns"]
    found = check.evaluate(shop.lake.runtime)
    assert (found.passed, found.state) == (True, "3 columns are those of shop.sales.")
    execute(source, f"ALTER TABLE shop.sales {statement}")
    found = check.evaluate(shop.lake.runtime)
    assert not found.passed
    assert difference in found.figures["differences"].splitlines()


def test_columns_that_may_differ(shop: Shop, source: sa.Engine) -> None:
    """A narrower type at the source, and another length of a text."""
    (check,) = [check for check in shop.lake.checks if check.name == "same_columns"]
    execute(
        source,
        "ALTER TABLE shop.sales ALTER COLUMN id TYPE integer",
        "ALTER TABLE shop.sales ALTER COLUMN name TYPE text",
    )
    assert check.evaluate(shop.lake.runtime).passed
    execute(source, "DROP TABLE shop.sales")
    assert "The source has no table shop.sales" in check.evaluate(shop.lake.runtime).state


@pytest.mark.parametrize(
    "mask",
    [{"id": "hash", "name": "redact"}, pytest.param({"name": "hash", "at": None}, marks=pytest.mark.long)],
)
def test_masked_columns_are_counted(
    spark: SparkSession, source: sa.Engine, postgresql: str, tmp_path: Path, mask: dict[str, str | None]
) -> None:
    columns = TABLE["columns"] | {"id": "string not null" if "id" in mask else "long not null"}
    shop = landed(tmp_path, postgresql, TABLE | {"columns": columns, "mask": mask})
    assert evaluate(shop).passed
    write(shop, "UPDATE {table} SET name = NULL WHERE name = (SELECT max(name) FROM {table})")
    found = evaluate(shop)
    assert not found.passed
    assert "count(name) differs" in found.figures["differences"]


def test_a_part_of_the_rows(spark: SparkSession, source: sa.Engine, postgresql: str, tmp_path: Path) -> None:
    """The filters of the task's mapping let DMS read a part of the table only."""
    filtered = """"name" LIKE 'n%' AND "at" <> '2026-12-31 10:00:00Z' OR "name" = ' :x'  -- the mapping's"""
    shop = landed(tmp_path, postgresql, TABLE | {"source_filter": filtered})
    others = f"SELECT n, 'm' || n, now() FROM generate_series({ROWS + 1}, {ROWS + 9}) n"
    execute(source, f"INSERT INTO shop.sales {others}")
    found = evaluate(shop)
    assert (found.passed, found.state) == (
        True,
        f"51 slices of keys equal the rows of shop.sales with {filtered} in the source.",
    )
    execute(source, "UPDATE shop.sales SET name = 'm' WHERE id = 8")
    found = evaluate(shop)
    assert (
        found.figures["differences"]
        .splitlines()[0]
        .startswith("id 8 to 11: count(*) differs: 3 in the source, 4")
    )
    assert "such a row may be in silver without meeting source_filter" in found.state


def test_a_change_that_is_on_its_way(shop: Shop, source: sa.Engine) -> None:
    execute(source, f"INSERT INTO shop.sales VALUES ({ROWS + 1}, 'n{ROWS + 1}', '2026-03-01 10:00:00Z')")
    assert not evaluate(shop).passed

    def arrive(seconds: float) -> None:
        if shop.files != 2:
            land(shop, [ROWS + 1])
            shop.apply()

    assert evaluate(shop, arrive) == Outcome(
        True,
        "51 slices of keys equal shop.sales in the source.",
        {"slices_equal": 51, "slices_different": 0, "slices_moving": 0},
    )


def test_a_source_that_does_not_rest(shop: Shop, source: sa.Engine) -> None:
    write(shop, "UPDATE {table} SET name = 'other' WHERE id = 8")

    def sell(seconds: float) -> None:
        execute(source, "UPDATE shop.sales SET name = name || 'x' WHERE id = 150")

    sell(0)
    found = evaluate(shop, sell)
    assert found.figures["slices_moving"] == 1
    assert found.figures["slices_different"] == 1
    assert found.figures["differences"].startswith("id 8 to 11: length(name)")


def test_a_password_that_is_rotated(shop: Shop, s3: S3Config, postgresql: str) -> None:
    """Without a restart, and before the time to live of the former one has ended."""
    login = Login(postgresql, "first-pass/word")
    secret = Secret(s3, {"password": "first-pass/word"})
    source = {
        **shop.lake.config.sources["shop"].model_dump(exclude_unset=True),
        "database": login.address(f"${{secret:{secret.name}:password}}"),
    }
    config = shop.lake.config.model_copy(
        update={
            "sources": {"shop": SourceConfig.model_validate(source)},
            "secrets": secrets_config(s3),
        }
    )
    lake = open_lake(config, marts=())
    (check,) = [check for check in lake.checks if check.name == "equals_source"]
    assert check.evaluate(lake.runtime).passed
    login.rotate("second-word")
    refused = check.evaluate(lake.runtime)
    assert not refused.passed
    assert "password authentication failed" in refused.state
    secret.rotate({"password": "second-word"})
    assert check.evaluate(lake.runtime).passed
    secret.rotate({"password": "third-word"})
    login.rotate("fourth-word")
    refused = check.evaluate(lake.runtime)
    for password in ("first-pass", "second-word", "third-word"):
        assert password not in f"{refused} {lake.config!r} {lake.runtime.lake}"


def test_a_database_that_refuses_shows_no_secret(shop: Shop) -> None:
    config = shop.lake.config
    wrong = "postgresql://owner:w0ng-secret@/postgres?host=/nowhere"
    damaged = config.sources["shop"].model_copy(update={"database": SecretStr(wrong)})
    shop.lake.runtime.lake = config.model_copy(update={"sources": {"shop": damaged}})
    (check,) = [check for check in shop.lake.checks if check.name == "equals_source"]
    found = check.evaluate(shop.lake.runtime)
    assert not found.passed
    assert "The database cannot be read" in found.state
    assert "w0ng-secret" not in found.state
    assert "w0ng-secret" not in repr(shop.lake.runtime.lake)

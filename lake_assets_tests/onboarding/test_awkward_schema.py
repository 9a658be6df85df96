"""A PostgreSQL schema of awkward names through `init`, `validate` and `sync`, as a stranger calls them.

Here: that each table of the source arrives with its values. Not here: what is written for single types and tables
(`reflection/`).
"""

import csv
import io
import re
from collections.abc import Callable
from datetime import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lake_assets.cli import app
from lake_assets.config.config_file import load_lake
from lake_assets.lake import open_lake
from lake_assets_tests.helpers.lakes.guide_project import spark_section
from lake_assets_tests.helpers.servers.postgresql import psycopg_engine

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ODD = """
CREATE TABLE odd ("Id" int, id int, "_pos" int, "Op" text, "op" text, at time, PRIMARY KEY ("Id", "_pos"));
INSERT INTO odd VALUES (1, 10, 100, 'x', 'y', '12:30:00.123456'), (1, 20, 200, 'D', NULL, '23:59:59.5');
"""
AWKWARD = f"""
{ODD}
CREATE SCHEMA sys; CREATE SCHEMA guest; CREATE SCHEMA db_app; CREATE SCHEMA pgbench;
CREATE TABLE sys.t (id int PRIMARY KEY, v text); CREATE TABLE guest.t (id int PRIMARY KEY, v text);
CREATE TABLE db_app.t (id int PRIMARY KEY, v text); CREATE TABLE pgbench.accounts (id int PRIMARY KEY);
CREATE TABLE "FOO" (id int PRIMARY KEY, v text); CREATE TABLE "Foo" (id int PRIMARY KEY, v text);
CREATE TABLE foo (id int PRIMARY KEY, v text);
CREATE TABLE "a-b" (id int PRIMARY KEY); CREATE TABLE "a b" (id int PRIMARY KEY); CREATE TABLE a_b (id int PRIMARY KEY);
CREATE TABLE "日本" (id int PRIMARY KEY, "名" text); CREATE TABLE "東京" (id int PRIMARY KEY, "名" text);
INSERT INTO sys.t VALUES (1, 'sys'); INSERT INTO guest.t VALUES (1, 'guest'); INSERT INTO db_app.t VALUES (1, 'app');
INSERT INTO pgbench.accounts VALUES (7);
INSERT INTO "FOO" VALUES (1, 'FOO'); INSERT INTO "Foo" VALUES (1, 'Foo'); INSERT INTO foo VALUES (1, 'foo');
INSERT INTO "a-b" VALUES (1); INSERT INTO "a b" VALUES (2); INSERT INTO a_b VALUES (3);
INSERT INTO "日本" VALUES (1, '国'); INSERT INTO "東京" VALUES (1, '都');
"""
NAMES = {
    "db_app.t": "db_app_t",
    "guest.t": "guest_t",
    "pgbench.accounts": "accounts",
    "public.FOO": "foo_2",
    "public.Foo": "foo_3",
    "public.a b": "a_b_2",
    "public.a-b": "a_b_3",
    "public.a_b": "a_b",
    "public.foo": "foo",
    "public.odd": "odd",
    "public.日本": "u65e5u672c",
    "public.東京": "u6771u4eac",
    "sys.t": "sys_t",
}


def call(*arguments: str) -> str:
    """`lake-assets`, which must succeed; what it prints."""
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def land(folder: Path, engine: sa.Engine, table: str, header: bool) -> list[tuple[Any, ...]]:
    """Writes the table's rows as DMS does. Returns them."""
    schema, name = table.split(".")
    with engine.connect() as connection:
        found = connection.exec_driver_sql(f'SELECT * FROM "{schema}"."{name}"')
        columns, rows = list(found.keys()), [tuple(row) for row in found]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow(["Op", *columns])
    writer.writerows(["I", *("NULL" if value is None else value for value in row)] for row in rows)
    path = folder / "bronze" / schema / name / "LOAD00000001.csv"
    path.parent.mkdir(parents=True)
    path.write_text(text.getvalue(), encoding="utf-8")
    # Silver's times are texts with six decimals.
    return [tuple(v.isoformat("microseconds") if isinstance(v, time) else v for v in row) for row in rows]


def initialized(folder: Path, name: str, *arguments: str, header: bool) -> None:
    """Calls `init` for the source in LAKE_SOURCE_URL, and decides what it leaves open."""
    printed = call("init", "--source", "shop", "--location", "bronze", *arguments)
    assert "left out" in printed or arguments
    text = (folder / "lake.yaml").read_text(encoding="utf-8")
    text = re.sub("lob_mode: undecided.*", "lob_mode: none", text)
    text = text.replace("include_op_for_full_load: false", "include_op_for_full_load: true")
    text = text.replace("add_column_name: false", f"add_column_name: {str(header).lower()}")
    conf = yaml.safe_dump(spark_section(), default_flow_style=True)
    text = re.sub(r"(?s)\nspark:.*?\n\n", f"\nspark: {conf}\n", text)
    text = text.replace("name: lake\n", f"name: {name}\n")
    text = text.replace("        columns:\n", "        full_load_complete: immediately\n        columns:\n")
    (folder / "lake.yaml").write_text(text, encoding="utf-8")


def in_silver(name: str) -> list[tuple[Any, ...]]:
    found = open_lake(load_lake()).runtime.catalog.load_table(f"silver_shop.{name}").scan().to_arrow()
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=str)


@pytest.mark.long
def test_every_table_arrives_under_a_name_of_its_own(
    spark: SparkSession,
    new_database: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = new_database(AWKWARD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKE_SOURCE_URL", address.replace("postgresql://", "postgres://"))
    initialized(tmp_path, "lake_awkward", header=False)
    tables = load_lake().sources["shop"].tables
    assert {name: t.name or name.split(".")[1].lower() for name, t in tables.items()} == NAMES

    engine = psycopg_engine(address)
    expected = {name: land(tmp_path, engine, name, header=False) for name in tables}
    engine.dispose()
    assert "13 tables" in call("validate")
    call("sync", "--no-gold")
    for name, rows in expected.items():
        assert in_silver(NAMES[name]) == sorted(rows, key=str), name


def test_names_that_silver_cannot_have_in_a_header(
    spark: SparkSession,
    new_database: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The header has `Op` twice: DMS's own comes first."""
    address = new_database(f"CREATE SCHEMA other; SET search_path = other; {ODD}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKE_SOURCE_URL", address)
    initialized(tmp_path, "lake_header", "--schema", "other", header=True)
    engine = psycopg_engine(address)
    rows = land(tmp_path, engine, "other.odd", header=True)
    engine.dispose()
    call("sync", "--no-gold")
    assert in_silver("odd") == sorted(rows, key=str)
    table = load_lake().sources["shop"].tables["other.odd"]
    assert [column.name for column in table.columns] == ["id_2", "id", "pos", "op_2", "op", "at"]
    assert table.primary_key == ("id_2", "pos")

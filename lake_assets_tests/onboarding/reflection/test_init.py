"""`lake-assets init` on a real PostgreSQL server.

Here: database to file, and that the file loads. Not here: other sources' oddities (`test_lake_yaml_text.py`), single
types (`test_types.py`).
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from lake_assets import cli
from lake_assets.commands.run.warm_spark import warm_spark
from lake_assets.config import Mode
from lake_assets.config.config_file import ConfigError, load_lake
from lake_assets.onboarding.lake_yaml_text import table_lines
from lake_assets.storage.reflection.reflect import read_tables
from lake_assets_tests.helpers.lakes.command_lake import call_init
from lake_assets_tests.helpers.processes.child import ROOT

DECIDABLE = """
CREATE TYPE mood AS ENUM ('fine', 'so so');
CREATE DOMAIN price AS numeric(8, 2) CHECK (VALUE > 0);
CREATE TABLE everything (
    id bigint, small smallint NOT NULL, whole integer, amount numeric(38, 10), wide numeric(40, 2), cash money,
    nearly real, twice double precision, flag boolean NOT NULL, code char(4), name varchar(20), note text, raw bytea,
    born date, wakes time(3), local timestamp(3), instant timestamptz, lasts interval, feels mood, cost price,
    one uuid, doc json, docs jsonb, list integer[], net inet, bits bit(3), doc_x xml, spot point, words tsvector,
    "Odd: name # of" text, "true" int, "$" text, PRIMARY KEY (small, id)
);
CREATE TABLE "Mixed Case" (id int PRIMARY KEY);
COMMENT ON COLUMN everything.amount IS 'What it ${cost}: "net", in
''EUR'' # not cents';
COMMENT ON COLUMN everything."true" IS 'no';
CREATE TABLE awsdms_status (id int PRIMARY KEY);
CREATE VIEW seen AS SELECT id FROM everything;
CREATE SCHEMA archive;
CREATE TABLE archive.everything ("${HOME}" int PRIMARY KEY);
"""

EVERYTHING = {
    "id": "long not null",
    "small": "int not null",
    "whole": "int",
    "amount": "decimal(38, 10)",
    "wide": "string",
    "cash": "decimal(38, 4)",
    "nearly": "float",
    "twice": "double",
    "flag": "boolean not null",
    "code": "string",
    "name": "string",
    "note": "string",
    "raw": "binary",
    "born": "date",
    "wakes": "time",
    "local": "timestamp",
    "instant": "timestamptz",
    "lasts": "string",
    "feels": "string",
    "cost": "decimal(8, 2)",
    "one": "uuid",
    "doc": "json",
    "docs": "json",
    "list": "string",
    "net": "string",
    "bits": "string",
    "doc_x": "string",
    "spot": "string",
    "words": "string",
    "Odd: name # of": "string",
    "true": "int",
    "$": "string",
}

UNDECIDABLE = """
CREATE TABLE ledger (
    id int PRIMARY KEY, amount numeric NOT NULL, at time with time zone,
    double_id int GENERATED ALWAYS AS (id * 2) STORED, span tstzrange
);
CREATE TABLE events (at timestamptz NOT NULL, what text NOT NULL UNIQUE, more text UNIQUE);
"""


def for_editors(folder: Path) -> None:
    """The first line names the schema beside the file, which takes the file and refuses a mistake."""
    text = (folder / "lake.yaml").read_text(encoding="utf-8")
    named = re.match(r"# yaml-language-server: \$schema=(.+)\n", text)
    assert named is not None
    schema = Draft202012Validator(json.loads((folder / named[1]).read_text(encoding="utf-8")))
    written = yaml.safe_load(text)
    assert not list(schema.iter_errors(written))
    assert list(schema.iter_errors(written | {"sparks": {}}))


def test_a_real_table_to_a_lake_that_loads(
    new_database: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = new_database(DECIDABLE)
    arguments = ("--from-database", address, "--source", "shop", "--location", "bronze")
    assert call_init(tmp_path, *arguments, monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr()
    assert "lake.yaml: 3 tables, 34 columns of PostgreSQL" in printed.out
    assert printed.err.splitlines()[:3] == [
        "left out: the schemas information_schema, pg_catalog, pg_toast, which PostgreSQL itself makes",
        "left out: public.awsdms_status, which DMS itself makes",
        "left out: 1 view, whose changes DMS does not see: public.seen",
    ]
    assert "to decide: lob_mode: DMS cuts or leaves out LOBs, as 9 columns may have them" in printed.err
    for name in ("workspace.yaml", "dagster.yaml"):
        assert (tmp_path / name).read_bytes() == (ROOT / name).read_bytes()

    written = (tmp_path / "lake.yaml").read_text(encoding="utf-8")
    assert "lob_mode: undecided" in written
    decided = re.sub("lob_mode: undecided.*", "lob_mode: none", written)
    (tmp_path / "lake.yaml").write_text(decided, encoding="utf-8")
    lake = load_lake(tmp_path / "lake.yaml")
    source = lake.sources["shop"]
    assert source.location == str(tmp_path / "bronze")
    assert list(source.tables) == ["archive.everything", "public.Mixed Case", "public.everything"]
    table = source.tables["public.everything"]
    declared = {c.name: c.type + (" not null" if c.required else "") for c in table.columns}
    assert list(declared.items()) == list(EVERYTHING.items())
    assert table.primary_key == ("small", "id")
    assert table.comments == {"amount": """What it ${cost}: "net", in 'EUR' # not cents""", "true": "no"}
    assert table.mode is Mode.CURRENT
    assert source.tables["archive.everything"].primary_key == ("${HOME}",)
    assert [t.name for t in source.tables.values()] == [
        "archive_everything",
        "mixed_case",
        "public_everything",
    ]

    monkeypatch.setattr(sys, "argv", ["lake-assets", "validate"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    assert "1 source, 3 tables" in capsys.readouterr().out
    for_editors(tmp_path)
    assert warm_spark(tmp_path / "lake.yaml")[0] is not None, "`dev` starts a server for it"
    monkeypatch.setenv("LAKE_SPARK_MODE", "connect")  # as `lake-assets dev` sets it
    assert load_lake(tmp_path / "lake.yaml").spark.mode == "connect"

    only = ("--from-database", address, "--schema", "archive", "--output", "-")
    assert call_init(tmp_path, *only, monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr()
    assert "archive.everything" in printed.out
    assert "public" not in printed.out
    assert "location: ${DMS_LOCATION}" in printed.out


def test_what_takes_a_human_is_refused_by_its_place(
    new_database: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = new_database(UNDECIDABLE)
    arguments = ("--from-database", address, "--location", "bronze")
    assert call_init(tmp_path, *arguments, monkeypatch=monkeypatch) == 0
    told = capsys.readouterr().err
    for place in ("ledger.amount: numeric without", "ledger.at: time with", "ledger.double_id: computed"):
        assert f"to decide: public.{place}" in told
    assert "to decide: public.events: no primary key: declare primary_key instead of mode" in told

    with pytest.raises(ConfigError) as refused:
        load_lake(tmp_path / "lake.yaml")
    text = str(refused.value)
    written = (tmp_path / "lake.yaml").read_text(encoding="utf-8")
    lines = {
        name: 1 + written[: written.index(f" {name}: undecided")].count("\n") for name in ("at", "double_id")
    }
    assert "columns.at: is undecided: time with time zone: DMS writes a time without its offset" in text
    assert f"(line {lines['at']})" in text
    assert "columns.double_id: is undecided: computed by the source" in text
    assert f"(line {lines['double_id']})" in text
    assert "columns.amount: is undecided: numeric without digits" in text
    assert 'tables["public.events"].mode: is undecided: no primary key: declare primary_key' in text
    assert "dms.lob_mode: is undecided: DMS cuts or leaves out LOBs" in text
    assert "columns.span" not in text

    assert "amount: undecided not null" in written
    assert "span: string  # tstzrange: DMS streams types" in written
    assert "primary_key: [what]" in written
    assert "primary_key: [more]" not in written
    assert "append_log (inserts only)" in written
    # Decided, it is a lake.
    for column, kind in {"amount": "decimal(28, 6)", "at": "time", "double_id": "int"}.items():
        written = written.replace(f" {column}: undecided", f" {column}: {kind}")
    written = re.sub("lob_mode: .*", "lob_mode: none", written)
    written = written.replace("mode: undecided", "mode: append_log")
    (tmp_path / "lake.yaml").write_text(written, encoding="utf-8")
    source = load_lake(tmp_path / "lake.yaml").sources["source"]
    assert source.tables["public.events"].mode is Mode.APPEND_LOG
    (amount,) = [c for c in source.tables["public.ledger"].columns if c.name == "amount"]
    assert (amount.type, amount.required) == ("decimal(28, 6)", True)


def test_only_the_engines_own_schemas_are_left_out(
    new_database: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = ["cdc", "db_app", "db_owner", "guest", "mysql", "pgbench", "sys"]
    address = new_database(
        "".join(f"CREATE SCHEMA {name}; CREATE TABLE {name}.t (id int PRIMARY KEY);" for name in own)
    )
    assert [table.schema for table in read_tables(address).tables] == own
    assert [table.schema for table in read_tables(address, ["sys", "cdc"]).tables] == ["sys", "cdc"]
    arguments = ("--from-database", address, "--schema", "sys", "--schema", "db_ap")
    assert call_init(tmp_path, *arguments, monkeypatch=monkeypatch) == 1
    told = capsys.readouterr().err
    assert (
        "The database has no schema db_ap that its user can see; did you mean db_app? It has cdc, db_app"
        in told
    )
    assert not (tmp_path / "lake.yaml").exists()


def test_one_decision_for_a_type(
    new_database: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = new_database(
        "CREATE TYPE place AS (street text, town text);"
        "CREATE TABLE a (id int PRIMARY KEY, n numeric, m numeric NOT NULL, at timetz);"
        "CREATE TABLE b (id int PRIMARY KEY, n numeric, m numeric NOT NULL, home place, homes place[]);"
        "CREATE TABLE c (id int PRIMARY KEY, n numeric)"
    )
    arguments = ("--from-database", address, "--location", "bronze")
    assert call_init(tmp_path, *arguments, monkeypatch=monkeypatch) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("to decide: ")]
    assert len(told) == 4
    assert "to decide: public.a.n (and 2 more columns of the type): numeric without digits" in "\n".join(told)
    with pytest.raises(ConfigError) as refused:
        load_lake(tmp_path / "lake.yaml")
    assert len(refused.value.mistakes) == 4
    (numeric,) = [text for text in refused.value.mistakes if 'a"].columns.n' in text]
    written = (tmp_path / "lake.yaml").read_text(encoding="utf-8")
    line = 1 + written[: written.index("&numeric undecided")].count("\n")
    assert numeric.endswith(f"(line {line}, which decides 2 more)")
    assert "numeric without digits: DMS writes numeric(28, 6)" in numeric
    assert "home: string  # place, a composite type: DMS writes text" in written

    written = written.replace("&numeric undecided", "&numeric decimal(28, 6)")
    written = written.replace("&numeric_not_null undecided", "&numeric_not_null string")
    written = re.sub("lob_mode: .*", "lob_mode: none", written).replace("at: undecided", "at: time")
    (tmp_path / "lake.yaml").write_text(written, encoding="utf-8")
    tables = load_lake(tmp_path / "lake.yaml").sources["source"].tables
    declared = {(n, c.name): (c.type, c.required) for n, t in tables.items() for c in t.columns}
    assert {declared["public.a", "n"], declared["public.b", "n"], declared["public.c", "n"]} == {
        ("decimal(28, 6)", False)
    }
    assert {declared["public.a", "m"], declared["public.b", "m"]} == {("string", True)}


def test_advice_by_what_the_source_logs(new_database: Callable[[str], str]) -> None:
    address = new_database(
        "CREATE TABLE a_plain (a int NOT NULL, b text); CREATE UNIQUE INDEX ON a_plain (a);"
        "CREATE TABLE b_full (a int NOT NULL); ALTER TABLE b_full REPLICA IDENTITY FULL;"
        "CREATE TABLE c_lobs (a int, b text); ALTER TABLE c_lobs REPLICA IDENTITY FULL;"
        "CREATE TABLE d_index (a int NOT NULL, b int NOT NULL); CREATE UNIQUE INDEX d ON d_index (b, a);"
        "ALTER TABLE d_index REPLICA IDENTITY USING INDEX d;"
        "CREATE TABLE e_nothing (a int PRIMARY KEY); ALTER TABLE e_nothing REPLICA IDENTITY NOTHING;"
        "CREATE UNLOGGED TABLE f_unlogged (a int PRIMARY KEY);"
        "CREATE TABLE g_parent (a int PRIMARY KEY); CREATE TABLE h_child (c int) INHERITS (g_parent);"
        "CREATE TABLE i_partial (a int NOT NULL, b int NOT NULL, c int);"
        "CREATE UNIQUE INDEX ON i_partial (a) WHERE b > 0; CREATE UNIQUE INDEX ON i_partial (lower(a::text));"
        "CREATE UNIQUE INDEX ON i_partial (c);"
        "CREATE TABLE j_large (k text PRIMARY KEY, a text NOT NULL, b json, c jsonb, d bytea, e varchar(2001),"
        "f varchar, g varchar(2000), h int);"
    )
    text = "\n".join(table_lines(read_tables(address).tables))
    of = {part.partition(":")[0]: part for part in text.split("      public.")[1:]}
    assert "primary_key: [a]" in of["a_plain"]
    assert "DMS writes its inserts, and neither updates nor" in of["a_plain"]
    assert "full_row" not in of["a_plain"]
    assert "choose append_log (inserts only), full_row (with before images of all columns) or" in of["b_full"]
    assert "choose append_log (inserts only) or change_log" in of["c_lobs"]
    assert "primary_key: [b, a]" in of["d_index"]
    assert "mode: undecided" not in of["d_index"]
    assert "writes inserts only" in of["e_nothing"]
    assert "never a change" in of["f_unlogged"]
    assert "Inherits from public.g_parent" in of["h_child"]
    assert "primary_key: [" not in of["i_partial"]
    assert "  # kept_when_null: [a, b, c, d, e, f]  # if updates that leave these" in of["j_large"]
    assert "kept_when_null: [b]" in of["a_plain"]
    assert "kept_when_null" not in of["c_lobs"]

"""Partitioned tables of a real PostgreSQL server in the file that `init` writes.

Here: which of the tables are declared, and the globs of the others. Not here: applying files of partitions.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lake_assets.cli import app
from lake_assets.config.config_file import load_lake
from lake_assets.onboarding.partitions import globs, joined
from lake_assets.storage.reflection.reflect import read_tables
from lake_assets_tests.helpers.texts.dms_documents import SEQUENCE, endpoint, select, task

PARTITIONED = """
CREATE SCHEMA old;
CREATE TABLE sales (id bigint, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE sales_2024 PARTITION OF sales FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE sales_2025 PARTITION OF sales FOR VALUES FROM ('2025-01-01') TO ('2026-01-01') PARTITION BY LIST (id);
CREATE TABLE sales_2025_a PARTITION OF sales_2025 DEFAULT;
CREATE TABLE old.sales_2001 PARTITION OF sales FOR VALUES FROM ('2001-01-01') TO ('2002-01-01');
CREATE TABLE sales_report (id int PRIMARY KEY);
CREATE TABLE events (id int PRIMARY KEY) PARTITION BY HASH (id);
CREATE TABLE events_0 PARTITION OF events FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE events_1 PARTITION OF events FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent);
"""


def test_a_partitioned_table_has_the_folders_of_its_partitions(new_database: Callable[[str], str]) -> None:
    """Inheriting tables and those of another schema stay tables."""
    tables = joined(read_tables(new_database(PARTITIONED)).tables)
    assert {f"{table.schema}.{table.name}": (table.folders, table.partitions) for table in tables} == {
        "old.sales_2001": ((), ()),
        "public.child": ((), ()),
        "public.events": (("events_*",), ("events_0", "events_1")),
        "public.parent": ((), ()),
        "public.sales": (("sales_202*",), ("sales_2024", "sales_2025", "sales_2025_a")),
        "public.sales_report": ((), ()),
    }


@pytest.mark.parametrize(
    ("partitions", "others", "expected"),
    [
        (["t_1", "t_2"], ["t", "u"], ("t_*",)),
        (["t1", "t2"], ["t", "u"], ("t1", "t2")),
        (["sales1", "sales2"], ["sales"], ("sales*",)),
        (["t_1", "t_2"], ["t", "t_3"], ("t_1", "t_2")),
        (["p_2025", "p_2026"], ["t", "p_1"], ("p_202*",)),
        (["a[1]", "b*"], ["t"], ("a[[]1]", "b[*]")),
    ],
)
def test_globs_match_no_other_table(
    partitions: list[str], others: list[str], expected: tuple[str, ...]
) -> None:
    assert globs("sales" if "sales" in others else "t", partitions, others) == expected


@pytest.mark.parametrize("selected", [["sales%"], ["sales[_]%"], ["sales[_]2024", "sales[_]2025%"]])
def test_the_mapping_may_select_the_partitions_only(
    new_database: Callable[[str], str], tmp_path: Path, selected: list[str]
) -> None:
    address = new_database(PARTITIONED)
    rules = [
        *(select("public", pattern) for pattern in selected),
        select("public", "sales[_]report", "exclude"),
    ]
    for name, document in {"e": endpoint(), "t": task(*rules, SEQUENCE)}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    output = tmp_path / "lake.yaml"
    arguments = ["init", "--from-database", address, "--output", str(output), "--endpoint"]
    done = CliRunner().invoke(app, [*arguments, str(tmp_path / "e.json"), str(tmp_path / "t.json")])
    assert done.exit_code == 0, done.output
    assert "to decide" not in done.output
    text = output.read_text(encoding="utf-8")
    output.write_text(text.replace("lob_mode: limited", "lob_mode: limited\n      longest_lob: 1"))
    (source,) = load_lake(output).sources.values()
    assert list(source.tables) == ["public.sales"]
    table = source.tables["public.sales"]
    assert table.primary_key == ("id", "day")
    assert table.folders == ("sales_*",)

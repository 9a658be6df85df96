"""`lake-assets new`: what it adds to a user's project, and that it works there at once.

Here: the text of lake.yaml, the scaffolded mart, its test, its rows. Not here: reading a database's tables
(`onboarding/reflection/test_init.py`).
"""

import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lake_assets.cli import app
from lake_assets.commands.setup.new import add_mart
from lake_assets.commands.setup.validate import check
from lake_assets.config.config_file import load_lake
from lake_assets.errors import LakeError
from lake_assets.lake import open_lake
from lake_assets.onboarding.yaml_insert import with_entry
from lake_assets_tests.helpers.lakes.guide_project import spark_section
from lake_assets_tests.helpers.lakes.small_lakes import write_file
from lake_assets_tests.helpers.processes.child import environment

LAKE = """\
# The shop's lake.
catalog: {uri: catalog.db, warehouse: warehouse, name: NAME}   # on this machine
spark: SPARK
sources:
  shop:
    location: bronze
    dms: {add_column_name: true, include_op_for_full_load: true, timestamp_column_name: commit_ts}
    tables:
      public.orders:
        primary_key: [id]
        full_load_complete: immediately
        columns:
          id: long not null
          ordered_at: timestamptz not null   # UTC
      public.kinds:
        primary_key: [id]
        full_load_complete: immediately
        columns: {id: long not null, name: string}
      # The rest of the tables is not needed.
gold:
  start_date: 2026-03-01
"""
ROWS = ["1,2026-03-01 08:00:00", "2,2026-03-01 23:59:59", "3,2026-03-02 00:00:00"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a lake.yaml and the files of its tables."""
    text = LAKE.replace("NAME", f"lake_{tmp_path.name[-8:].strip('_')}".replace("-", "_")).replace(
        "SPARK", str(spark_section())
    )
    (tmp_path / "lake.yaml").write_text(text)
    orders = [f"I,2026-03-03 00:00:00,{row}" for row in ROWS]
    write_file(tmp_path, "public/orders/LOAD00000001.csv", ["Op,commit_ts,id,ordered_at", *orders])
    kinds = [f"I,2026-03-03 00:00:00,{n},name" for n in range(5)]
    write_file(tmp_path, "public/kinds/LOAD00000001.csv", ["Op,commit_ts,id,name", *kinds])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: str) -> str:
    """`lake-assets`, which must succeed; what it prints."""
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


# Text, keys, entry; `+` marks the lines that the entry adds.
PLACES = {
    "a list, before the comment that follows it": ("a", "- y", "a:\n  - x  # one\n+  - y\n# next\nb: 1"),
    "a list that is not indented": ("a", "- y", "a:\n- x\n+- y\nb: 1"),
    "a mapping with nested values": ("a", "l: 3", "a:\n    k:\n      - [1,\n       2]\n+    l: 3\n\nb: 1"),
    "a block of text": ("a", "l: 3", "a:\n  k: |\n    one\n    two\n+  l: 3\nb: 1"),
    "after comments further inside": ("a", "m: 2", "a:\n  k:\n    l: 1\n    # n: 2\n+  m: 2\n  # o: 3\nb: 1"),
    "a missing key": ("a.m", "- y", "a:\n  k: 1\n+  m:\n+    - y\nb: 1"),
    "missing keys": ("a.m", "- y", "b: 1\n+a:\n+  m:\n+    - y"),
}


@pytest.mark.parametrize("line_break", ["", "\n"])
@pytest.mark.parametrize("case", PLACES)
def test_an_entry_is_added_and_nothing_else_changes(case: str, line_break: str) -> None:
    keys, entry, marked = PLACES[case]
    before = "\n".join(line for line in marked.split("\n") if not line.startswith("+"))
    expected = "\n".join(line.removeprefix("+") for line in marked.split("\n")) + "\n"
    assert with_entry(before + line_break, keys.split("."), [entry]) == expected
    assert yaml.safe_load(expected)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("a: []  # none\nb: 1\n", "a: [y]  # none\nb: 1\n"),
        ("a: [x]\n", "a: [x, y]\n"),
        ("b: {a: [x], c: 1}\n", "b: {a: [x, y], c: 1}\n"),
        ("a: [\n  x,\n]\n", "a: [\n  x,\ny]\n"),
    ],
)
def test_a_list_in_brackets_gets_the_entry(before: str, expected: str) -> None:
    keys = ["b", "a"] if before.startswith("b") else ["a"]
    assert with_entry(before, keys, ["- y"]) == expected
    assert yaml.safe_load(expected)


@pytest.mark.parametrize("text", ["a: {}\n", "a:\nb: 1\n"])
def test_a_place_in_brackets_is_left_to_the_user(text: str) -> None:
    with pytest.raises(LakeError, match="add this there by hand"):
        with_entry(text, ["a"], ["- y"])


@pytest.mark.spark
@pytest.mark.slow
def test_new_marts_pass_their_tests_and_are_computed(spark: SparkSession, project: Path) -> None:
    printed = call("new", "mart", "orders_daily", "--table", "orders")
    assert str(project / "marts/orders_daily.py") in printed.replace("\n", "")
    call("new", "mart", "kinds_now", "--table", "public.kinds")
    assert "# The rest of the tables is not needed.\ngold:\n" in (project / "lake.yaml").read_text()
    call("validate")
    assert "2 passed" in outcome_of_tests(project)
    call("sync")
    catalog = open_lake(load_lake()).runtime.catalog
    by_day = catalog.load_table("gold.orders_daily").scan().to_arrow().to_pylist()
    assert {row["day"].isoformat(): row["rows"] for row in by_day} == {"2026-03-01": 2, "2026-03-02": 1}
    assert catalog.load_table("gold.kinds_now").scan().to_arrow().to_pylist() == [{"rows": 5}]


def outcome_of_tests(project: Path) -> str:
    """What pytest prints of the project's tests."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def passes(test: Path) -> bool:
    """Whether the test of a declaration passes; in this process, which has imported the package."""
    try:
        runpy.run_path(str(test))["test_the_declaration"]()
    except AssertionError:
        return False
    return True


def uncommented(project: Path) -> None:
    """Removes the # of the lines that `new` wrote, as a user does."""
    text = (project / "lake.yaml").read_text()
    text = re.sub(
        r"(?m)^( *)# (?!The)(.*)$", r"\1\2", text.replace("id: undecided not null", "id: int not null")
    )
    (project / "lake.yaml").write_text(text)


def test_a_new_table_and_a_new_source_await_their_columns(project: Path) -> None:
    """As a comment, because every command refuses a lake.yaml that has something undecided."""
    printed = call("new", "source", "crm", "--location", "bronze_crm", "--table", "sales.People")
    test = project / "tests/test_crm.py"
    assert str(test) in printed.replace("\n", "")
    assert "crm is there as a comment" in printed.replace("\n", " ")
    assert "to decide: sales.People.id: list all columns of the table" in printed
    assert list(load_lake().sources) == ["shop"]
    assert not passes(test)
    uncommented(project)
    lake = load_lake()
    assert lake.sources["crm"].tables["sales.People"].primary_key == ("id",)
    assert lake.sources["crm"].location == str(project / "bronze_crm")
    assert passes(test)
    assert call("new", "table", "public.items", "--source", "shop").count("to decide") == 1
    assert "public.items" not in load_lake().sources["shop"].tables
    assert (project / "tests/test_public_items.py").exists()
    uncommented(project)
    assert "public.items" in load_lake().sources["shop"].tables


def test_a_test_that_is_there_blocks_no_table(project: Path) -> None:
    (project / "tests").mkdir()
    (project / "tests/test_public_items.py").write_text("kept")
    call("new", "table", "public.items")
    assert (project / "tests/test_public_items.py").read_text() == "kept"
    assert "public.items" in (project / "tests/test_public_items_2.py").read_text()
    call("new", "table", "public.items")
    assert len(list((project / "tests").iterdir())) == 2


@pytest.mark.parametrize(
    ("name", "columns", "expected"),
    [
        ("public.Orders", "id int PRIMARY KEY", "public_orders"),
        ("public.order-s", "id int PRIMARY KEY", "order_s"),
        ("public.東京", "id int PRIMARY KEY", "u6771u4eac"),
        ('public."_pos"', '"_pos" int PRIMARY KEY, "Id" int, id int', "_pos"),
    ],
)
def test_a_table_that_is_added_is_a_table_of_the_lake(
    new_database: Callable[[str], str], project: Path, name: str, columns: str, expected: str
) -> None:
    schema, _, table = name.replace('"', "").partition(".")
    address = new_database(f'CREATE TABLE {schema}."{table}" ({columns})')
    printed = call("new", "table", f"{schema}.{table}", "--from-database", address)
    assert f"{schema}.{table} is added" in printed
    config = load_lake().sources["shop"].tables[f"{schema}.{table}"]
    assert (config.name or table) == expected


def test_an_entry_that_does_not_validate_is_not_written(project: Path) -> None:
    text = (project / "lake.yaml").read_text().replace("primary_key: [id]", "primary_key: [id, id]", 1)
    lake = open_lake(load_lake())
    (project / "lake.yaml").write_text(text)
    with pytest.raises(
        LakeError, match=r"Nothing is written, because lake.yaml would not be valid:\nsources.shop"
    ):
        add_mart(Path("lake.yaml"), lake, "m", "orders")
    assert (project / "lake.yaml").read_text() == text
    assert sorted(path.name for path in project.iterdir()) == ["bronze", "lake.yaml"]


def test_the_test_of_a_table_reads_its_newest_files(project: Path) -> None:
    lake = yaml.safe_load((project / "lake.yaml").read_text())
    kinds = lake["sources"]["shop"]["tables"].pop("public.kinds")
    (project / "lake.yaml").write_text(yaml.safe_dump(lake))
    call("new", "table", "public.kinds")
    test = project / "tests/test_public_kinds.py"
    assert not passes(test)
    lake = yaml.safe_load((project / "lake.yaml").read_text())
    lake["sources"]["shop"]["tables"]["public.kinds"] = kinds
    (project / "lake.yaml").write_text(yaml.safe_dump(lake))
    assert passes(test)
    header = "Op,commit_ts,name"
    write_file(project, "public/kinds/20260303-000000000.csv", [header, "I,2026-03-03 00:00:00,a"])
    assert not passes(test)
    ((keys, said),) = check(open_lake(load_lake())).mistakes
    assert keys[-1] == "public.kinds"
    assert "id" in said


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["mart", "Orders-Daily", "--table", "orders"], "must be lower case letters"),
        (["mart", "m", "--table", "order"], "no table order; it has orders, kinds"),
        (["mart", "taken", "--table", "orders"], "taken.py exists and is not overwritten"),
        (["table", "orders"], "The table orders is not schema.table"),
        (["table", "public.orders"], "has public.orders already"),
        (["table", "public.x", "--source", "shops"], "no source shops; it has shop"),
        (["source", "shop", "--table", "a.b"], "has a source shop already"),
        (["source", "crm"], "name one with --table"),
    ],
)
def test_what_cannot_be_added_changes_nothing(project: Path, arguments: list[str], problem: str) -> None:
    (project / "marts").mkdir()
    (project / "marts/taken.py").write_text("kept")
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    with pytest.raises(LakeError, match=problem):
        call("new", *arguments)
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before

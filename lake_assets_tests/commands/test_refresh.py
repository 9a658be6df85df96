"""`lake-assets init --refresh`: lake.yaml follows the tables of a real PostgreSQL, and keeps its comments.

Here: the differences and the edited text. Not here: how a table follows its files without an edit
(`silver/test_columns_from_source.py`).
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lake_assets.cli import app
from lake_assets.config.config_file import load_lake
from lake_assets.errors import LakeError
from lake_assets.onboarding.yaml_columns import Edit, with_edits

LAKE = """\
# The shop's lake.
catalog: {uri: catalog.db, warehouse: warehouse}
sources:
  shop:
    location: bronze
    database: ${SHOP}
    dms: {add_column_name: true, include_op_for_full_load: true, timestamp_column_name: commit_ts}
    include: [more.yaml]
    tables:
      public.orders:
        primary_key: [id]
        renamed_from: {total: sum}
        columns:
          id: long not null   # the number
          total: "decimal(10, 2) not null"  # in EUR
          state: string
          # When it was sent.
          sent: date
        # after the columns
      public.same:
        primary_key: [id]
        columns: {id: long not null}
      public.free:
        columns: from_database
      public.gone:
        primary_key: [id]
        columns: {id: long not null}
gold:
  start_date: 2026-03-01
"""
MORE = """\
public.kinds:
  primary_key: [id]
  columns: {id: int not null, name: string, old: string}   # kinds
public.bare:
  primary_key: [id]
  dms: {add_column_name: false}
  columns: {id: long not null}
"""
SOURCE = """
CREATE TABLE public.orders (id bigint PRIMARY KEY, note text, sum numeric(12, 2), sent timestamp, range numrange,
                            amount numeric);
CREATE TABLE public.same (id bigint PRIMARY KEY);
CREATE TABLE public.free (id bigint PRIMARY KEY, name text);
CREATE TABLE public.bare (id bigint PRIMARY KEY, name text);
CREATE TABLE public.kinds (first boolean, id bigint PRIMARY KEY, name text, price numeric(5, 2));
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_database: Callable[[str], str]) -> Path:
    (tmp_path / "lake.yaml").write_text(LAKE)
    (tmp_path / "more.yaml").write_text(MORE)
    monkeypatch.setenv("SHOP", new_database(SOURCE))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, arguments)
    if isinstance(done.exception, LakeError):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.output


def test_it_shows_and_writes_the_differences(project: Path) -> None:
    shown = call("init", "--refresh", "--output", "-")
    assert (project / "lake.yaml").read_text() == LAKE, "it is shown only"
    printed = call("init", "--refresh")
    assert printed.startswith(shown)
    assert shown.splitlines() == [
        "public.orders: add column note as string",
        "public.orders: change column total as decimal(12, 2)",
        "public.orders: add column range as string",
        "public.kinds: add column first as boolean",
        "public.kinds: change column id as long not null",
        "public.kinds: add column price as decimal(5, 2)",
        *(
            f"left to you: {text}"
            for text in [
                "public.orders: column sent is timestamp at the source, and date here",
                next(line for line in shown.splitlines() if "amount" in line).removeprefix("left to you: "),
                "public.orders: the source has no column state",
                "public.gone: the source has no such table, or its user may not read it",
                "public.kinds: the source has no column old",
                "public.bare: its columns differ in 1 place; the first file with another number of fields changes the "
                "table by itself",
            ]
        ),
    ]
    assert (project / "lake.yaml").read_text() == LAKE.replace(
        """\
          id: long not null   # the number
          total: "decimal(10, 2) not null"  # in EUR
          state: string
          # When it was sent.
          sent: date
""",
        """\
          id: long not null   # the number
          note: string
          total: "decimal(12, 2)"  # in EUR
          state: string
          # When it was sent.
          sent: date
          range: string
""",
    )
    kinds = '{first: boolean, id: long not null, name: string, price: "decimal(5, 2)", old: string}   # kinds'
    assert kinds in (project / "more.yaml").read_text()
    assert [
        column.name
        for column in load_lake(project / "lake.yaml").sources["shop"].tables["public.kinds"].columns
    ]
    assert "add column" not in call("init", "--refresh")


def test_nothing_is_written_if_lake_yaml_would_not_be_valid(project: Path) -> None:
    text = LAKE.replace("timestamp_column_name: commit_ts", "timestamp_column_name: note")
    (project / "lake.yaml").write_text(text)
    with pytest.raises(
        LakeError, match=r"(?s)Nothing is written.*column note has the name of a column that DMS adds"
    ):
        call("init", "--refresh")
    assert (project / "lake.yaml").read_text() == text
    assert (project / "more.yaml").read_text() == MORE


@pytest.mark.parametrize(
    "given",
    [("--source", "shop"), ("--schema", "public"), ("--output", "new.yaml"), ("--from-database", "x://y")],
)
def test_what_belongs_to_a_new_file_is_refused(project: Path, given: tuple[str, str]) -> None:
    """It would have no effect."""
    said = call("init", "--refresh", *given, code=2)
    assert given[0] in said
    assert "does not go with --refresh" in said
    assert (project / "lake.yaml").read_text() == LAKE


def test_windows_line_ends_stay(project: Path) -> None:
    (project / "lake.yaml").write_text(LAKE, newline="\r\n")
    call("init", "--refresh")
    written = (project / "lake.yaml").read_bytes()
    assert b"note: string\r\n" in written
    assert written.count(b"\n") == written.count(b"\r\n")


def test_without_a_database(project: Path) -> None:
    free = "      public.free:\n        columns: from_database\n"
    (project / "lake.yaml").write_text(LAKE.replace("    database: ${SHOP}\n", "").replace(free, ""))
    with pytest.raises(LakeError, match=r"No source of lake\.yaml has a database"):
        call("init", "--refresh")
    assert "--from-database" in call("init", code=2)


@pytest.mark.parametrize(
    ("text", "edits", "wanted"),
    [
        ("c: {a: int}", [Edit("add", "b", "long", after="a")], "c: {a: int, b: long}"),
        ("c: {a: int}", [Edit("add", "b", "long")], "c: {b: long, a: int}"),
        ('c: {a: "decimal(1, 0)"}', [Edit("change", "a", "decimal(2, 0)")], 'c: {a: "decimal(2, 0)"}'),
        (
            "c:\n  a: int  # one\nd: 1\n",
            [Edit("add", "b", "int", after="a")],
            "c:\n  a: int  # one\n  b: int\nd: 1\n",
        ),
        ("c:\n  a: int", [Edit("add", "b", "int", after="a")], "c:\n  a: int\n  b: int"),
        (
            "c:\n  a: int\n",
            [Edit("add", "b", "int"), Edit("add", "no", "int", after="b")],
            'c:\n  b: int\n  "no": int\n  a: int\n',
        ),
    ],
)
def test_the_text(text: str, edits: list[Edit], wanted: str) -> None:
    assert with_edits(text, ["c"], edits) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "x: {a: &key int}\nb: {a: int}\nc: {d: int, a: *key}",
        "x: &cols {a: int}\nc: *cols",
        "x: &cols\n  a: int\nc: *cols",
        "x: &cols {a: int}\nc:\n  <<: *cols\n  b: int",
        "c: from_elsewhere",
        "d: 1",
    ],
)
def test_references_are_left_to_the_user(text: str) -> None:
    with pytest.raises(LakeError, match="edit it by hand"):
        with_edits(text, ["c"], [Edit("add", "new", "int", after="a"), Edit("change", "a", "long")])

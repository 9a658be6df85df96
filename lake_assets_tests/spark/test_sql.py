"""Names and texts as SQL, and that the package writes SQL in no other way."""

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import lake_assets
from lake_assets.config import parse_column
from lake_assets.iceberg.table_io import column_ddl, partition_ddl
from lake_assets.spark.sql import Sql, joined, literal, quoted, sql, sql_of_frames, table_address

PACKAGE = Path(lake_assets.__file__).parent
STATEMENTS = (
    "SELECT ", "DELETE FROM", "ALTER ", "UPDATE ", "CREATE ", "CALL ", "ADD COLUMN", "DROP COLUMN", "RENAME COLUMN",
    "SET TBLPROPERTIES", "VERSION AS OF", "INSERT ", "MERGE ",
)  # fmt: skip


def test_a_name_stays_one_name() -> None:
    assert quoted("x` int, `y") == "`x`` int, ``y`"
    assert quoted("lake", "a.b") == "`lake`.`a.b`"
    assert table_address("lake", "silver_shop.items") == "`lake`.`silver_shop`.`items`"


def test_a_text_stays_one_text() -> None:
    assert literal("it's a \\ b") == r"'it\'s a \\ b'"
    assert literal("${env:HOME}") == r"'\u0024{env:HOME}'", "a variable is a text"


def test_pieces_of_a_statement() -> None:
    condition = sql("{column} = {value}", column="a`b", value=literal("x"))
    assert isinstance(condition, Sql)
    both = joined(" AND ", [condition, sql("{c} < {n}", c=quoted("t", "c"), n=3)])
    assert sql("DELETE FROM {table} WHERE {both}", table="t", both=both) == (
        "DELETE FROM `t` WHERE `a``b` = 'x' AND `t`.`c` < 3"
    )
    assert sql("{given}", given="{other}") == "`{other}`", "a name is no template"


def test_a_statement_of_frames_keeps_the_braces_of_names() -> None:
    found = sql_of_frames("{column} IN (SELECT {column} FROM {keys})", ["keys"], column="a{b}")
    assert found.format(keys="k") == "`a{b}` IN (SELECT `a{b}` FROM k)"


def test_columns_and_partitions() -> None:
    assert column_ddl(parse_column("x` int, `y", "long not null")) == "`x`` int, ``y` bigint NOT NULL"
    found = [
        partition_ddl(entry)
        for entry in ("day(at)", "hour(at)", "bucket(16, id)", "truncate(4,name)", "kind")
    ]
    assert found == ["days(`at`)", "hours(`at`)", "bucket(16, `id`)", "truncate(4, `name`)", "`kind`"]


# --- the package


def by_hand(source: str) -> Iterator[int]:
    """The lines on which a piece of SQL is put together in another way than by `lake_assets.spark.sql`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr) and _is_sql(node):
            yield node.lineno
        if isinstance(node, ast.Call) and node.args and not _by_pieces(node, node.args[0]):
            yield node.lineno


def _is_sql(text: ast.JoinedStr) -> bool:
    pieces = [str(piece.value) if isinstance(piece, ast.Constant) else None for piece in text.values]
    quotes = any(piece and piece.endswith("`") and after is None for piece, after in pairwise(pieces))
    return quotes or any(
        piece.startswith(STATEMENTS) or "VERSION AS OF" in piece for piece in pieces if piece is not None
    )


def _by_pieces(call: ast.Call, argument: ast.expr) -> bool:
    """Whether a call that takes SQL gets a constant template, or SQL that is made already."""
    if isinstance(call.func, ast.Name):
        if call.func.id == "sql":
            return isinstance(argument, ast.Constant | ast.Name)
        return call.func.id != "Sql" or not isinstance(argument, ast.JoinedStr | ast.BinOp)
    name = getattr(call.func, "attr", "")
    if name in ("sql", "expr", "selectExpr"):
        return not isinstance(argument, ast.Constant | ast.JoinedStr | ast.BinOp)
    return name not in ("filter", "where") or not isinstance(argument, ast.JoinedStr)


@pytest.mark.parametrize(
    "line",
    [
        "spark.sql(f'ALTER TABLE {t} DROP COLUMN {c}')",
        "spark.sql('DROP TABLE t')",
        "spark.sql('DELETE FROM ' + table)",
        "F.col(f'`{name}`')",
        "F.expr(f'{a} = {b}')",
        "frame.filter(f'{name} IS NULL')",
        "text = f'SELECT {c} FROM t'",
        "Sql(f'{name} int')",
        "sql(f'{name} = 1')",
    ],
)
def test_sql_that_is_written_by_hand_is_found(line: str) -> None:
    assert list(by_hand(line))


def test_the_package_writes_no_sql_by_hand() -> None:
    """But for the demonstration's source, a SQLite database with tables of its own, for Markdown, and for statements of
    other engines, which quote otherwise (`outputs/test_snowflake_statements.py`)."""
    own = [PACKAGE / "spark" / "sql.py", PACKAGE / "reference.py", *(PACKAGE / "demo").rglob("*.py")]
    own += [PACKAGE / "outputs" / "snowflake" / "statements.py", PACKAGE / "outputs" / "reader_statements.py"]
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path not in own
        for line in by_hand(path.read_text(encoding="utf-8"))
    ]
    assert found == []

"""SQL text. The only place where a statement is put together, and where a name is quoted.

A column of a source may have any name, one with a backtick included. Here: names, literals and templates as SQL. Not
here: running it. Pure.
"""

from collections.abc import Iterable


class Sql(str):
    """A piece of SQL: its names are quoted, its texts are escaped."""

    __slots__ = ()


def quoted(*parts: str) -> Sql:
    """An identifier of these parts, also for `F.col` and the like: ``lake`.`silver_shop`.`items``."""
    return Sql(".".join("`" + part.replace("`", "``") + "`" for part in parts))


def table_address(catalog: str, identifier: str) -> Sql:
    """A table of the catalog in Spark; `identifier` is `namespace.table`."""
    return quoted(catalog, *identifier.split("."))


def literal(text: str) -> Sql:
    """A text as a literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    # Spark would put a variable in its place, in a session that replaces them: see `session.py`.
    escaped = escaped.replace("${", "\\u0024{")
    return Sql(f"'{escaped}'")


def joined(separator: str, pieces: Iterable[Sql]) -> Sql:
    """The pieces with the separator between them."""
    return Sql(separator.join(pieces))


def sql(template: str, **pieces: str | int) -> Sql:
    """The template, a constant, with each `{name}` replaced by a piece: a text as a quoted identifier, SQL and whole
    numbers as they are."""
    return Sql(template.format(**{name: _piece(piece) for name, piece in pieces.items()}))


def sql_of_frames(template: str, frames: Iterable[str], **pieces: str | int) -> Sql:
    """As `sql`, for a statement that `spark.sql` gets with DataFrames of these names."""
    escaped = {
        name: Sql(_piece(piece).replace("{", "{{").replace("}", "}}")) for name, piece in pieces.items()
    }
    return sql(template, **escaped, **{name: Sql(f"{{{name}}}") for name in frames})


def _piece(piece: str | int) -> str:
    return piece if isinstance(piece, Sql) else str(piece) if isinstance(piece, int) else quoted(piece)

"""A mart that is a `.sql` file: a header comment with its declarations, and the query of its rows.

Here: reading and checking such a file, and running its query. Not here: finding the marts of lake.yaml (`registry.py`).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ValidationError, create_model

from lake_assets.config import Model
from lake_assets.config.base import Keys
from lake_assets.config.columns import Columns
from lake_assets.config.config_file import mistakes_of
from lake_assets.errors import LakeError
from lake_assets.gold.mart import Follow, Input, Mart, MartRequest
from lake_assets.gold.periods.grain import Grain
from lake_assets.spark.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from sqlglot.expressions import Query, Table

HEADER = re.compile(r"\s*/\*(.*?)\*/", re.DOTALL)
PARTITIONS = ("first_day", "last_day", "start", "end")
SILVER = "silver_"

Problem = tuple[int, str]
"""A line of the file, counted from 1, and what is wrong."""
Names = Annotated[
    tuple[str, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)
]

Followed = Literal["day", "day_onwards", "partition", "partition_onwards"]


class Header(Model):
    """The declarations of a mart in the header of its `.sql` file; see the fields of `Mart`."""

    description: str
    columns: Columns
    follow: dict[str, dict[Followed, Names]] = {}  # noqa: RUF012  (a field)
    """By table, the columns that the mart's partitions follow. Other tables concern every partition."""
    settings: dict[str, bool | int | float | str] = {}  # noqa: RUF012  (a field)
    """The keys of `gold.settings` that are parameters of the query, with their defaults."""
    partition_column: str | None = "day"
    partitions: Grain = Grain.DAY
    at_cut: bool = False
    key: Names = ()
    with_silver: bool = True
    days_per_run: int | None = None
    recompute_on_new_code: bool = False
    comments: dict[str, str] = {}  # noqa: RUF012  (a field)
    preview: bool = True
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = {}  # noqa: RUF012  (a field)


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """The `compute` of a mart in SQL."""

    file: str
    text: str
    """The file as it is."""
    template: str
    """The query, with the field `{table_0}` in place of the first of the `tables`, and so on."""
    tables: tuple[str, ...]
    """The tables that the query reads. The mart's inputs have the same names."""
    parameters: tuple[str, ...]
    settings: type[BaseModel]

    def __call__(self, request: MartRequest) -> "DataFrame":
        """The rows of the query. Raises LakeError for a query that Spark refuses."""
        from pyspark.errors import AnalysisException

        given = {
            **self.settings.model_validate(request.settings).model_dump(),
            "first_day": request.first_day,
            "last_day": request.last_day,
            "now": request.now,
        }
        if request.first_day is not None:
            given["start"], given["end"] = request.window
        frames = {f"table_{n}": request.inputs[table] for n, table in enumerate(self.tables)}
        arguments = {name: given[name] for name in self.parameters}
        try:
            rows = frames["table_0"].sparkSession.sql(self.template, arguments, **frames)
            _ = rows.columns  # Spark Connect's client does not ask the server before
        except AnalysisException as error:
            reason = str(error).strip().splitlines()[0]
            raise LakeError(f"{self.file}: Spark refuses the query: {reason}") from error
        return rows


def sql_mart(file: str) -> Mart:
    """The mart of a `.sql` file, named like the file. Raises OSError, and LakeError with every mistake and its line."""
    text = Path(file).read_text(encoding="utf-8-sig")
    found = HEADER.match(text)
    if found is None:
        raise _refusal(file, [(1, "must begin with a comment /* … */ that declares description and columns")])
    header = _header(file, found[1], line=1 + text.count("\n", 0, found.start(1)))
    # Spark counts lines in the query alone.
    query = "\n" * text.count("\n", 0, found.end()) + text[found.end() :]
    tree = _parsed(file, query)
    references = _references(tree)
    if problems := [*_table_problems(text, references, header), *_query_problems(query, tree, header)]:
        raise _refusal(file, problems)
    tables = tuple(dict.fromkeys(map(_identifier, references)))
    fields: dict[str, Any] = {name: (type(value), value) for name, value in header.settings.items()}
    settings = create_model("Settings", **fields)
    compute = SqlQuery(
        file, text, _template(query, references, tables), tables, tuple(_parameters(tree)), settings
    )
    return Mart(
        name=Path(file).stem,
        inputs={table: _rules(table, header) for table in tables},
        compute=compute,
        settings=settings,
        **{name: getattr(header, name) for name in Header.model_fields if name not in ("follow", "settings")},
    )


def _refusal(file: str, problems: Sequence[Problem]) -> LakeError:
    return LakeError("\n".join(f"{file}, line {line}: {text}" for line, text in sorted(problems)))


def _header(file: str, text: str, line: int) -> Header:
    """The header, whose text begins on the line."""
    try:
        content, node = yaml.safe_load(text), yaml.compose(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark.line if error.problem_mark is not None else 0
        raise _refusal(file, [(line + mark, f"the header is not YAML: {error.problem}")]) from None
    if not isinstance(content, dict):
        raise _refusal(file, [(line, "the header must be YAML with the keys description and columns")])
    try:
        return Header.model_validate(content)
    except ValidationError as error:
        problems = [
            (line + _line(node, keys), f"{'.'.join(map(str, keys))}: {text}")
            for keys, text in mistakes_of(error, content, Header)
        ]
    raise _refusal(file, problems)


def _line(node: yaml.Node | None, keys: Keys) -> int:
    """The line of the last of the keys that the YAML has, counted from 0."""
    line = 0
    for key in keys:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        found = next((pair for pair in pairs if pair[0].value == key), None)
        if found is None:
            break
        line, node = found[0].start_mark.line, found[1]
    return line


def _parsed(file: str, query: str) -> "Query":
    # Imported here, because it takes a tenth of a second.
    import sqlglot
    from sqlglot import errors, expressions

    try:
        trees = sqlglot.parse(query, dialect="spark")
    except errors.ParseError as error:
        first = error.errors[0]
        raise _refusal(file, [(first["line"], f"is not SQL near {first['highlight']!r}")]) from None
    except errors.TokenError:
        raise _refusal(file, [(1, "is not SQL: a quote or a comment has no end")]) from None
    found = [tree for tree in trees if tree is not None]
    if len(found) != 1 or not isinstance(found[0], expressions.Query):
        raise _refusal(file, [(1, "must have one statement after the header, a query")])
    return found[0]


def _references(tree: "Query") -> list["Table"]:
    """The places of the query that name a table, in the order of the text."""
    from sqlglot import expressions

    common = {table.alias.lower() for table in tree.find_all(expressions.CTE)}
    named = [
        table for table in tree.find_all(expressions.Table) if isinstance(table.this, expressions.Identifier)
    ]
    references = [table for table in named if table.db or table.name.lower() not in common]
    return sorted(references, key=lambda table: int(table.this.meta["start"]))


def _identifier(reference: "Table") -> str:
    return f"{reference.db}.{reference.name}".lower()


def _parameters(tree: "Query") -> list[str]:
    from sqlglot import expressions

    return sorted({str(place.this or "?") for place in tree.find_all(expressions.Placeholder)})


def _table_problems(text: str, references: Sequence["Table"], header: Header) -> Iterator[Problem]:
    for reference in references:
        if reference.catalog or not reference.db.lower().startswith(SILVER):
            name = ".".join(part.name for part in reference.parts)
            yield reference.this.meta["line"], f"{name} is no silver table; write silver_<source>.<table>"
    if not references:
        yield 1, "the query reads no silver table"
    for table in header.follow.keys() - set(map(_identifier, references)):
        yield _line_of(text, table), f"follow names {table}, which the query does not read"


def _query_problems(query: str, tree: "Query", header: Header) -> Iterator[Problem]:
    known = {"now", *header.settings, *(PARTITIONS if header.partition_column is not None else ())}
    for name in _parameters(tree):
        if name not in known:
            there = ", ".join(sorted(known))
            yield _line_of(query, f":{name}"), f":{name} is not a parameter; the parameters are {there}"
    selected, declared = tree.named_selects, [column.name for column in header.columns]
    if "*" not in selected and {name.lower() for name in selected} != {name.lower() for name in declared}:
        difference = f"the query selects {', '.join(selected)}, and columns declares {', '.join(declared)}"
        yield _line_of(query, query.split()[0]), difference


def _line_of(text: str, word: str) -> int:
    return 1 + text.count("\n", 0, text.find(word))


def _template(query: str, references: Sequence["Table"], tables: Sequence[str]) -> str:
    pieces, end = [], 0
    for reference in references:
        pieces.append(_literally(query[end : reference.args["db"].meta["start"]]))
        alias = "" if reference.alias else f" AS {quoted(reference.name)}"
        pieces.append(f"{{table_{tables.index(_identifier(reference))}}}{alias}")
        end = reference.this.meta["end"] + 1
    return "".join([*pieces, _literally(query[end:])])


def _literally(text: str) -> str:
    """The text for a template of `str.format`."""
    return text.replace("{", "{{").replace("}", "}}")


def _rules(table: str, header: Header) -> tuple[Input, ...] | Input:
    source, _, name = table.removeprefix(SILVER).partition(".")
    followed = header.follow.get(table, {})
    rules = [
        Input(source, name, Follow[kind.upper()], column)
        for kind, columns in followed.items()
        for column in columns
    ]
    return tuple(rules) or Input(source, name)

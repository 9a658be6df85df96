"""The name of a source table: its schema and its own name, and the one text for both.

Here: reading and writing that text. Not here: which tables lake.yaml has (`lake_config.py`). Pure.

The text is `schema.table`. A part that contains a dot, or begins with a quote, is quoted as in SQL, with its quotes
doubled: `public."billing.invoices"`. So each table has exactly one text, in `lake.yaml`, in commands, in messages and
in the lake's own tables.
"""

import re
from functools import lru_cache
from typing import NamedTuple

_PART = r'"(?:[^"]|"")*"|(?!")[^.]*'
_NAME = re.compile(rf"(?P<schema>{_PART})\.(?P<table>{_PART})")


class TableName(NamedTuple):
    """A table's schema and own name, in the source's spelling."""

    schema: str
    table: str

    @classmethod
    def parse(cls, text: str) -> "TableName":
        """The name that the text means. Raises ValueError for a text with more or fewer than two parts."""
        if (match := _NAME.fullmatch(text)) is None:
            raise ValueError(f"{text} is not schema.table")
        return cls(_unquoted(match["schema"]), _unquoted(match["table"]))

    def __str__(self) -> str:
        return table_text(self.schema, self.table)

    @property
    def prefix(self) -> str:
        """The beginning of the keys of the table's files, relative to its source's location."""
        return f"{self.schema}/{self.table}/"

    @property
    def silver(self) -> str:
        """The silver table's name, unless lake.yaml sets `name:`. Iceberg's catalogs take a dot as the end of a
        namespace."""
        return self.table.lower().replace(".", "_")


@lru_cache(maxsize=1 << 16)
def table_text(schema: str, table: str) -> str:
    """The text of a table's name."""
    return f"{_quoted(schema)}.{_quoted(table)}"


def is_called(name: str, given: str) -> bool:
    """Whether a user's text means the table of that name. A shell takes the quotes of an argument away."""
    return given in (name, name.replace('"', ""))


def table_mistake(name: str) -> str | None:
    """What is wrong with a name of a table in lake.yaml, as the end of a sentence; None if nothing is."""
    try:
        parsed = TableName.parse(name)
    except ValueError:
        parsed = TableName("", "")
    if not all(parsed):
        own = name.rpartition(".")[2]
        return f"is not schema.table, as in public.{own or 'trips'}" + (
            '; a name with a dot is quoted, as in public."billing.invoices"' if name.count(".") > 1 else ""
        )
    if str(parsed) != name:
        return f"is written {parsed}: only a name with a dot is quoted"
    return None


def _quoted(part: str) -> str:
    if "." not in part and not part.startswith('"'):
        return part
    doubled = part.replace('"', '""')
    return f'"{doubled}"'


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part

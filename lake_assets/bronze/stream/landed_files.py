"""The files that the changes of a stream land in: CSV with a header, as DMS itself would write them to S3.

Here: which rows are in one file, and its text. Not here: what a message says (`messages.py`), the log (`landing.py`).
Pure.

A row of a file has a field for each column of the header, so three things must differ in text: NULL, a value that the
message does not have, and an empty text. The rows of inserts and of full loads show which columns the source has. So
rows of another set of columns land in a file of their own; an update or a delete may lack some, and lands with the
columns that its table had last.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.stream.change_order import built_time, change_sequence, commit_time, time_of
from lake_assets.bronze.stream.messages import Change, Unreadable, Values
from lake_assets.config import LANDED, SourceConfig, StreamConfig, TableConfig, table_text

NULL, ABSENT = LANDED.csv_null_value, LANDED.csv_no_sup_value or ""
_LEADING = (LANDED.operation_column, LANDED.timestamp_column_name or "", LANDED.change_sequence_column or "")
_UNZONED = ("timestamp", "date")
"""Types whose values have no zone. DMS writes a Z behind them all the same."""

_SPECIAL = re.compile(r'[",\r\n]')

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file."""

    table: str
    """`schema.table`."""
    change: Change
    sequence: str
    """The change sequence; empty for a full load."""
    at: datetime | None
    """When it was committed, or for a full load when DMS built the message; UTC."""
    built: datetime | None
    """When DMS built the message, UTC."""

    @property
    def kind(self) -> FileKind:
        return FileKind.LOAD if self.change.is_load else FileKind.CDC


@dataclass(slots=True)
class LandedFile:
    """The rows of one file."""

    table: str
    kind: FileKind
    columns: Names
    before: Names
    rows: list[Row] = field(default_factory=list)


def row_of(change: Change, source: SourceConfig, stream: StreamConfig) -> Row:
    """The change as a row. Raises Unreadable if it has no order, a time that is none, or a value that a file cannot
    show."""
    table = table_text(change.metadata.schema_name, change.metadata.table_name)
    for values in (change.values, change.before):
        if marked := sorted(name for name, value in values.items() if value in (NULL, ABSENT)):
            raise Unreadable(f"the value of its {marked[0]} is one of the lake's own marks")
    built = built_time(change.metadata)
    if change.is_load:
        return Row(table, change, "", built, built)
    own = source.dms.change_sequence_column
    sequence = change_sequence(stream.engine, own, change)
    at = commit_time(change.metadata)
    if at is None and own is not None:
        at = time_of(sequence)
    return Row(table, change, sequence, at, built)


class Files:
    """Puts rows into files. Keeps the columns that each table had last, from one landing to the next."""

    def __init__(self, source: SourceConfig) -> None:
        self._source = source
        self._columns: dict[str, Names] = {}

    def of(self, rows: Iterable[Row]) -> list[LandedFile]:
        """The files of these rows, each row in one of them."""
        found: dict[tuple[str, FileKind, frozenset[str]], LandedFile] = {}
        for row in rows:
            names = self._names(row)
            file = found.get(key := (row.table, row.kind, frozenset(names)))
            if file is None:
                file = found[key] = LandedFile(row.table, row.kind, names, ())
            file.before += tuple(name for name in row.change.before if name not in file.before)
            file.rows.append(row)
        return [*found.values()]

    def _names(self, row: Row) -> Names:
        own = tuple(name for name in row.change.values if name != self._sequence_column)
        last = self._columns.get(row.table) or tuple(self._types(row.table))
        shows_all = row.change.operation == "I" and self._source.dms.include_null_and_empty
        if shows_all or not last:
            names = own
        else:
            names = last if {*own} <= {*last} else (*last, *(name for name in own if name not in last))
        if row.change.operation == "I":
            self._columns[row.table] = names
        return names

    @property
    def _sequence_column(self) -> str | None:
        return self._source.dms.change_sequence_column

    def text(self, file: LandedFile) -> str:
        """The file's text."""
        types = self._types(file.table)
        names = (*_LEADING, *file.columns, *(f"{LANDED.before_image_prefix}{name}" for name in file.before))
        lines = [names, *(self._fields(file, row, types) for row in file.rows)]
        return "".join(f"{','.join(map(_quoted, line))}\n" for line in lines)

    def _fields(self, file: LandedFile, row: Row, types: Mapping[str, str]) -> Sequence[str]:
        change = row.change
        # Of a deleted row, only the key counts. An insert that lacks a column has NULL there, if the endpoint leaves
        # NULL out.
        lacking = ABSENT if change.operation == "U" and self._source.dms.include_null_and_empty else NULL
        at = "" if row.at is None else f"{row.at:%Y-%m-%d %H:%M:%S.%f}"
        own = (self._text(change.values, name, types.get(name, ""), lacking) for name in file.columns)
        before = (self._text(change.before, name, types.get(name, ""), NULL) for name in file.before)
        return (change.operation, at, row.sequence, *own, *before)

    def _text(self, values: Values, name: str, declared: str, lacking: str) -> str:
        if name not in values:
            return lacking
        text = values[name]
        if text is None:
            return NULL
        if declared in _UNZONED:
            return text.removesuffix("Z")
        if declared == "binary" and not self._source.dms.no_hex_prefix:
            return text.removeprefix("0x")
        return text

    def _types(self, table: str) -> dict[str, str]:
        """By the source's name of each declared column, its type."""
        config: TableConfig | None = self._source.tables.get(table)
        if config is None:
            return {}
        return {config.renamed_from.get(c.name, c.name): c.type for c in config.columns}


def _quoted(text: str) -> str:
    """The field. Python's own writer leaves a carriage return without quotes."""
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text

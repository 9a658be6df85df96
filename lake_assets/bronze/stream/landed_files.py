"""The files that the changes of a stream land in: CSV with a header, as DMS itself would write them to S3.

Here: which rows are in one file, and its content. Not here: what a message says (`messages.py`), the log
(`landing.py`). Pure.

A row of a file has a field for each column of the header, so three things must differ in text: NULL, a value that the
message does not have, and an empty text. The rows of inserts and of full loads show which columns the source has. So
rows of another set of columns land in a file of their own; an update or a delete may lack some, and lands with the
columns that its table had last.
"""

import re
import zlib
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.streams.stream_positions import NOTHING_CREATED, Created, load_number
from lake_assets.bronze.stream.change_order import built_time, change_sequence, commit_time, time_of
from lake_assets.bronze.stream.messages import Change, Unreadable
from lake_assets.bronze.stream.table_definitions import Definition
from lake_assets.config import LANDED, SourceConfig, StreamConfig, TableConfig, table_text

NULL, ABSENT = LANDED.csv_null_value, LANDED.csv_no_sup_value or ""
_LEADING = (LANDED.operation_column, LANDED.timestamp_column_name or "", LANDED.change_sequence_column or "")
_LAKE_TYPES = {"timestamp[us]": "timestamp", "date32[day]": "date", "binary": "binary"}
"""By Arrow's name, the types whose spelling by DMS is not the lake's."""
_UNZONED = ("timestamp", "date")
"""Types whose values have no zone. DMS writes a Z behind them all the same."""

MOST_TEXT = 24 << 20
"""Bytes of the texts of a landing's files, about, which are in memory until they are written. Besides, a file that
needs the strict reader may not have more than 64 MiB."""
LONGEST_FOLDER = 255
"""Bytes of a folder's name on a disk."""
LONGEST_NAME, LONGEST_NAMES = 16_000, 250_000
"""Characters of a column's name, and of all names of a row: the header of a file has a limit of bytes."""
_AT_ONCE = 1000
"""Lines that are packed at a time."""
_MORE = f",{NULL}".encode()
_SPECIAL = re.compile(rb'[",\r\n]')

QUIET = timedelta(seconds=1)
"""DMS writes no change of a table for longer while it loads the table again, and no row of a load between two loads."""
MOST_SPELLS = 8
"""A reader that was away may find hours of a quiet table, of which not each change is to have a file of its own."""

Names = tuple[str, ...]
Load = tuple[int, int]
Spelled = Callable[[str], str]


class Row(NamedTuple):
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


class LandedFile:
    """The rows of one file, as text."""

    def __init__(self, row: Row, columns: Names, spelled: Mapping[str, Spelled], load: Load) -> None:
        """For this row and others like it. `columns`: those of the source. `spelled`: by column, what makes the lake's
        spelling of a value from DMS's, if they differ. `load`: which full load the row is of, or for a change, between
        which it is, and in which spell."""
        self.table, self.columns, self.load = row.table, columns, load
        self.kind = FileKind.LOAD if row.change.is_load else FileKind.CDC
        self.built: datetime | None = None
        """When DMS built the newest of the messages, UTC."""
        self.first: datetime | None = None
        """The earliest commit, UTC."""
        self.size = 0
        """Bytes of its rows."""
        self._spelled = spelled
        self._places = {name: place for place, name in enumerate(columns, start=len(_LEADING))}
        self._before: dict[str, int] = {}
        """The columns of the before images, and their places."""
        self._respelled = [(place, spelled[name]) for name, place in self._places.items() if name in spelled]
        self._blank = {mark: [*_LEADING, *[mark] * len(columns)] for mark in (NULL, ABSENT)}
        """The fields of a row that has no value, by the mark that shows it."""
        self._lines: list[bytes] = []
        """Encoded: a character of a Python string may take four bytes."""

    @property
    def rows(self) -> int:
        """How many."""
        return len(self._lines)

    def add(self, row: Row, lacking: str) -> int:
        """Adds a row, and returns its bytes. `lacking`: what a column is that the row does not have."""
        change = row.change
        for name in change.before:
            if name not in self._before:
                self._widen(name)
        fields = self._blank[lacking].copy()
        at = "" if row.at is None else row.at.replace(tzinfo=None).isoformat(" ", "microseconds")
        fields[: len(_LEADING)] = change.operation, at, row.sequence
        for places, values in ((self._places, change.values), (self._before, change.before)):
            for name, text in values.items():
                if (place := places.get(name)) is not None:
                    fields[place] = NULL if text is None else text
        for place, spelled in self._respelled:
            fields[place] = spelled(fields[place])
        line = line_of(fields)
        self._lines.append(line)
        self.size += len(line)
        if row.built is not None and (self.built is None or row.built > self.built):
            self.built = row.built
        if row.at is not None and (self.first is None or row.at < self.first):
            self.first = row.at
        return len(line)

    def _widen(self, name: str) -> None:
        """Adds a column of the before images, which the rows so far do not have."""
        place = self._before[name] = len(self._blank[NULL])
        for blank in self._blank.values():
            blank.append(NULL)
        if name in self._spelled:
            self._respelled.append((place, self._spelled[name]))
        self._lines = [line + _MORE for line in self._lines]

    def content(self) -> bytes:
        """The file, as gzip."""
        before = [f"{LANDED.before_image_prefix}{name}" for name in self._before]
        return packed([line_of([*_LEADING, *self.columns, *before]), *self._lines])


def packed(lines: list[bytes]) -> bytes:
    """The lines as gzip."""
    found = zlib.compressobj(1, wbits=31)
    batches = (lines[begin : begin + _AT_ONCE] for begin in range(0, len(lines), _AT_ONCE))
    return b"".join([*(found.compress(b"\n".join([*batch, b""])) for batch in batches), found.flush()])


def row_of(change: Change, source: SourceConfig, stream: StreamConfig) -> Row:
    """The change as a row. Raises Unreadable if it has no order, a time that is none, or a value that a file cannot
    show."""
    table = table_text(*change.metadata.table)
    _refuse_names(change)
    for values in (change.values, change.before):
        texts = values.values()
        if NULL in texts or ABSENT in texts:
            marked = min(name for name, value in values.items() if value in (NULL, ABSENT))
            raise Unreadable(f"the value of its {marked} is one of the lake's own marks")
    built = built_time(change.metadata)
    if change.is_load:
        return Row(table, change, "", built, built)
    own = source.dms.change_sequence_column
    sequence = change_sequence(stream.engine, own, change)
    at = commit_time(change.metadata)
    if at is None and own is not None:
        at = time_of(sequence)
    return Row(table, change, sequence, at, built)


def _refuse_names(change: Change) -> None:
    """Raises Unreadable for a name that no table of a database has, and that would stop the landing of all others."""
    for folder in change.metadata.table:
        if "/" in folder or "\0" in folder or folder in (".", "..") or len(folder.encode()) > LONGEST_FOLDER:
            raise Unreadable(f"the name {folder[:50]!r} of its table or schema is no name of a folder")
    for values in (change.values, change.before):
        if len("".join(values)) > LONGEST_NAMES:
            raise Unreadable(f"the names of its columns have more than {LONGEST_NAMES:,} characters")
        if len("".join(values)) > LONGEST_NAME and max(map(len, values)) > LONGEST_NAME:
            raise Unreadable(f"the name of one of its columns has more than {LONGEST_NAME:,} characters")


class Files:
    """Puts rows into files. Keeps the columns that each table had last, from one landing to the next."""

    def __init__(self, source: SourceConfig) -> None:
        self._source = source
        types = {table: _types(config) for table, config in source.tables.items()}
        self._declared = types
        self._spelled = {table: self._spellings(own) for table, own in types.items()}
        self._columns: dict[str, Names] = {table: tuple(own) for table, own in types.items()}
        self._defined: dict[str, frozenset[str]] = {}
        """By table of which DMS has defined columns, all that are known."""
        self._undefined: set[tuple[str, str]] = set()
        """Tables and columns of rows so far that are not known, where DMS has defined others of the table."""
        self._awaited: set[tuple[str, str]] = set()

    def define(self, table: str, definition: Definition) -> None:
        """Notes the columns that a table has from now on."""
        types = {name: _LAKE_TYPES.get(kind, "") for name, kind in definition.items()}
        types |= self._declared.get(table, {})
        self._columns[table] = tuple(definition)
        self._defined[table] = frozenset(types)
        self._spelled[table] = self._spellings(types)

    def of(
        self, rows: Iterable[Row], created: Created = NOTHING_CREATED, transferred: Created = NOTHING_CREATED
    ) -> Iterator[LandedFile]:
        """The files of these rows, each row in one of them, and rows of two full loads in two, as are changes of before
        and after one, because it supersedes files. So are rows with a quiet spell in between, because another load may
        have begun or ended in it, of which nothing has been read yet. The largest is finished when they have much text,
        the others at the end. `created`: when DMS created their tables; `transferred`: when rows of full loads that
        have landed were transferred. `rows`: those of full loads first, because the message that creates their table
        may land later."""
        found: dict[tuple[str, bool, Load, Names], LandedFile] = {}
        keeps_null, size = self._source.dms.include_null_and_empty, 0
        loads = _Loads(created, transferred)
        for row in rows:
            names = self._names(row)
            load = loads.of(row)
            place = row.table, row.change.is_load, load, names
            if (file := found.get(place)) is None:
                alike = (open_file for open_file in found.values() if _is_of(open_file, row, names, load))
                new = next(alike, None) or LandedFile(row, names, self._spelled.get(row.table, {}), load)
                file = found[place] = new
            # Of a deleted row, only the key counts. An insert that lacks a column has NULL there, if the endpoint
            # leaves NULL out.
            size += file.add(row, ABSENT if keeps_null and row.change.operation == "U" else NULL)
            if size > MOST_TEXT:
                largest = max(found.values(), key=lambda each: each.size)
                found = {at: other for at, other in found.items() if other is not largest}
                size -= largest.size
                yield largest
        yield from {id(file): file for file in found.values()}.values()

    def _names(self, row: Row) -> Names:
        own = tuple(row.change.values)
        if self._sequence_column in row.change.values:
            own = tuple(name for name in own if name != self._sequence_column)
        last = self._columns.get(row.table, ())
        is_insert = row.change.operation == "I"
        if own == last or not last or (is_insert and self._source.dms.include_null_and_empty):
            names = own
        else:
            known = _as_set(last)
            names = (*last, *new) if (new := [name for name in own if name not in known]) else last
        if names != last and (defined := self._defined.get(row.table)) is not None:
            self._undefined |= {(row.table, name) for name in names if name not in defined}
        if is_insert:
            self._columns[row.table] = names
        return names

    def has_undefined_columns(self) -> bool:
        """Whether a row had a column that DMS has not defined, for the first time."""
        new, self._undefined = self._undefined - self._awaited, set()
        self._awaited |= new
        return bool(new)

    @property
    def _sequence_column(self) -> str | None:
        return self._source.dms.change_sequence_column

    def _spellings(self, types: Mapping[str, str]) -> dict[str, Spelled]:
        """By the source's name of a column, what makes the lake's spelling of a value from DMS's."""
        found: dict[str, Spelled] = {name: _without_zone for name, own in types.items() if own in _UNZONED}
        if not self._source.dms.no_hex_prefix:
            found |= {name: _without_prefix for name, own in types.items() if own == "binary"}
        return found


def _types(table: TableConfig) -> dict[str, str]:
    """By the source's name of each declared column, its type."""
    return {table.renamed_from.get(column.name, column.name): column.type for column in table.columns}


@lru_cache(maxsize=4096)
def _as_set(names: Names) -> frozenset[str]:
    return frozenset(names)


class _Loads:
    """The full loads of the tables of one landing."""

    def __init__(self, created: Created, transferred: Created) -> None:
        """As for `Files.of`."""
        self._created, self._transferred = created, transferred
        self._borders: dict[str, list[datetime]] = {}
        """By table, the times that changes of before and after a full load have between them."""
        self._spells: dict[tuple[str, bool, int], list[list[datetime]]] = {}
        """Of the changes of a table between two such times, and of the rows of a full load: of each spell the first and
        the last time."""

    def of(self, row: Row) -> Load:
        """Which of its table's full loads a row is of; of a change, between which of the known times it is; and in
        which spell of such rows."""
        if row.built is None:
            return 0, 0
        created = self._created.get(row.table, ())
        if (borders := self._borders.get(row.table)) is None:
            borders = sorted([*created, *self._transferred.get(row.table, ())])
            self._borders[row.table] = borders
        if row.change.is_load:
            insort(borders, row.built)
        number = load_number(created if row.change.is_load else borders, row.built)
        place = row.table, row.change.is_load, number
        return number, _spell_of(row.built, self._spells.setdefault(place, []))


def _spell_of(at: datetime, spells: list[list[datetime]]) -> int:
    """The number of the spell that a time is in; adds it to the spells."""
    apart = [max(first - at, at - last) for first, last in spells]
    if not apart or (min(apart) > QUIET and len(spells) < MOST_SPELLS):
        spells.append([at, at])
        return len(spells) - 1
    number = apart.index(min(apart))
    first, last = spells[number]
    spells[number][:] = min(first, at), max(last, at)
    return number


def _is_of(file: LandedFile, row: Row, names: Names, load: Load) -> bool:
    """Whether the row has the file's columns, in whatever order, and is of its full load."""
    same = file.table == row.table and (file.kind is FileKind.LOAD) == row.change.is_load
    return same and file.load == load and {*file.columns} == {*names}


def _without_zone(text: str) -> str:
    return text.removesuffix("Z")


def _without_prefix(text: str) -> str:
    return text.removeprefix("0x")


def line_of(fields: list[str]) -> bytes:
    """A record of CSV, without its end. Python's own writer leaves a carriage return without quotes."""
    line = ",".join(fields)
    if '"' in line or "\n" in line or "\r" in line or line.count(",") >= len(fields):
        return b",".join(_quoted(text.encode()) for text in fields)
    return line.encode()


def _quoted(text: bytes) -> bytes:
    return b'"' + text.replace(b'"', b'""') + b'"' if _SPECIAL.search(text) else text

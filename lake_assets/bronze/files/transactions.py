"""The tables whose rows a transaction file has: one strict pass over it, without Spark.

Here: counting the rows of each table, and the faults that hide a row's table. Not here: typed rows
(`bronze/decode/blocks.py`), the records of the log (`bronze/scan/shares.py`).

A file of an endpoint with PreserveTransactions has rows of all tables, each as wide as its own table: `Op,TABLE,
SCHEMA`, the commit timestamp where the endpoint adds one, the values. A row without a table would be missing from some
table without any error, so a row whose table is unknown makes the whole file unreadable. Other faults of a row are
reported by its table.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from lake_assets.bronze.files.content import UnreadableFile, chunks
from lake_assets.bronze.files.csv_structure import BOM, RETURNS
from lake_assets.bronze.files.inspect import NamedFile, commit_time
from lake_assets.config import DmsSettings, table_text
from lake_assets.storage.object_store import ObjectStore
from lake_assets.words import many

LEADING = ("Op", "TABLE", "SCHEMA")
"""The first fields of every row; the table comes before the schema."""
MOST_STRANGE_TABLES = 1000
"""The most tables of one file that lake.yaml does not name: each becomes a record of the log, and a garbled file has a
new name in every row."""

_LONGEST_RECORD = 256 << 20
"""Bytes; without a limit, a quote that is never closed would take the rest of the file into memory."""
_OPERATIONS = (b"I", b"U", b"D")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(slots=True)
class Share:
    """One table's rows in a transaction file."""

    rows: int = 0
    first_commit_ts: datetime | None = None
    """UTC; of the table's first row, None if there is no timestamp in it."""
    irregular: str | None = None
    """Why Arrow must not split the records."""


def inspect_transactions(
    store: ObjectStore, file: NamedFile, dms: DmsSettings, tables: Collection[str]
) -> dict[str, Share]:
    """The file's rows by `schema.table`; `tables` are those that lake.yaml names. Reads the file once, whatever its
    size. Raises UnreadableFile for bad content, StoreError if it cannot be fetched."""
    found: dict[tuple[bytes, bytes], Share] = {}
    own: dict[tuple[bytes, bytes], bool] = {}
    row = 0
    try:
        for record in _records(chunks(store, file.key, file.compression), quoted=dms.rfc_4180):
            row += 1
            fields = _leading(record, dms)
            if len(fields) < len(LEADING):
                raise _UnknownTable(f"it has {many(len(fields), 'field')}, not even {', '.join(LEADING)}")
            name = fields[1], fields[2]
            share = found.get(name)
            if share is None:
                own[name] = _checked_name(name, tables)
                share = found[name] = Share(first_commit_ts=_commit_time(fields, dms))
                if len(found) - sum(own.values()) > MOST_STRANGE_TABLES:
                    raise _UnknownTable(
                        f"it names yet another table, after {MOST_STRANGE_TABLES} unknown ones"
                    )
            if fields[0] not in _OPERATIONS and not own[name]:
                raise _UnknownTable("its operation is not I, U or D")
            share.rows += 1
            share.irregular = share.irregular or _irregular(record, is_first=row == 1)
    except _UnknownTable as reason:
        raise UnreadableFile(
            file.key, f"the table of row {row} is unknown: {reason}; expected {','.join(LEADING)},…"
        ) from reason
    except UnicodeDecodeError as error:
        raise UnreadableFile(file.key, f"row {row} is not UTF-8 ({error.reason})") from error
    except _Damaged as reason:
        raise UnreadableFile(file.key, f"row {row + reason.after} {reason}") from reason
    return {table_text(_text(schema), _text(table)): share for (table, schema), share in found.items()}


def table_of(record: bytes, dms: DmsSettings) -> str | None:
    """The `schema.table` of a record of a file that `inspect_transactions` could read; None for an empty line."""
    fields = _leading(record.removesuffix(b"\n"), dms)
    return table_text(_text(fields[2]), _text(fields[1])) if len(fields) >= len(LEADING) else None


def _irregular(record: bytes, *, is_first: bool) -> str | None:
    if record.endswith(b"\r"):
        return RETURNS  # Arrow drops it, also behind a text
    if is_first and record.startswith(BOM):
        return "it begins with a byte order mark"
    return "it has NUL characters" if b"\0" in record else None


class _UnknownTable(Exception):
    """The table of a row is unknown."""


class _Damaged(Exception):
    """The end of a row is unknown; `after` is 1 where the row has not been counted yet."""

    def __init__(self, what: str, after: int = 0) -> None:
        super().__init__(what)
        self.after = after


def _records(content: Iterable[bytes], *, quoted: bool) -> Iterator[bytes]:
    """The records that are not empty. A newline inside quotes, that is after an odd number of them, continues the
    record. An empty line has no operation and no table, so it is not a row."""
    pieces: list[bytes] = []
    size, inside = 0, False
    for line in _lines(content):
        if quoted and b'"' in line:
            inside ^= line.count(b'"') % 2 == 1
        pieces.append(line)
        size += len(line)
        if inside:
            if size > _LONGEST_RECORD:
                raise _Damaged(f"has a quote that is not closed for {_LONGEST_RECORD >> 20} MiB", after=1)
            continue
        if size:
            yield pieces[0] if len(pieces) == 1 else b"\n".join(pieces)
        pieces, size = [], 0
    if inside:
        raise _Damaged("has a quote that is never closed: the file is incomplete or damaged", after=1)


def _lines(content: Iterable[bytes]) -> Iterator[bytes]:
    """The lines without their newlines. Raises _Damaged if the last one has none."""
    rest: list[bytes] = []
    size = 0
    for chunk in content:
        first, *more = chunk.split(b"\n")
        rest.append(first)
        size += len(first)
        if more:
            yield b"".join(rest)
            yield from more[:-1]
            rest, size = [more[-1]], len(more[-1])
        if size > _LONGEST_RECORD:
            raise _Damaged(f"has no end for {_LONGEST_RECORD >> 20} MiB", after=1)
    if size:
        raise _Damaged("has no row delimiter after it: the file is incomplete or damaged", after=1)


def _leading(record: bytes, dms: DmsSettings) -> list[bytes]:
    """The first fields, at most four. Raises _Damaged where a quote is neither at the ends of its field nor doubled."""
    if not record.isascii():
        record.decode("utf-8")
    record = record.removesuffix(b"\r")
    delimiter = dms.csv_delimiter.encode()
    if not dms.rfc_4180 or b'"' not in record:
        return record.split(delimiter, 4)[:4]
    field, whole = _patterns(delimiter)
    if whole.fullmatch(record) is None:
        raise _Damaged("has a quote that neither begins nor ends a field")
    fields: list[bytes] = []
    position = 0
    while position <= len(record) and len(fields) < 4:
        match = field.match(record, position)
        assert match is not None, "the whole record matched"
        text = match[0]
        fields.append(text[1:-1].replace(b'""', b'"') if text.startswith(b'"') else text)
        position = match.end() + len(delimiter)
    return fields


@lru_cache(maxsize=8)
def _patterns(delimiter: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Patterns of a field and of a record of RFC 4180. They are possessive, so the time is proportional to a record's
    length. The group with a lookahead is not: before Python 3.11.5, such a possessive group ends too early."""
    end = re.escape(delimiter)
    plain = rb'(?:(?!%s)[^"\n])*' % end if len(delimiter) > 1 else rb'[^"\n%s]*+' % end
    field = rb'(?:"[^"]*+(?:""[^"]*+)*+"|%s)' % plain
    return re.compile(field), re.compile(rb"%s(?:%s%s)*+" % (field, end, field))


def _checked_name(name: tuple[bytes, bytes], tables: Collection[str]) -> bool:
    """Whether lake.yaml names the table. Raises _UnknownTable for what cannot be a table's name, without quoting it:
    in a garbled row, it is the value of a column, which may be masked."""
    table, schema = (_text(part) for part in name)
    if table_text(schema, table) in tables:
        return True
    if not table or not schema:
        raise _UnknownTable(f"its {'schema' if table else 'table'} is empty")
    if table_text(table, schema) in tables:
        raise _UnknownTable(f"{table} is the schema and {schema} the table in lake.yaml")
    if _DATE.match(table) or _DATE.match(schema):
        raise _UnknownTable("a time is in the place of its table or its schema")
    return False


def _commit_time(fields: list[bytes], dms: DmsSettings) -> datetime | None:
    if dms.timestamp_column_name is None or len(fields) < 4:
        return None
    return commit_time(_text(fields[3]), dms)


def _text(value: bytes) -> str:
    return value.decode("utf-8", errors="replace")

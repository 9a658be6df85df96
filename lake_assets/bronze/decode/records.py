"""The records of text files, parsed one by one in plain Python: files of any structure, and every fault of it.

Arrow is ten times as fast, and reads most files (`fields.py`). Here: the records of a CSV, JSON-lines or transaction
file as texts, the bad ones with their reasons. Not here: how a record is parsed (`bronze/files/csv_records.py`,
`bronze/files/json_lines.py`), null tokens and types (`changes.py`). Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from lake_assets.bronze.files.content import whole
from lake_assets.bronze.files.csv_dialect import CsvDialect
from lake_assets.bronze.files.csv_records import Record, csv_records
from lake_assets.bronze.files.csv_structure import BOM
from lake_assets.bronze.files.formats import Layout, before_image
from lake_assets.bronze.files.inspect import LARGEST_IRREGULAR
from lake_assets.bronze.files.json_lines import json_lines, json_object
from lake_assets.bronze.files.keys import TRANSACTIONS
from lake_assets.bronze.files.transactions import LEADING
from lake_assets.bronze.layouts.headerless import LayoutsByRow
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, Mode, TableConfig
from lake_assets.storage.object_store import ObjectStore
from lake_assets.words import many

EMPTY_LINE = "an empty line"
RETURN_FAULT = "ends with a carriage return; set CsvRowDelimiter to \\n"
"""The fault of a row whose last text is followed by a carriage return outside of quotes: nobody can tell whether the
text ends so, or the lines. In front of a number it is no part of the value."""
Row = tuple[int, tuple[Sequence[str | None], str | None]]
"""The ordinal; the fields, and why they cannot be used. An empty CSV field is None."""


def width_fault(width: int, found: int | None = None) -> str:
    """The fault of a row of another width; `found`: its number of fields."""
    return f"not {many(width, 'field')}" + ("" if found is None else f", but {found}")


def content_of(store: ObjectStore, file: LoggedFile) -> bytes:
    """All of a file, which this process reads whole. Raises UnreadableFile for a file that is too large."""
    why = file.irregular or "this process reads it whole"
    return whole(store, file.path, file.compression, LARGEST_IRREGULAR, why=why)


def records_of(
    content: bytes,
    file: LoggedFile,
    layout: Layout,
    table: TableConfig,
    dms: DmsSettings,
    among: LayoutsByRow | None = None,
    *,
    is_start: bool,
    has_header: bool,
    explain: bool = True,
) -> Iterator[Row]:
    """The rows of a file, or of some of its records. `is_start`: these begin with the file, where a byte order mark is
    none of a value. `has_header`: the first record is no row. `among`: for a CSV file
    with several layouts, returns the rows of this layout; for a transaction file, those that the file's record is of.
    `explain`: a fault says how many fields a row has."""
    if file.format == "json":
        # Behind a blank line, which is no row, a byte order mark is part of the next one.
        return _json(content if is_start else b"\n" + content, layout)
    return _csv(
        content, file, layout, table, dms, among, is_start=is_start, has_header=has_header, explain=explain
    )


def _csv(
    content: bytes,
    file: LoggedFile,
    layout: Layout,
    table: TableConfig,
    dms: DmsSettings,
    among: LayoutsByRow | None,
    *,
    is_start: bool,
    has_header: bool,
    explain: bool,
) -> Iterator[Row]:
    width, leading = len(layout.columns), 0
    records = csv_records(content, CsvDialect.of(dms), is_start=is_start)
    if file.format == TRANSACTIONS:
        records, leading = [*_own(records, file)], 2
    texts = _texts(table, dms)
    first_fault = None
    if is_start and content.startswith(BOM) and not has_header:
        # Before a text value, a byte order mark and a letter cannot be distinguished.
        first_fault = "a byte order mark before it may belong to its first value"
        first_fault = first_fault if layout.columns[0] in texts else None
    for ordinal, record in enumerate(records[1:] if has_header else records):
        if among is not None and among.of(record.fields) != layout:
            pass  # a row of another layout
        elif record.fields is None or first_fault is not None:
            yield ordinal, ((), record.fault or first_fault)
        elif len(record.fields) != width:
            empty = content[record.start : record.end].strip(b"\r\n") == b""
            # Padded or cut to the layout's width: the operation, for one, is read.
            fields = [field or None for field in (*record.fields, *[""] * width)[:width]]
            found = len(record.fields) + leading if explain else None
            yield ordinal, (fields, EMPTY_LINE if empty else width_fault(width + leading, found))
        else:
            fault = RETURN_FAULT if record.has_return and layout.columns[-1] in texts else None
            yield ordinal, ([field or None for field in record.fields], fault)
        first_fault = None


def _texts(table: TableConfig, dms: DmsSettings) -> set[str | None]:
    """The names, in a layout, of values that a carriage return may be a part of; of before images, only those that
    identify a row are read."""
    own = {column.name for column in table.columns if column.type == "string"}
    matched = own if table.mode is Mode.FULL_ROW else own & {*table.primary_key}
    return own | {before_image(dms, name) for name in matched}


def _own(records: Iterable[Record], file: LoggedFile) -> Iterator[Record]:
    """The records of a transaction file that are the file's own in the log, without table and schema, which follow the
    operation."""
    for record in records:
        if record.fields is None or len(record.fields) < len(LEADING):
            continue  # an empty line: a file with a record of an unknown table is unreadable
        _, table, schema = record.fields[: len(LEADING)]
        if schema == file.schema and table in file.names:
            yield replace(record, fields=(record.fields[0], *record.fields[3:]))


def _json(content: bytes, layout: Layout) -> Iterator[Row]:
    for ordinal, line in enumerate(json_lines([content])):
        try:
            found = json_object(line)
        except ValueError as error:
            yield ordinal, ((), str(error))
        else:
            yield ordinal, ([found.get(name) for name in layout.columns], None)

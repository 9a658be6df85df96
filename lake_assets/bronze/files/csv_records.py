"""The records of a CSV file, parsed strictly: the fields of each, or the fault.

Here: RFC 4180 by the letter, and the end of a record that does not follow it. Not here: deciding which files need this
(`csv_structure.py`), or what the fields mean. Slow and in memory, so only for irregular or small files.

Where a faulty record ends. After a quote that neither opens nor closes a field, it is unknown whether the following
text is inside quotes. The record ends at the first row delimiter behind which the text can only be read as outside
quotes. The next quotes decide that, or else the end of the file, where quotes must be closed. The text before that
delimiter is never split into rows by guess. If the stray quote looks like a closing one, its opening quote may be
damaged. Then the faulty record begins earlier: with the last record whose width differs from that of the file's first
record, if there is no quote in between.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from lake_assets.bronze.files.csv_dialect import QUOTE, CsvDialect
from lake_assets.bronze.files.csv_structure import BOM

MISPLACED = "a quote in it neither opens nor closes a field"
UNCLOSED = "the file ends inside of its quotes"
CUT_OFF = "the file ends without a row delimiter after it, so that it may be cut off"
_SEARCHED_BACK = 10_000
"""The number of records that are searched for a damaged opening quote."""


@dataclass(frozen=True, slots=True)
class Record:
    """Bytes `start` to `end` of the content, with or without the record's end."""

    start: int
    end: int
    fields: tuple[str, ...] | None
    fault: str | None
    """Why `fields` is None."""
    has_return: bool = False
    """Whether a carriage return outside of quotes, which `fields` lacks, precedes its newline: the program that wrote
    it may end lines with \\r\\n, or the last text may end so."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """One record as far as it can be read."""

    fields: list[bytes]
    end: int
    """Where the next record starts, or the position of the faulty quote."""
    fault: str | None
    has_return: bool = False
    """As of a `Record`."""


def scan_record(content: bytes, start: int, dialect: CsvDialect) -> Scanned:
    """The record that starts at `start`; after a fault, the fields before it."""
    fields: list[bytes] = []
    at = start
    while True:
        if dialect.quoted and content.startswith(QUOTE, at):
            value, at = _quoted(content, at)
            if value is None:
                return Scanned(fields, len(content), UNCLOSED)
            fields.append(value)
            has_return = dialect.row_delimiter == b"\n" and content.startswith(b"\r\n", at)
            if has_return or content.startswith(dialect.row_delimiter, at):
                return Scanned(fields, at + has_return + len(dialect.row_delimiter), None, has_return)
            if at == len(content):
                return Scanned(fields, at, CUT_OFF)
            if not content.startswith(dialect.delimiter, at):
                return Scanned(fields[:-1], at - 1, MISPLACED)
            at += len(dialect.delimiter)
        else:
            found = dialect.field_end.search(content, at)
            if found is None:
                fields.append(content[at:])
                return Scanned(fields, len(content), CUT_OFF)
            mark = found[0]
            if mark == QUOTE and dialect.quoted:
                return Scanned(fields, found.start(), MISPLACED)
            fields.append(content[at : found.start()])
            at = found.end()
            if mark == dialect.row_delimiter:
                has_return = mark == b"\n" and fields[-1].endswith(b"\r")
                fields[-1] = fields[-1].removesuffix(b"\r") if has_return else fields[-1]
                return Scanned(fields, at, None, has_return)


def _quoted(content: bytes, start: int) -> tuple[bytes | None, int]:
    """The value of the quoted field and the place after its closing quote; None if there is none."""
    value, at = [], start + 1
    while (quote := content.find(QUOTE, at)) >= 0:
        value.append(content[at:quote])
        if not content.startswith(QUOTE, quote + 1):
            return b"".join(value), quote + 1
        value.append(QUOTE)
        at = quote + 2
    return None, len(content)


def csv_records(content: bytes, dialect: CsvDialect, *, is_start: bool = True) -> list[Record]:
    """Every record in the order of the file, header included. An empty line is a record of one empty field. `is_start`:
    whether the content begins with the file, where a byte order mark is none of a value."""
    records: list[Record] = []
    at = len(BOM) if is_start and content.startswith(BOM) else 0
    width = 0
    while at < len(content):
        found = scan_record(content, at, dialect)
        end, first = found.end, at
        if found.fault == MISPLACED:
            if width and _may_close(content, found.end, dialect):
                first = _damaged_before(records, width, at, content)
            end = _resumed(content, found.end, dialect)
        records.append(_record(first, end, found))
        width = width or len(found.fields)
        at = end
    return records


def _record(start: int, end: int, found: Scanned) -> Record:
    if found.fault is not None:
        return Record(start, end, None, found.fault)
    try:
        return Record(start, end, tuple(field.decode() for field in found.fields), None, found.has_return)
    except UnicodeDecodeError as error:
        return Record(start, end, None, f"it is not UTF-8 ({error.reason})")


def _may_close(content: bytes, quote: int, dialect: CsvDialect) -> bool:
    behind = quote + 1
    return behind == len(content) or content.startswith((dialect.delimiter, dialect.row_delimiter), behind)


def _damaged_before(records: list[Record], width: int, start: int, content: bytes) -> int:
    """Where the faulty record that seems to begin at `start` really begins; removes the records that it includes."""
    for back in range(1, min(len(records), _SEARCHED_BACK) + 1):
        record = records[-back]
        if record.fields is None:
            break
        if len(record.fields) != width:
            del records[-back:]
            return record.start
        if content.find(QUOTE, record.start, record.end) >= 0:
            break
    return start


def _resumed(content: bytes, quote: int, dialect: CsvDialect) -> int:
    """The first position after a misplaced quote where a record certainly starts."""
    at = _run_end(content, quote)
    while (end := content.find(dialect.row_delimiter, at)) >= 0:
        start = end + len(dialect.row_delimiter)
        refuted_by = _reads_as_inside(content, start, dialect)
        if refuted_by is None:
            return start
        at = refuted_by
    return len(content)


def _reads_as_inside(content: bytes, start: int, dialect: CsvDialect) -> int | None:
    """None if the text from `start` on can be read as outside quotes and not as inside; else the end of the quotes
    before which no record certainly starts."""
    may_be = {"outside", "inside"}
    outside = True
    """Whether the text is outside quotes here if it was outside at `start`; if it was inside at `start`, the
    reverse."""
    first_run = None
    for begin, end in _runs(content, start):
        first_run = first_run or end
        opens = begin == start or content.endswith((dialect.delimiter, dialect.row_delimiter), 0, begin)
        closes = end == len(content) or content.startswith((dialect.delimiter, dialect.row_delimiter), end)
        odd = (end - begin) % 2 == 1
        fits_outside = opens and (odd or closes)
        fits_inside = closes or not odd
        if not (fits_outside if outside else fits_inside):
            may_be.discard("outside")
        if not (fits_inside if outside else fits_outside):
            may_be.discard("inside")
        if may_be == {"outside"}:
            return None
        if len(may_be) < 2:
            return first_run
        outside ^= odd
    # At the end of the file, quotes must be closed.
    return None if outside and "outside" in may_be else first_run


def _runs(content: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Runs of quotes with nothing in between, from `at` on."""
    while (begin := content.find(QUOTE, at)) >= 0:
        at = _run_end(content, begin)
        yield begin, at


def _run_end(content: bytes, quote: int) -> int:
    while content.startswith(QUOTE, quote):
        quote += 1
    return quote

"""Which CSV has one way to be read, and what a strict reader makes of the rest.

Here: bytes in, records and reasons out. Not here: the same through Spark (`test_reading_damaged_files.py`).
"""

import csv
import io
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lake_assets.bronze.files.csv_dialect import CsvDialect
from lake_assets.bronze.files.csv_records import CUT_OFF, MISPLACED, UNCLOSED, csv_records
from lake_assets.bronze.files.csv_structure import StructureScan

PLAIN, CRLF = CsvDialect(), CsvDialect(row_delimiter=b"\r\n")
UNQUOTED = CsvDialect(quoted=False)
STRAY = "a quote in it neither opens nor closes a field"


def scan(content: bytes, dialect: CsvDialect = PLAIN, size: int = 1 << 20) -> StructureScan:
    found = StructureScan(dialect)
    for start in range(0, len(content), size):
        found.feed(content[start : start + size])
    found.finish()
    return found


@pytest.mark.parametrize(
    ("content", "dialect"),
    [
        (b"", PLAIN),
        (b"a,b\n1,2\n", PLAIN),
        (b'a,"b"\n"1",2\n"","x"\n', PLAIN),
        (b'"","""","a""b",","\n"\n\n","\n"\n', PLAIN),
        (b'"a\r\nb",c\rd\n', PLAIN),
        (b"a,b\r\n1,2\r\n", CRLF),
        (b'a,"b\r"\n"\r\n",2\na\rb,"\r\n\r"\n', PLAIN),
        (b'a"b,5"\n', UNQUOTED),
        ("é,😀\n".encode(), PLAIN),
        ('1€"a€b"€3\n'.encode(), CsvDialect("€".encode())),
        ('1,"a¶b"¶2,c¶'.encode(), CsvDialect(row_delimiter="¶".encode())),
        (b'1|"a|b";2|c;', CsvDialect(b"|", b";")),
        (b" a , b \n", PLAIN),
    ],
)
def test_regular(content, dialect):
    for size in (1, 2, 3, 1 << 20):
        assert scan(content, dialect, size).irregular is None


IRREGULAR = [
    (b'a,b"c\n', PLAIN, STRAY),
    (b'a,"b"c\n', PLAIN, STRAY),
    (b'a,""b\n', PLAIN, STRAY),
    (b'a, "b"\n', PLAIN, STRAY),
    (b'a,"b" ,c\n', PLAIN, STRAY),
    (b'a,"b\n', PLAIN, "ends inside of quotes"),
    (b"a,b\nc", PLAIN, "no row delimiter"),
    (b"a\n\nb\n", PLAIN, "empty line"),
    (b"a\n \t\nb\n", PLAIN, "empty line"),
    (b"\na\n", PLAIN, "empty line"),
    (b"\t\t\t\nb\t\t\t\n", CsvDialect(b"\t"), "empty line"),
    (b"a\0,b\n", PLAIN, "NUL"),
    (b"a,\xff\n", PLAIN, "not UTF-8"),
    (b'a,"\xc3"\n', PLAIN, "not UTF-8"),
    (b"\xef\xbb\xbfa,b\n", PLAIN, "byte order mark"),
    (b"\xff\xfea\0\n\0", PLAIN, "NUL"),
    (b'a,"b"\r\n', PLAIN, STRAY),
    (b"a,b\r\n1,2\r\n", PLAIN, "lines end with a carriage return"),
    (b'a,"b\r\n"\n1,2\r\n', PLAIN, "lines end with a carriage return"),
    (b'a,"b\r"\r\n', UNQUOTED, "lines end with a carriage return"),
    (b"a,b\r\nc\nd\r\n", CRLF, "carriage returns or newlines"),
    (b'a,"b\r\nc"\r\n', CRLF, "carriage returns or newlines"),
    (b"a\nb|c|", CsvDialect(row_delimiter=b"|"), "newlines"),
    (b"a\n" + b"," * 70_000 + b"\n", PLAIN, "columns"),
]


@pytest.mark.parametrize(("content", "dialect", "reason"), IRREGULAR)
def test_irregular(content, dialect, reason):
    for size in (1, 2, 3, 1 << 20):
        assert reason in (scan(content, dialect, size).irregular or "")


def test_a_reason_far_into_a_file():
    content = b'I,"a, b",c\n' * 300_000
    assert scan(content).irregular is None
    for wrong in (b'I,a" b,c\n', b"\n", b"\0\n", b"\xff\n"):
        assert scan(content + wrong + content).irregular


fragments = st.text(st.sampled_from('",\n\ra\té'), max_size=30)


@given(fragments, st.integers(1, 5))
@settings(max_examples=1500, deadline=None)
def test_regular_exactly_where_the_strict_reader_finds_no_fault(text, size):
    """Except for what only Spark stumbles over: empty lines, and the carriage return in front of a newline."""
    content = text.encode()
    records = csv_records(content, PLAIN)
    found = scan(content, size=size)
    tolerated = ("empty line", STRAY) if '"\r\n' in text else ("empty line",)
    if found.irregular is None:
        assert found.records() == len(records)
        assert [(record.fault, record.has_return) for record in records] == [(None, False)] * len(records)
        parsed = list(csv.reader(io.StringIO(text, newline=""), strict=True)) if "\r" not in text else None
        assert parsed is None or [tuple(row) for row in parsed] == [record.fields for record in records]
    else:
        wrong = any(record.fault or record.has_return for record in records)
        assert wrong or any(kind in found.irregular for kind in tolerated)


@given(fragments)
@settings(max_examples=800, deadline=None)
def test_records_are_the_whole_file(text):
    content = text.encode()
    records = csv_records(content, PLAIN)
    assert b"".join(content[record.start : record.end] for record in records) == content


GOOD = ("1", "x", "y")
G = b"1,x,y\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (G + b'2,5" pipe,z\n' + G, [GOOD, MISPLACED, GOOD]),
        (G + b'2,"a"b,z\n' + G, [GOOD, MISPLACED, GOOD]),
        (G + b'2,"a"b,z\n3,"q","r\ns"\n' + G, [GOOD, MISPLACED, ("3", "q", "r\ns"), GOOD]),
        # In the value after the fault is a line that looks like a row, and is none.
        (G + b'2,a"b,"z\n1,ev,il\nz"\n' + G, [GOOD, MISPLACED, GOOD]),
        # The opening quote was damaged: what looks like a row was a part of its value.
        (G + b'2,#a\n1,ev,il\nb",z\n' + G, [GOOD, MISPLACED, GOOD]),
        # The closing quote was damaged: nothing up to the next quote is certain.
        (G + b'2,"a#,z\n' + G + b'3,"b",c\n' + G, [GOOD, MISPLACED, GOOD]),
        (G + b'2,"a\n' + G, [GOOD, UNCLOSED]),
        (G + b"2,a", [GOOD, CUT_OFF]),
        (G + b"\xff,a,b\n" + G, [GOOD, "it is not UTF-8 (invalid start byte)", GOOD]),
        (G + b"\n" + G, [GOOD, ("",), GOOD]),
        (b"\xef\xbb\xbf" + G, [GOOD]),
        (G + b'"a","b","c"\r\n', [GOOD, ("a", "b", "c")]),
        (G + b'"a",b,c\r\n"a","b\r","c\r"\n', [GOOD, ("a", "b", "c"), ("a", "b\r", "c\r")]),
    ],
)
def test_where_a_faulty_record_ends(content, expected):
    assert [record.fields or record.fault for record in csv_records(content, PLAIN)] == expected


@pytest.mark.parametrize("quoted", [b"", b'"Some ""Station"", with a comma",'])
def test_is_fast(quoted):
    content = (b"I,2024-05-01 12:00:00.000000,123456," + quoted + b"12.50,plain\n") * 12_000
    start = perf_counter()
    found = StructureScan(PLAIN)
    for _ in range(40):
        found.feed(content)
    found.finish()
    speed = 40 * len(content) / (perf_counter() - start)
    assert found.irregular is None
    assert found.records() == 480_000
    assert speed > 30e6, f"{speed / 1e6:.0f} MB/s; several hundred on an idle machine"

"""Text files in pieces: whatever their form, Arrow and Python find the same rows.

Here: the forms of a file, where it is cut, and who parses what. Not here: files of odd structure by chance
(`bronze/reader/test_structures.py`), the spellings of values (`bronze/values/test_text_values.py`).
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lake_assets.bronze.decode import blocks, texts
from lake_assets.bronze.decode.fields import Fields
from lake_assets.bronze.decode.records import RETURN_FAULT
from lake_assets.bronze.decode.texts import TextFile
from lake_assets.bronze.files.content import UnreadableFile
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.files.keys import TRANSACTIONS
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets_tests.helpers.files.read_folder import Folder

COLUMNS = {"id": "long not null", "note": "string not null", "n": "int", "price": "decimal(12, 2)"}
LAYOUT = ("Op", "id", "note", "n", "price")
USUAL = b"I,1,a note,2,3.50\n"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What Python has parsed."""
    found: list[bytes] = []
    plain = TextFile._parsed

    def seen(self: TextFile, content: bytes, *given: Any, **more: Any) -> Fields:
        if content:
            found.append(content)
        return plain(self, content, *given, **more)

    monkeypatch.setattr(TextFile, "_parsed", seen)
    return found


def pieces(folder: Folder, file: LoggedFile, layout: tuple[str, ...] = LAYOUT) -> list[Fields]:
    text = TextFile(folder.store, file, Layout(layout), folder.table, folder.dms, None, "an address")
    return list(text.pieces())


def found(
    path: Path, content: bytes, layout: tuple[str, ...] = LAYOUT, **dms: Any
) -> list[tuple[str | None, ...]]:
    """The fields of each row, or why it is bad."""
    folder = Folder(path, COLUMNS, ["id"], **dms)
    file = folder.put("public/items/20260301-120000000.csv", content)
    assert file is not None
    rows: list[tuple[str | None, ...]] = []
    for piece in pieces(folder, file, layout):
        columns = [values.to_pylist() for values in piece.values.values()]
        for place, bad, *fields in zip(piece.row.to_pylist(), piece.bad.to_pylist(), *columns, strict=True):
            assert place == len(rows)
            rows.append((bad,) if bad is not None else tuple(fields))
    return rows


def test_a_usual_file(tmp_path: Path, parsed: list[bytes]) -> None:
    content = USUAL + b'U,2,"a ""quoted""\n note, of two lines",,-1\nD,3,,NULL,"NULL"\n'
    assert found(tmp_path, content) == [
        ("I", "1", "a note", "2", "3.50"),
        ("U", "2", 'a "quoted"\n note, of two lines', "", "-1"),
        ("D", "3", "", None, None),
    ]
    assert parsed == []


@pytest.mark.parametrize(
    ("content", "dms", "row"),
    [
        (b"I,1,a\rb,2,3.50\n", {}, ("I", "1", "a\rb", "2", "3.50")),
        (b'I,1,"a\rb",2,3.50\n', {"rfc_4180": False}, ("I", "1", '"a\rb"', "2", "3.50")),
        (b"I,1,a note,2\n", {}, ("not 5 fields, but 4",)),
        (b"I,1,a note,2,3,4\n", {}, ("not 5 fields, but 6",)),
        (
            b"I,1,a note,2,3",
            {},
            ("the file ends without a row delimiter after it, so that it may be cut off",),
        ),
        (b'I,1,a "note",2,3\n', {}, ("a quote in it neither opens nor closes a field",)),
        (b"I,1,\xff,2,3\n", {}, ("it is not UTF-8 (invalid start byte)",)),
        (b"\n", {}, ("an empty line",)),
        ("I§1§a\x1f§2§3\n".encode(), {"csv_delimiter": "§"}, ("I", "1", "a\x1f", "2", "3")),
    ],
)
def test_what_python_parses(
    tmp_path: Path, parsed: list[bytes], content: bytes, dms: dict[str, Any], row: tuple[str, ...]
) -> None:
    assert found(tmp_path, content, **dms) == [row]
    assert parsed == [content]


def test_a_return_at_the_end_of_a_line(tmp_path: Path) -> None:
    layout = ("Op", "id", "price", "n", "note")
    assert found(tmp_path, b"I,1,3,2,a\r\n", layout) == [(RETURN_FAULT,)]
    assert found(tmp_path / "two", b"I,1,3,2,a\r\n", layout, csv_row_delimiter="\r\n") == [
        ("I", "1", "3", "2", "a")
    ]


@pytest.mark.parametrize(
    ("content", "dms", "note"),
    [
        (b"I\t1\ta,b\t2\t3\n", {"csv_delimiter": "\t"}, "a,b"),
        (b'I,1,"a" b,2,3\n', {"rfc_4180": False}, '"a" b'),
        (b"I,1,\\N,2,3\n", {"csv_null_value": "\\N"}, None),
        (b'I,1,"NULL",2,3\n', {}, None),
        (b"I,1, a ,2,3\n", {}, " a "),
        (b"Op,id,note,n,price\nI,1,x,2,3\n", {"add_column_name": True}, "x"),
        (b'"Op","id","no\nte",n,price\nI,1,x,2,3\n', {"add_column_name": True}, "x"),
        ('I§1§"a§b"§2§3\n'.encode(), {"csv_delimiter": "§"}, "a§b"),
        ('I§1§"NULL"§2§3\n'.encode(), {"csv_delimiter": "§"}, None),
        ("I§1§é§2§3\n".encode(), {"csv_delimiter": "§"}, "é"),
        (b'I,1,"a;b",2,3;', {"csv_row_delimiter": ";"}, "a;b"),
        ('I,1,"a§b",2,3§'.encode(), {"csv_row_delimiter": "§"}, "a§b"),
        (b"I,1,a,2,3\r\n", {"csv_row_delimiter": "\r\n"}, "a"),
    ],
)
def test_what_arrow_splits(
    tmp_path: Path, parsed: list[bytes], content: bytes, dms: dict[str, Any], note: str | None
) -> None:
    assert [row[2] for row in found(tmp_path, content, **dms)] == [note]
    assert parsed == []


@pytest.mark.parametrize("block", [1, 300])
@pytest.mark.parametrize("seed", range(20))
def test_carriage_returns_inside_of_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parsed: list[bytes], seed: int, block: int
) -> None:
    """As Windows ends the lines of a text. What is read, and blocks, end anywhere."""
    chance = random.Random(seed)
    marks = ["\r\n", "\r", "\n", '"', ",", "a", "é", "", "\r\r"]
    notes = ["".join(chance.choices(marks, k=chance.randrange(9))) for _ in range(60)]
    fields = ('"' + note.replace('"', '""') + '"' for note in notes)
    content = "".join(f"I,{n},{field},2,3.50\n" for n, field in enumerate(fields)).encode()

    def chunks(*given: Any) -> Iterator[bytes]:
        left = content
        while left:
            size = chance.randrange(1, 40)
            yield left[:size]
            left = left[size:]

    monkeypatch.setattr(texts, "chunks", chunks)
    monkeypatch.setattr(blocks, "BLOCK", block)
    assert [row[2] for row in found(tmp_path, content)] == notes
    assert parsed == []


def test_python_parses_little_beside_a_bad_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parsed: list[bytes]
) -> None:
    monkeypatch.setattr(texts, "FEW", 100)
    monkeypatch.setattr(blocks, "BLOCK", 10_000)
    lines = [f"I,{number},a,2,3\n" for number in range(5_000)]
    for number in (0, 777, 2_500, 4_999):
        lines[number] = f"I,{number},a\n"
    rows = found(tmp_path, "".join(lines).encode())
    bad = [place for place, row in enumerate(rows) if len(row) == 1]
    assert bad == [0, 777, 2_500, 4_999]
    assert [row[1] for row in rows if len(row) > 1] == [str(n) for n in range(5_000) if n not in bad]
    assert len(parsed) == 4
    assert max(map(len, parsed)) <= 100


@pytest.mark.parametrize("header", [False, True])
def test_a_byte_order_mark_that_begins_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: bool
) -> None:
    """Only at the beginning of a file is it none of a value."""
    monkeypatch.setattr(blocks, "BLOCK", 60)
    monkeypatch.setattr(texts, "FEW", 0)
    layout, names = ("note", "id", "n", "price", "Op"), "note,id,n,price,Op\n"
    lines = [f"\ufeff{n},{n},2,3,I\n" if n else "first,0,2,3,I\n" for n in range(40)]
    lines[7], lines[20] = "of another width,1\n", "\ufeffof another width,1\n"
    rows = found(
        tmp_path, ((names if header else "") + "".join(lines)).encode(), layout, add_column_name=header
    )
    bad = [place for place, row in enumerate(rows) if len(row) == 1]
    assert bad == [7, 20]
    good = [n for n in range(40) if n not in bad]
    assert [rows[n][0] for n in good] == [f"\ufeff{n}" if n else "first" for n in good]


def test_a_byte_order_mark_among_json_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 1)
    folder = Folder(tmp_path, {"id": "long not null"}, ["id"])
    lines = ["\ufeff" + '{"Op": "I", "id": 1}', "", '{"Op": "I", "id": 2}', "\ufeff" + '{"Op": "I", "id": 3}']
    file = folder.put("public/items/20260301-120000000.json", "\n".join(lines).encode())
    assert file is not None
    read = [piece for piece in pieces(folder, file, ("Op", "id")) if len(piece)]
    assert [each for piece in read for each in piece.values["id"].to_pylist()] == ["1", "2", None]
    assert [each for piece in read for each in piece.bad.to_pylist()] == [
        None,
        None,
        "it is not a JSON object",
    ]


def test_delimiters_that_stand_for_others(tmp_path: Path) -> None:
    content = 'I§1§"a§b\x1fc"§2§3\x1f'.encode()
    assert found(tmp_path, content, csv_delimiter="§", csv_row_delimiter="\x1f") == [
        ("I", "1", "a§b\x1fc", "2", "3")
    ]


def test_a_record_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 100)
    long = "a line\n" * 1_000
    rows = found(tmp_path, USUAL + f'U,2,"{long}",2,3\n'.encode() + USUAL)
    assert [row[2] for row in rows] == ["a note", long, "a note"]


def test_records_of_one_table_among_transactions(tmp_path: Path, parsed: list[bytes]) -> None:
    """Names in quotes, with quotes in them, and with what has a meaning in patterns; other tables with more columns."""
    folder = Folder(tmp_path, {"id": "long not null", "v": "string"}, ["id"])
    lines = [
        'I,"a ""b"".*",public,1,x',
        'U,a,public,1,"I,a,public\nI,a,public,9,z"',
        '"U","a ""b"".*","public",2,"two\nlines"',
        'D,"a ""b"".*",other,3,x',
        'I,"a ""b"".cc",public,4,x',
        "I,public,public,5,6,7,8",
        'D,"a ""b"".*",public,6,',
        '"a ""b""","a ""b"".*",public,7,x',
    ]
    file = folder.put("public/items/20260301-120000000.csv", "".join(f"{each}\n" for each in lines).encode())
    assert file is not None
    file = replace(file, format=TRANSACTIONS, schema="public", table='a "b".*', irregular=None)
    (piece,) = pieces(folder, file, ("Op", "id", "v"))
    rows = zip(*(values.to_pylist() for values in piece.values.values()), strict=True)
    own = [("I", "1", "x"), ("U", "2", "two\nlines"), ("D", "6", ""), ('a "b"', "7", "x")]
    assert list(rows) == own
    assert piece.row.to_pylist() == [0, 1, 2, 3]
    assert parsed == []


def test_a_large_irregular_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.bronze.decode.records.LARGEST_IRREGULAR", 10)
    with pytest.raises(UnreadableFile, match="larger than 0 MiB, and"):
        found(tmp_path, b'I,1,a "note",2,3\n')

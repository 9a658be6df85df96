"""CSV files that are decoded without Spark: their values are those that Spark would read.

Here: every type and many spellings of its values, and the forms of a file. Not here: batches that are applied so
(`silver/write/test_csv_as_read.py`), operations, times and sequences (`test_parquet_values.py`).
"""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lake_assets.bronze.checked import csv_columns
from lake_assets.bronze.checked.csv_columns import decoded, decoded_types, may_be_decoded
from lake_assets.bronze.checked.dms_columns import FAULTS, Unusable
from lake_assets.bronze.checked.image_types import image_type
from lake_assets.bronze.checked.text_values import values_of
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.files.inspect import inspect_file
from lake_assets.bronze.files.keys import DataFile, FileKind
from lake_assets.bronze.layouts.file_layouts import named_layout
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.local_times import LocalClock
from lake_assets.storage.object_store import LocalStore
from lake_assets_tests.helpers.files.read_folder import Folder

COLUMNS = {"id": "long not null", "note": "string not null", "n": "int", "price": "decimal(12, 2)"}
USUAL = b"I,1,a note,2,3.50\n"


def found(
    folder: Path,
    content: bytes,
    columns: Mapping[str, str] = COLUMNS,
    layout: tuple[str, ...] = ("Op", "id", "note", "n", "price"),
    **dms: Any,
) -> list[tuple[Any, ...]] | None:
    """The decoded rows; None if Spark has to read the file."""
    settings = DmsSettings(**dms)
    table = TableConfig.model_validate({"columns": columns, "primary_key": ["id"]})
    (folder / "a.csv").write_bytes(content)
    store = LocalStore(str(folder))
    named = DataFile("a.csv", "public", "a", FileKind.CDC, "csv", "none", None, None)
    inspected = inspect_file(store, named, settings)

    class Logged:
        path, format, compression, kind = "a.csv", "csv", "none", FileKind.CDC
        irregular = inspected.irregular

    file: Any = Logged()
    if not may_be_decoded(file, table, settings):
        return None
    try:
        pieces = list(decoded(store, file, Layout(layout), table, settings))
    except FAULTS:
        return None
    types = decoded_types(Layout(layout), table, settings)
    rows: list[tuple[Any, ...]] = []
    for piece in pieces:
        for name, kind in types.items():
            held = piece.schema.field(name).type
            assert image_type(kind) == (held.value_type if pa.types.is_dictionary(held) else held)
        rows += [tuple(row.values()) for row in piece.to_pylist()]
    return rows


def test_a_usual_file(tmp_path: Path) -> None:
    rows = found(tmp_path, USUAL + b'U,2,"a ""quoted""\n note, of two lines",,-1\n')
    assert rows is None, "an empty field is no number: it is the text that NULL is not"
    rows = found(tmp_path, USUAL + b'U,2,"a ""quoted""\n note, of two lines",NULL,-1\nD,3,,NULL,NULL\n')
    assert rows is not None
    assert [row[:4] for row in rows] == [
        ("I", 1, "a note", 2),
        ("U", 2, 'a "quoted"\n note, of two lines', None),
        ("D", 3, "", None),
    ]
    assert [str(row[4]) for row in rows] == ["3.50", "-1.00", "None"]


@pytest.mark.parametrize(
    ("content", "dms"),
    [
        (b"I,1,a\r\n,2,3.50\n", {}),
        (b"I,1,a\rb,2,3.50\n", {}),
        (b'I,1,"a",2,3.50\r\n', {}),
        (b'I,1,"a\rb",2,3.50\n', {"rfc_4180": False}),
        (b"I,1,a note,2\n", {}),
        (b"I,1,a note,2,3.505\n", {}),
        (b"I,1,a note,0x10,3\n", {}),
        (b"I,0x1,a note,1,3\n", {}),
        (b"I,1,a note,2147483648,3\n", {}),
        (b"I,1,,2,3\n", {"csv_null_value": ""}),
        (b"I,1,a note,2,3", {}),
        (b'I,1,a "note",2,3\n', {}),
        (b"I,1,\xff,2,3\n", {}),
        (b"\xef\xbb\xbfI,1,a,2,3\n", {}),
        (b"I,1,a,2,3;I,2,b,2,3;", {"csv_row_delimiter": ";"}),
        (b"I,1,?,2,3\n", {"csv_no_sup_value": "?"}),
        (b"I,1,a,-7,3\n", {"csv_no_sup_value": "-7"}),
        (b"", {}),
    ],
)
def test_what_is_left_to_spark(tmp_path: Path, content: bytes, dms: dict[str, Any]) -> None:
    assert found(tmp_path, content, **dms) is None


def test_rows_with_every_value(tmp_path: Path) -> None:
    rows = found(tmp_path, b"U,1,a?,2,3\n", csv_no_sup_value="?")
    assert rows is not None
    assert rows[0][:4] == ("U", 1, "a?", 2)


@pytest.mark.parametrize("seed", range(30))
def test_carriage_returns_inside_of_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """As Windows ends the lines of a text. Pieces and blocks end anywhere."""
    chance = random.Random(seed)
    marks = ["\r\n", "\r", "\n", '"', ",", "a", "é", "", "\r\r"]
    notes = ["".join(chance.choices(marks, k=chance.randrange(9))) for _ in range(60)]
    fields = ('"' + note.replace('"', '""') + '"' for note in notes)
    content = "".join(f"I,{n},{field},2,3.50\n" for n, field in enumerate(fields)).encode()

    def pieces(*given: Any) -> Iterator[bytes]:
        left = content
        while left:
            size = chance.randrange(1, 40)
            yield left[:size]
            left = left[size:]

    monkeypatch.setattr(csv_columns, "chunks", pieces)
    monkeypatch.setattr(csv_columns, "BLOCK", 300)
    rows = found(tmp_path, content)
    assert rows is not None
    assert [row[2] for row in rows] == notes


@pytest.mark.parametrize("end", [b"a\r", b'"a"\r', b'""\r', b"\ra", b'"a\n"\r'])
def test_a_carriage_return_outside_of_quotes_after_some_inside(tmp_path: Path, end: bytes) -> None:
    first = b'I,1,"a\r\nb",2,3.50\n'
    assert found(tmp_path, first + b"I,2,b,2,3.50\n") is not None
    assert found(tmp_path, first + b"I,2," + end + b",2,3.50\n") is None


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
    ],
)
def test_settings_of_the_endpoint(
    tmp_path: Path, content: bytes, dms: dict[str, Any], note: str | None
) -> None:
    rows = found(tmp_path, content, **dms)
    assert rows is not None
    assert [row[2] for row in rows] == [note]


@pytest.mark.parametrize("declared", ["string", "binary"])
def test_before_images_that_dms_did_not_write(tmp_path: Path, declared: str) -> None:
    """An empty field, whatever the null token; of a key of texts or bytes it is a value if another part of the key was
    written."""
    columns = {"id": "long not null", "note": f"{declared} not null"}
    table = TableConfig.model_validate({"columns": columns, "primary_key": ["id", "note"]})
    dms = DmsSettings(before_image_prefix="BI_")
    (tmp_path / "a.csv").write_bytes(b"I,1,aa,,\nU,2,bb,7,\nU,3,cc,NULL,0F\n")

    class Logged:
        path, compression = "a.csv", "none"

    file: Any = Logged()
    layout = Layout(("Op", "id", "note", "BI_id", "BI_note"))
    (piece,) = decoded(LocalStore(str(tmp_path)), file, layout, table, dms)
    rows = piece.select(["BI_id", "BI_note"]).to_pylist()
    empty, written = ("", "0F") if declared == "string" else (b"", b"\x0f")
    assert [tuple(row.values()) for row in rows] == [(None, None), (7, empty), (None, written)]


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("decimal(10, 2)", "340282366920938463463374607431762114560"),  # 2**128 - 6096896 * 10**2, about
        ("decimal(10, 2)", "1e-999"),
        ("decimal(10, 2)", "1000000000000000.00000000000000500000000000000000000e-50"),
        ("decimal(10, 2)", "123456789.00"),
        ("decimal(38, 0)", "9" * 39),
        ("decimal(38, 38)", "4"),
        ("decimal(38, 4)", "410009090749430807060507804449523222"),
    ],
)
def test_a_number_that_arrow_would_cut_has_no_value(declared: str, text: str) -> None:
    assert values_of(pa.chunked_array([[text]]), declared, LocalClock()).null_count == 1


@pytest.mark.parametrize("text", ["0.01", "-12345678.90", ".5", "+7", "7.", "99999999.9900000", None])
def test_a_plain_decimal_is_decoded(text: str | None) -> None:
    texts = pa.chunked_array([pa.array([text], pa.string())])
    assert values_of(texts, "decimal(10, 2)", LocalClock()).null_count == (text is None)


def test_an_absent_text_that_is_empty_where_null_is_is_left_to_spark(tmp_path: Path) -> None:
    columns = {"id": "long not null", "v": "string not null"}
    folder = Folder(tmp_path, columns, ["id"], add_column_name=True, csv_null_value="")
    file = folder.put("public/items/20260301-120000000.csv", b"Op,id\nI,1\n")
    assert file is not None
    assert file.columns is not None
    layout = named_layout(file, file.columns, "public.items", folder.table, folder.dms)
    with pytest.raises(Unusable):
        list(decoded(folder.store, file, layout, folder.table, folder.dms))

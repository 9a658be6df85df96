"""Files that this process decodes: those of one layout are read together, with the rows that each has alone.

Here: what each file has, and its bad rows. Not here: batches that are applied so (`silver/write/test_held_rows.py`),
single values (`bronze/values/test_text_values.py`, `bronze/values/test_exact_conversions.py`).
"""

from collections import Counter
from collections.abc import Sequence
from datetime import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.bronze.decode import files as decoding
from lake_assets.bronze.decode.files import changes_in_pieces, decoded_changes
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.errors import TableStopped
from lake_assets.storage.object_store import StoreError
from lake_assets_tests.helpers.files.read_folder import Folder

COLUMNS = {"id": "long not null", "note": "string", "price": "decimal(6, 2)"}
SETTINGS: dict[str, Any] = {
    "add_column_name": True,
    "timestamp_column_name": "ts",
    "change_sequence_column": "seq",
    "include_op_for_full_load": True,
    "before_image_prefix": "BI_",
}


def folder_of(path: Path, extension: str) -> Folder:
    """A full load of two files, and CDC of two layouts in turn; of one file, the key moves."""
    folder = Folder(path, COLUMNS, ["id"], data_format=extension, **SETTINGS)
    loads: list[list[tuple[Any, ...]]] = [
        [("I", f"2026-03-01 12:00:0{n}", n * 10 + k, f"loaded {k}", "1.00") for k in range(3)] for n in (0, 1)
    ]
    for number, rows in enumerate(loads, start=1):
        put(
            folder, f"public/items/LOAD0000000{number}.{extension}", ["Op", "ts", "id", "note", "price"], rows
        )
    for number in range(8):
        op = "IUD"[number % 3]
        sequences = [f"2026030112{number:02}{k:02}{'0' * 20}7" for k in range(number + 1)]
        rows = [
            (
                op,
                f"2026-03-01 12:0{number}:00",
                sequence,
                number * 100 + k,
                None if k else f"{op} {number}",
                "2.50",
            )
            for k, sequence in enumerate(sequences)
        ]
        names = ["Op", "ts", "seq", "id", "note", "price"]
        if number % 2:
            rows = [(*row, row[3] + (number == 7)) for row in rows]
            names.append("BI_id")
        put(folder, f"public/items/20260301-120{number}30000.{extension}", names, rows)
    return folder


def put(folder: Folder, key: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Writes a file with these columns; the texts of numbers as numbers, where the format has types."""
    if key.endswith("csv"):
        lines = [",".join("NULL" if value is None else str(value) for value in row) for row in [names, *rows]]
        folder.put(key, "".join(f"{line}\n" for line in lines).encode())
        return
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    numbers = pa.array(columns["price"]).cast(pa.decimal128(6, 2))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns | {"price": numbers}), sink)
    folder.put(key, sink.getvalue().to_pybytes())


def changes(folder: Folder, files: Sequence[LoggedFile]) -> list[dict[str, Any]]:
    """The rows of the files, in the order of their names."""
    found = decoded_changes(
        folder.store, files, name="public.items", table=folder.table, dms=folder.dms, partial=True
    )
    assert found is not None
    rows: list[dict[str, Any]] = found.to_pylist()
    return sorted(rows, key=lambda row: (row["_file"], row["_row"]))


@pytest.mark.parametrize("extension", ["csv", "parquet"])
@pytest.mark.parametrize("threads", [1, 2])
def test_files_that_are_read_together_have_the_rows_that_each_has_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str, threads: int
) -> None:
    monkeypatch.setattr(decoding, "AT_ONCE", threads)
    folder = folder_of(tmp_path, extension)
    together = changes(folder, folder.files)
    assert together == sorted(
        (row for file in folder.files for row in changes(folder, [file])),
        key=lambda row: (row["_file"], row["_row"]),
    )
    assert Counter(row["_op"] for row in together) == {"I": 6 + 1 + 4 + 7, "U": 2 + 5 + 8, "D": 3 + 6}
    moved = [row for row in together if row["before_0"] not in (None, row["image_0"])]
    assert [row["before_0"] for row in moved] == [n + 1 for n in range(700, 708)]
    assert {row["_bad"] for row in together} == {None}


@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_a_bad_value_makes_its_row_bad(tmp_path: Path, extension: str) -> None:
    folder = folder_of(tmp_path, "csv")
    good = changes(folder, folder.files)
    names = ["Op", "ts", "seq", "id", "note", "price"]
    sequence = f"2026030113{'0' * 24}7"
    rows = [("U", "2026-03-01 13:00:00", sequence, 1, "a", price) for price in ("no number", "1.00")]
    put(folder, "public/items/20260301-130000000.csv", names, rows)
    found = changes(folder, folder.files)
    bad = "price is not a valid decimal(6, 2): 'no number'"
    assert [row["_bad"] for row in found if "130000000" in row["_file"]] == [bad, None]
    assert [row for row in found if "130000000" not in row["_file"]] == good


def test_rows_that_would_take_too_much_memory_are_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path, "csv")
    given: dict[str, Any] = {"name": "public.items", "table": folder.table, "dms": folder.dms}
    monkeypatch.setattr(decoding, "MOST_DECODED", 10)
    assert decoded_changes(folder.store, folder.files, **given, partial=True) is None


UUID = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"


@pytest.mark.parametrize(
    ("declared", "values", "expected"),
    [
        (
            "time",
            pa.array([time(0, 0), time(23, 59, 59, 500_000)], pa.time64("us")),
            ["00:00:00", "23:59:59.500000"],
        ),
        ("time", pa.array([time(12, 0), None], pa.time32("ms")), ["12:00:00", None]),
        ("time", pa.array([time(12, 0, 0, 1), None], pa.time64("ns")), ["12:00:00.000001", None]),
        ("time", pa.array([1], pa.time64("ns")), None),
        ("time", pa.array([86_400_000_000], pa.time64("us")), None),
        ("time", pa.array([-1], pa.time64("us")), None),
        ("time", pa.array([None], pa.time64("us")), [None]),
        ("uuid", pa.array([UUID.upper(), None]), [UUID, None]),
        ("uuid", pa.array([UUID[1:]]), None),
        ("json", pa.array(['{"a": 1}', None]), ['{"a": 1}', None]),
        ("json", pa.array(["{"]), None),
        ("decimal(6, 2)", pa.array(["1.5", "25e-1"]), [Decimal("1.50"), Decimal("2.50")]),
        ("long", pa.array([2**32 - 1], pa.uint32()), [2**32 - 1]),
        ("decimal(20, 0)", pa.array([2**64 - 1], pa.uint64()), [Decimal(2**64 - 1)]),
        ("binary", pa.array([b"\xff", b""]), [b"\xff", b""]),
        ("int", pa.array([2**31], pa.int64()), None),
    ],
    ids=str,
)
def test_columns_of_other_types_in_parquet(
    tmp_path: Path, declared: str, values: pa.Array, expected: list[Any] | None
) -> None:
    """As silver has them; None where a value is none of its type."""
    folder = Folder(
        tmp_path, {"id": "long not null", "v": declared}, ["id"], data_format="parquet", **SETTINGS
    )
    number = len(values)
    rows = {
        "Op": pa.repeat("I", number),
        "ts": pa.repeat("2026-03-01 12:00:00", number),
        "seq": [f"2026030112{place:02}{'0' * 22}7" for place in range(number)],
        "id": pa.array(range(number), pa.uint32()),
        "v": values,
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(rows), sink)
    folder.put("public/items/20260301-120030000.parquet", sink.getvalue().to_pybytes())
    found = changes(folder, folder.files)
    assert [row["image_0"] for row in found] == [*range(number)]
    if expected is None:
        assert [row["_bad"].split(":")[0] for row in found] == [f"v is not a valid {declared}"] * number
    else:
        assert [row["image_1"] for row in found] == expected


def test_a_column_that_is_also_a_before_image_has_two_types(tmp_path: Path) -> None:
    columns = {"id": "uuid not null", "BI_id": "string"}
    for prefix, before in (("BI_", UUID), (None, None)):
        settings = SETTINGS | {"before_image_prefix": prefix}
        folder = Folder(tmp_path / str(prefix), columns, ["id"], data_format="parquet", **settings)
        names = ["Op", "ts", "id", "BI_id"]
        rows = dict(zip(names, [["I"], ["2026-03-01 12:00:00"], [UUID], [UUID.upper()]], strict=True))
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(rows), sink)
        folder.put("public/items/LOAD00000001.parquet", sink.getvalue().to_pybytes())
        (row,) = changes(folder, folder.files)
        assert (row["image_1"], row["before_0"], row["_bad"]) == (UUID.upper(), before, None)


def text(folder: Folder, key: str, *lines: str) -> None:
    folder.put(f"public/items/{key}.csv", "".join(f"{line}\n" for line in lines).encode())


def parquet(folder: Folder, key: str, **columns: Any) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    folder.put(f"public/items/{key}.parquet", sink.getvalue().to_pybytes())


@pytest.mark.parametrize(
    ("default", "expected"),
    [(0, "0"), (0.0, "0.0"), (1e10, "1.0E10"), (True, "true"), ("x", "x"), (2**70, str(2**70))],
)
def test_the_default_of_a_column_that_a_file_lacks(tmp_path: Path, default: Any, expected: str) -> None:
    folder = Folder(tmp_path, {"id": "long not null", "v": "string"}, ["id"], **SETTINGS)
    folder.table = folder.table.model_copy(update={"defaults": {"v": default}})
    text(folder, "LOAD00000001", "Op,ts,id", "I,2026-03-01 12:00:00,1")
    (row,) = changes(folder, folder.files)
    assert (row["image_1"], row["_bad"]) == (expected, None)


def test_an_update_keeps_the_value_of_a_column_that_its_file_lacks(tmp_path: Path) -> None:
    """Whatever the column's default is; the columns with the marker come first."""
    columns = {"id": "long not null", "a": "string", "b": "string"}
    folder = Folder(tmp_path, columns, ["id"], csv_no_sup_value="?", **SETTINGS)
    settings = {"defaults": {"a": "dflt"}, "kept_when_null": ("a", "b")}
    folder.table = folder.table.model_copy(update=settings)
    text(folder, "20260301-130000000", "Op,ts,seq,id,b", f"U,2026-03-01 13:00:00,{'2' * 35},1,?")
    (row,) = changes(folder, folder.files)
    assert (row["_unsupplied"], row["_bad"]) == (["b", "a"], None)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_text_that_is_not_utf_8(tmp_path: Path, kind: pa.DataType) -> None:
    folder = Folder(tmp_path, {"id": "long not null", "note": "string"}, ["id"], **SETTINGS)
    plain = pa.array([b"a\xff", b"b"]).view(pa.string())
    stamps = ["2026-03-01 12:00:00"] * 2
    parquet(folder, "LOAD00000001", Op=["I", "I"], ts=stamps, id=[1, 2], note=plain.cast(kind))
    bad, good = changes(folder, folder.files)
    assert (bad["_bad"], bad["image_1"]) == ("note is not UTF-8", "a\ufffd")
    assert (good["_bad"], good["image_1"]) == (None, "b")


def test_a_parquet_column_of_no_type_stops_the_table(tmp_path: Path) -> None:
    folder = Folder(tmp_path, {"id": "long not null"}, ["id"], **SETTINGS)
    span = pa.array([1], pa.duration("us"))
    parquet(folder, "LOAD00000001", Op=["I"], ts=["2026-03-01 12:00:00"], id=[1], span=span)
    with pytest.raises(TableStopped, match="span of Parquet type"):
        changes(folder, folder.files)


def test_a_row_of_another_width_and_a_file_that_is_gone(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "csv")
    given: dict[str, Any] = {"name": "public.items", "table": folder.table, "dms": folder.dms}
    text(folder, "20260301-130000000", "Op,ts,seq,id,note,price", f"I,2026-03-01 13:00:00,{'2' * 35},1")
    assert [row["_bad"] for row in changes(folder, folder.files[-1:])] == ["not 6 fields, but 4"]
    (tmp_path / folder.files[0].key).unlink()
    assert decoded_changes(folder.store, folder.files[:-1], **given, partial=True) is None
    with pytest.raises(StoreError, match=folder.files[0].key):
        list(changes_in_pieces(folder.store, folder.files[0], **given, partial=True))


@pytest.mark.parametrize(
    ("written", "expected"), [(True, "own"), (False, "generated"), (None, "both")], ids=str
)
def test_sequences_of_dms_and_generated_ones(tmp_path: Path, written: bool | None, expected: str) -> None:
    folder = folder_of(tmp_path, "csv")
    own, none = "2" * 35, ""
    sequences = {True: [own, own], False: [none, none], None: [own, none]}[written]
    lines = [f"U,2026-03-01 13:00:0{n}.129,{sequence},1,a,1.00" for n, sequence in enumerate(sequences)]
    text(folder, "20260301-130000000", "Op,ts,seq,id,note,price", *lines)
    zeros = "0" * 19
    generated = [f"2026030113000{n}12{zeros}"[:16] + zeros for n in range(2)]
    wanted = {"own": [own, own], "generated": generated, "both": [own, generated[1]]}[expected]
    assert [row["_sequence"] for row in changes(folder, folder.files[-1:])] == wanted

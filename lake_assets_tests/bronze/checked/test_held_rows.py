"""Files whose rows this process holds: those of one layout are read together, with the rows that each has alone.

Here: which files are read together, and what each has. Not here: batches that are applied so
(`silver/write/test_held_rows.py`), the values of a CSV file (`test_csv_columns.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.bronze.checked import held_rows
from lake_assets.bronze.checked.dms_columns import DmsFigures
from lake_assets.bronze.checked.held_rows import held_files
from lake_assets.bronze.log.log_record import LoggedFile
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


def held(
    folder: Folder, files: Sequence[LoggedFile]
) -> tuple[dict[int, Any], dict[int, Any], DmsFigures] | None:
    """The images and the changes by file, and the figures of all."""
    found = held_files(folder.store, files, name="public.items", table=folder.table, dms=folder.dms)
    if found is None:
        return None
    images: dict[int, Any] = {}
    changes: dict[int, Any] = {}
    for one in found:
        assert one.checked.rows.changes is not None
        by_file = one.checked.by_file(one.checked.rows.changes)
        images |= {offset: rows.to_pylist() for offset, rows in one.checked.by_file(one.images).items()}
        # Files that were read with those of which a key moves have its column, too.
        changes |= {
            offset: [{"_old_0": None} | row for row in rows.to_pylist()] for offset, rows in by_file.items()
        }
    return images, changes, sum((one.checked.rows.figures for one in found), DmsFigures())


@pytest.mark.parametrize("extension", ["csv", "parquet"])
@pytest.mark.parametrize("bytes_at_once", [held_rows._BYTES_AT_ONCE, 1])
@pytest.mark.parametrize("threads", [1, 2])
def test_files_that_are_read_together_have_the_rows_that_each_has_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str, bytes_at_once: int, threads: int
) -> None:
    monkeypatch.setattr(held_rows, "_BYTES_AT_ONCE", bytes_at_once)
    monkeypatch.setattr(held_rows, "AT_ONCE", threads)
    folder = folder_of(tmp_path, extension)
    together = held(folder, folder.files)
    assert together is not None
    images, changes, figures = together
    alone = [held(folder, [file]) for file in folder.files]
    assert [one is None for one in alone] == [False] * 10
    assert images == {key: rows for one in alone if one for key, rows in one[0].items()}
    assert figures == sum((one[2] for one in alone if one), DmsFigures())
    assert figures.by_op == {"I": 6 + 1 + 4 + 7, "U": 2 + 5 + 8, "D": 3 + 6}
    assert changes == {key: rows for one in alone if one for key, rows in one[1].items()}
    assert [row["_old_0"] for row in changes[10]] == [n + 1 for n in range(700, 708)]


@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_a_file_is_not_held_if_it_has_other_rows_than_by_its_count(tmp_path: Path, extension: str) -> None:
    folder = folder_of(tmp_path, extension)
    numbers = [file.rows for file in folder.files]
    assert numbers[3:5] == [2, 3]
    assert held(folder, folder.files[2:]) is not None
    # The number of all rows is the same.
    swapped = {folder.files[2].offset: 3, folder.files[4].offset: 1}
    files = [replace(file, rows=swapped.get(file.offset, file.rows)) for file in folder.files[2:]]
    assert sum(file.rows or 0 for file in files) == sum(number or 0 for number in numbers[2:])
    assert held(folder, files) is None


def test_one_bad_value_leaves_all_files_to_spark(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "csv")
    put(
        folder,
        "public/items/20260301-130000000.csv",
        ["Op", "ts", "seq", "id", "note", "price"],
        [("U", "2026-03-01 13:00:00", f"2026030113{'0' * 24}7", 1, "a", "no number")],
    )
    assert held(folder, folder.files[:-1]) is not None
    assert held(folder, folder.files) is None


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
        ("int", pa.array([1], pa.int64()), None),
    ],
    ids=str,
)
def test_columns_of_other_types_in_parquet(
    tmp_path: Path, declared: str, values: pa.Array, expected: list[Any] | None
) -> None:
    """As silver has them; None where Spark has to say what is wrong, or to convert them."""
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
    found = held(folder, folder.files)
    assert (found is None) == (expected is None)
    if found is not None:
        ((images,), (changes,)) = (each.values() for each in found[:2])
        assert images == [{"id": place, "v": value} for place, value in enumerate(expected or ())]
        assert [row["_key_0"] for row in changes] == [*range(number)]


def test_a_column_that_is_also_a_before_image_is_left_to_spark(tmp_path: Path) -> None:
    columns = {"id": "uuid not null", "BI_id": "string"}
    for prefix, is_held in (("BI_", False), (None, True)):
        settings = SETTINGS | {"before_image_prefix": prefix}
        folder = Folder(tmp_path / str(prefix), columns, ["id"], data_format="parquet", **settings)
        names = ["Op", "ts", "id", "BI_id"]
        rows = dict(zip(names, [["I"], ["2026-03-01 12:00:00"], [UUID], ["Text"]], strict=True))
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(rows), sink)
        folder.put("public/items/LOAD00000001.parquet", sink.getvalue().to_pybytes())
        found = held(folder, folder.files)
        assert (found is not None) == is_held

"""Rows of transaction files as typed changes: field by field what the reader makes of a table's own file.

Here: `read_changes` on files made by hand, without Iceberg. Not here: whose rows a file holds (`test_transactions.py`),
what fields mean (`test_reader.py`).
"""

import csv
import io
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lake_assets.bronze.decode.records import RETURN_FAULT
from lake_assets.bronze.decode.recount import counted
from lake_assets.bronze.scan.discovery import discover
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.storage.object_store import open_store
from lake_assets_tests.helpers.files.damage import damaged
from lake_assets_tests.helpers.files.dms_files import put
from lake_assets_tests.helpers.files.read_folder import read_changes
from lake_assets_tests.helpers.lakes.small_lakes import DMS, small_lake

pytestmark = pytest.mark.spark

COLUMNS = {"id": "long not null", "name": "string not null", "note": "string", "at": "timestamptz"}
FIELDS = [
    *(
        b"",
        b'""',
        b"NULL",
        b'"NULL"',
        b"\\N",
        b" x ",
        b'" x "',
        b"#no comment",
        b"\\",
        b"back\\slash\\",
        b"a\rb",
    ),
    *(b'"a\r\nb\n\nc"', b'"d ""e"", f"', b'""""', b'"\n"', b"'", "Zoë ☕😀".encode(), b"-", b"\t", b'"\\"'),
]
"""As they stand in a file, under Rfc4180."""
PLAIN = [field for field in FIELDS if b"\n" not in field]


def open_tables(folder: Path, **dms: Any) -> tuple[Lake, Any]:
    """A lake of tables of the same columns, and their changes by `schema.table`."""
    table = {"columns": COLUMNS, "primary_key": ["id"]}
    settings = DMS | {"add_column_name": False, "preserve_transactions": True, "cdc_path": "cdc"} | dms
    names = ("public.items", "public.own", "public.other")
    lake = small_lake(folder, dict.fromkeys(names, table), source={"dms": settings})
    source = lake.config.sources["shop"]
    store = open_store(source.location, source.s3)

    def read(name: str) -> DataFrame:
        discover("shop", source, store, lake.runtime.file_log)
        files = lake.runtime.file_log.files("shop", name)
        spark = lake.runtime.sessions.root()
        return read_changes(spark, store, files, name=name, table=source.tables[name], dms=source.dms)

    return lake, read


def random_rows(rng: Random, fields: list[bytes], dms: dict[str, Any], number: int) -> list[bytes]:
    """What follows the Op in a table's own file; some of another width, some with a value that does not fit."""
    rows = []
    for key in range(number):
        stamp = b"2026-03-01 12:%02d:00.000000" % (key % 60)
        row = [b"%d" % key, *rng.choices(fields, k=2), stamp]
        if width(dms) > 5:
            row = [stamp, *row, b"%035d" % key, rng.choice([b"NULL", b"", b"7"])]
        if rng.random() < 0.1:
            row += rng.choices(fields, k=rng.randint(1, 9))
        elif rng.random() < 0.1:
            row = row[: rng.randint(1, len(row) - 1)]
        elif rng.random() < 0.1:
            row[rng.randrange(len(row))] = rng.choice(fields)
        rows.append(dms.get("csv_delimiter", ",").encode().join(row))
    return rows


def width(dms: dict[str, Any]) -> int:
    """Fields of a row of the table's own file."""
    return 5 if "before_image_prefix" in dms else 8


@pytest.mark.parametrize(
    ("dms", "extension"),
    [
        pytest.param({}, "csv", marks=pytest.mark.long),
        ({"csv_null_value": ""}, "csv.gz"),
        ({"csv_null_value": "\\N", "csv_delimiter": ";"}, "csv"),
        ({"rfc_4180": False}, "csv"),
        (
            {"timestamp_column_name": None, "change_sequence_column": None, "before_image_prefix": None},
            "csv.gz",
        ),
    ],
)
def test_the_same_as_from_a_file_of_the_table(
    spark: SparkSession, tmp_path: Path, dms: dict[str, Any], extension: str
) -> None:
    rng = Random(str(dms))
    delimiter = dms.get("csv_delimiter", ",").encode()
    fields = FIELDS if dms.get("rfc_4180", True) else PLAIN
    rows = random_rows(rng, fields, dms, 400)
    operations = rng.choices([b"I", b"U", b"D", b"X"], [5, 5, 2, 1], k=len(rows))
    own = [delimiter.join([op, row]) for op, row in zip(operations, rows, strict=True)]
    mixed = []
    for op, row in zip(operations, rows, strict=True):
        mixed.append(delimiter.join([op, b"items", b"public", row]))
        others = (rng.choices(fields, k=rng.randint(1, 30)) for _ in range(rng.randrange(3)))
        mixed += [delimiter.join([b"I", b"other", b"public", *other]) for other in others]
    put(tmp_path / "bronze", f"public/own/20260301-130000000.{extension}", b"\n".join(own) + b"\n")
    put(tmp_path / "bronze", f"cdc/CDC_TXN-20260301130000000.{extension}", b"\n".join(mixed) + b"\n")
    lake, read = open_tables(tmp_path, **dms)

    def seen(name: str) -> list[Any]:
        found = read(name).orderBy("_row").drop("_file", "_row").collect()
        # What an unusable row's fields are is nobody's to use.
        return [{"_bad": row["_bad"]} if row["_bad"] else row.asDict(recursive=True) for row in found]

    expected, got = seen("public.own"), seen("public.items")
    for row in expected:
        # Of a transaction file the width includes TABLE and SCHEMA.
        row["_bad"] = row["_bad"] and row["_bad"].replace(
            f"not {width(dms)} fields", f"not {width(dms) + 2} fields"
        )
    assert got == expected
    assert len(got) == len(rows)
    assert any(row["_bad"] for row in got)
    assert any(not row["_bad"] for row in got)
    (share,) = lake.runtime.file_log.files("shop", "public.items")
    assert share.rows == len(rows)


def test_records_larger_than_any_buffer_and_their_order(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads a file in pieces of a megabyte; the whole record has to be at hand wherever they end."""
    line = b'I,items,public,2026-03-01 12:00:00.000000,%d,"%b",NULL,NULL,%035d,NULL'
    lines = []
    for key in range(3000):
        size = 3_000_000 if key == 1500 else key * 7919 % 2500
        lines.append(line % (key, b'x"",\n' * (size // 5), key))
        lines.append(b'I,other,public,"%b"' % (b"y\n" * (key % 50)))
    put(tmp_path / "bronze", "cdc/CDC_TXN-20260301130000000.csv", b"\n".join(lines) + b"\n")
    _, read = open_tables(tmp_path)
    rows = (
        read("public.items")
        .orderBy("_row")
        .selectExpr("_bad", "_image.id", "length(_image.name) n")
        .collect()
    )
    assert [row["_bad"] for row in rows if row["_bad"]] == []
    assert [row["id"] for row in rows] == list(range(3000))
    assert rows[1500]["n"] == 3_000_000 // 5 * 4
    assert rows[1]["n"] == 7919 % 2500 // 5 * 4


def test_a_byte_order_mark(spark: SparkSession, tmp_path: Path) -> None:
    """DMS writes none; the row behind one is its table's to judge, and counts."""
    row = b"I,items,public,2026-03-01 12:00:00.000000,1,a,b,NULL,,NULL\n"
    put(tmp_path / "bronze", "cdc/CDC_TXN-20260301130000000.csv", b"\xef\xbb\xbf" + row + row)
    lake, read = open_tables(tmp_path)
    assert len(read("public.items").collect()) == 2
    (share,) = lake.runtime.file_log.files("shop", "public.items")
    assert share.rows == 2


@pytest.mark.parametrize(
    "names",
    [
        ("trips", "trips"),
        ("trips_1", "trips_2"),
        pytest.param(("trips_2", "trips_1"), marks=pytest.mark.long),
    ],
)
def test_a_carriage_return_behind_the_last_text(
    spark: SparkSession, tmp_path: Path, names: tuple[str, str]
) -> None:
    """Outside of quotes, it may end the text or the line; inside, it is a part of the text. With partitions, the text
    is a before image, and only one of them has such rows in the file."""
    table: dict[str, Any] = {"columns": {"id": "string not null", "v": "string"}, "primary_key": ["id"]}
    settings: dict[str, Any] = {"preserve_transactions": True, "cdc_path": "cdc"}
    of, before_last = "_image.v", b"x"
    if names[0] != names[1]:
        table["folders"] = ["trips_*"]
        settings |= {"change_sequence_column": "change_seq", "before_image_prefix": "BI_"}
        of, before_last = "_before.id", b"x,y,%035d" % 1
    lake = small_lake(tmp_path, {"public.trips": table}, source={"dms": settings})
    ends = zip((names[0], names[0], names[1]), (b'"a\r"', b"a\r", b"a"), strict=True)
    rows = [b"U,%b,public,%b,%b\n" % (name.encode(), before_last, last) for name, last in ends]
    put(tmp_path / "bronze", "cdc/CDC_TXN-20260301130000000.csv", b"I,other,public,a\r\n" + b"".join(rows))
    source = lake.config.sources["shop"]
    store = open_store(source.location, source.s3)
    discover("shop", source, store, lake.runtime.file_log)
    (file,) = lake.runtime.file_log.files("shop", "public.trips")
    assert file.rows == 3
    read: dict[str, Any] = {"name": "public.trips", "table": source.tables["public.trips"], "dms": source.dms}
    counted_again = counted(store, replace(file, rows=None, irregular=None), source.dms, source.tables)
    for known in (file, counted_again):
        changes = read_changes(lake.runtime.sessions.root(), store, [known], **read)
        found = changes.orderBy("_row").selectExpr("_bad", of).collect()
        assert [bad or value for bad, value in found] == ["a\r", RETURN_FAULT, "a"]


def test_of_damaged_files_each_row_is_right_or_bad(spark: SparkSession, tmp_path: Path) -> None:
    """Spark sees in them what another parser sees, field by field, or calls the row bad; and as many rows as the pass
    without Spark has counted."""
    columns = {"a": "string", "b": "string", "c": "string"}
    table = {"columns": columns, "mode": "append_log"}
    settings = {"preserve_transactions": True, "cdc_path": "cdc"}
    lake = small_lake(tmp_path, {"public.trips": table}, source={"dms": settings})
    rng = Random(8)
    contents = {}
    for number in range(400):
        key = f"cdc/CDC_TXN-20260301{120000000 + number:09d}.csv"
        contents[key] = damaged(rng)
        put(tmp_path / "bronze", key, contents[key])
    source = lake.config.sources["shop"]
    store = open_store(source.location, source.s3)
    discover("shop", source, store, lake.runtime.file_log)
    files = [f for f in lake.runtime.file_log.files("shop", "public.trips") if f.rows is not None]
    assert 60 < len(files) < 400
    changes = read_changes(
        lake.runtime.sessions.root(),
        store,
        files,
        name="public.trips",
        table=source.tables["public.trips"],
        dms=source.dms,
    )
    seen: dict[str, list[Any]] = defaultdict(list)
    for row in changes.orderBy("_file", "_row").collect():
        key = "cdc/" + row["_file"].rsplit("/", 1)[-1]
        seen[key].append("bad" if row["_bad"] else (row["_op"], *row["_image"]))
    for file in files:
        text = io.StringIO(contents[file.key].decode(), newline="")
        rows = [r for r in csv.reader(text, strict=True) if r[1:3] == ["trips", "public"]]
        assert file.rows == len(rows)
        assert seen[file.key] == [_expected(row) for row in rows], contents[file.key]


def _expected(row: list[str]) -> Any:
    op, _, _, *values = row
    if len(values) != 3 or op not in ("I", "U", "D"):
        return "bad"
    return (op, *(None if value == "NULL" else value for value in values))

"""Rows of many columns are typed by arrays, and mean what they mean column by column, faults included.

Here: both ways compared on the same files, and a thousand columns. Not here: what a value means
(`test_reading_properties.py`, which takes both ways in turn).
"""

import io
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.reader import wide_rows
from lake_assets_tests.helpers.files.read_folder import Folder

pytestmark = pytest.mark.spark

VALUES = {
    "string": ["text", "", "NULL"],
    "long": ["1", "-5", "", "1.5", "99999999999999999999", "NULL"],
    "int": ["7", "7000000000", "NULL"],
    "decimal(10, 2)": ["1.50", "1.555", "x", "NULL", "1e2"],
    "double": ["1.5", "nope", "1e999", ""],
    "boolean": ["true", "f", "maybe", "NULL"],
    "date": ["2026-03-01", "2026-02-30", "NULL"],
    "timestamptz": ["2026-03-01 10:00:00.123456", "10:00", "NULL"],
    "timestamp": ["2026-03-01 10:00:00", "yesterday", "NULL"],
    "binary": ["ff00", "f", "NULL"],
    "uuid": ["0F0E0D0C-0B0A-0908-0706-050403020100", "0F0E", "NULL"],
    "json": ['{"a":1}', "{", "NULL"],
    "time": ["10:00:00", "25:00:00", "NULL"],
}
"""By type, values that are one and values that are not."""
COLUMNS = {"id": "long not null"} | {
    f"{kind.split('(')[0]}_{number}": kind for number in range(2) for kind in VALUES
}
COLUMNS["long_1"] = "long not null"
COLUMNS["string_1"] = "string not null"
DMS = {
    "add_column_name": True,
    "timestamp_column_name": "commit_ts",
    "change_sequence_column": "change_seq",
    "before_image_prefix": "BI_",
}
NAMES = ["Op", "commit_ts", *COLUMNS, "change_seq", "BI_id"]


def rows_of(number: int, chance: random.Random) -> list[list[str]]:
    """Half of them have one value at most that does not fit, the others several."""
    found = []
    for key in range(number):
        values = {name: VALUES[kind.split(" not")[0]][0] for name, kind in COLUMNS.items()}
        values["id"] = str(key)
        for name in chance.sample(sorted(values), chance.choice([0, 1, 1, 4])):
            values[name] = chance.choice(VALUES[COLUMNS[name].split(" not")[0]])
        op = chance.choice("IIUUDX")
        before = chance.choice(["", "NULL", "17", "x"])
        found.append([op, "2026-03-01 12:00:00", *values.values(), f"{key + 1:035d}", before])
    return found


def csv_file(rows: list[list[str]]) -> bytes:
    lines = [NAMES, *rows]
    quoted = (
        ['"' + field.replace('"', '""') + '"' if '"' in field else field for field in line] for line in lines
    )
    return ("\n".join(",".join(line) for line in quoted) + "\n").encode()


def json_file(rows: list[list[str]]) -> bytes:
    lines = [{n: None if v == "NULL" else v for n, v in zip(NAMES, row, strict=True)} for row in rows]
    return ("\n".join(map(json.dumps, lines)) + "\n").encode()


def parquet_file(rows: list[list[str]]) -> bytes:
    columns: dict[str, list[Any]] = {
        name: [None if row[at] == "NULL" else row[at] for row in rows] for at, name in enumerate(NAMES)
    }
    # A number as a number, and as another type than the declared one.
    columns["long_0"] = [key * 10 for key in range(len(rows))]
    columns["int_0"] = [2**31 * (key % 2) for key in range(len(rows))]
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def read(
    spark: SparkSession, folder: Folder, wide: int, patched: pytest.MonkeyPatch, *, explain: bool = False
) -> list[Any]:
    patched.setattr(wide_rows, "WIDE", wide)
    changes = folder.changes(spark, explain=explain).collect()
    return sorted(changes, key=lambda row: (row["_file"], row["_row"]))


@pytest.mark.parametrize(
    ("extension", "content", "dms"),
    [
        pytest.param("csv", csv_file, {}, marks=pytest.mark.long),
        pytest.param("csv", csv_file, {"csv_null_value": ""}, marks=pytest.mark.long),
        ("csv", csv_file, {"csv_no_sup_value": "NULL", "csv_null_value": ""}),
        pytest.param("json", json_file, {}, marks=pytest.mark.long),
        ("parquet", parquet_file, {}),
    ],
)
def test_both_ways_give_the_same_rows_and_the_same_reasons(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    extension: str,
    content: Any,
    dms: dict[str, str],
) -> None:
    folder = Folder(tmp_path, COLUMNS | {"absent": "int", "given": "int"}, ["id"], **DMS, **dms)
    folder.table = folder.table.model_copy(update={"defaults": {"given": 5}})
    rows = rows_of(150, random.Random(extension + str(dms)))
    assert folder.put(f"public/items/20260301-120000000.{extension}", content(rows))
    by_column = read(spark, folder, 10_000, monkeypatch)
    by_array = read(spark, folder, 0, monkeypatch)
    assert by_array == by_column
    bad = [row["_bad"] for row in by_array]
    assert len({reason for reason in bad if reason}) > 10, "many kinds of faults"
    assert None in bad
    explained = read(spark, folder, 0, monkeypatch, explain=True)
    assert explained == read(spark, folder, 10_000, monkeypatch, explain=True)
    assert any(row["_bad"] and "; " in row["_bad"] for row in explained), "all that is wrong with a row"


def test_a_thousand_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Nested a thousand deep, the question whether a row has any fault was more than Spark's stack holds."""
    columns = {"id": "long not null"} | {f"c{number}": "int" for number in range(1000)}
    folder = Folder(tmp_path, columns, ["id"], **DMS)
    header = ",".join(["Op", "commit_ts", *columns, "change_seq", "BI_id"])
    good = ["I", "2026-03-01 12:00:00", "1", *map(str, range(1000)), "1" * 35, ""]
    bad = ["I", "2026-03-01 12:00:00", "2", *map(str, range(997)), "x", "", "y", "2" * 35, ""]
    assert folder.put(
        "public/items/20260301-120000000.csv",
        "\n".join([header, ",".join(good), ",".join(bad), ""]).encode(),
    )
    first, second = sorted(folder.changes(spark).collect(), key=lambda row: row["_row"])
    assert first["_bad"] is None
    assert first["_image"]["c999"] == 999
    assert second["_bad"] == "c997 is not a valid int"
    _, told = sorted(folder.changes(spark, explain=True).collect(), key=lambda row: row["_row"])
    assert told["_bad"].startswith("c997 is not a valid int: 'x'; c998 is empty, which is not a valid int (")
    assert told["_bad"].endswith("; c999 is not a valid int: 'y'")

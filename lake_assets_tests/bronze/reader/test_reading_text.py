"""JSON lines, values that were not supplied, marks at a file's start, and how many jobs a batch is.

Here: `read_changes` on files made by hand. Not here: CSV's traps (`test_reader.py`), damage
(`test_reading_damaged_files.py`).
"""

import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from lake_assets_tests.helpers.files.read_folder import Folder

pytestmark = pytest.mark.spark

COLUMNS = {"id": "long not null", "name": "string", "price": "decimal(38, 10)", "doc": "string"}
DMS = {"timestamp_column_name": "commit_ts", "add_column_name": True}
T = "2026-03-01 12:00:00"
CDC = "public/items/20260301-12{:04d}000.{}"


def images(folder: Folder, spark: SparkSession) -> list[Any]:
    rows = folder.changes(spark).orderBy("_file", "_row").collect()
    return [row["_bad"] or tuple(row["_image"]) for row in rows]


def test_json_lines(spark: SparkSession, tmp_path: Path) -> None:
    """Numbers to the last digit, nested values as they stand, a key that is not there is NULL. A file with lines that
    are no objects gives the same, and says why of each."""
    good = (
        '{"Op":"I","commit_ts":"'
        + T
        + '","id":1,"name":"a\\u00e9\\n","price":1234567890123456789012345678.0123456789,'
        '"doc":{"z": [1.50, null],"a":"x"}}\n'
        '{"price":"0.10","id":2,"commit_ts":"' + T + '","Op":"U","doc":[ 1 ]}\n'
        '{"Op":"D","commit_ts":"' + T + '","id":3,"name":null}\n'
        '{"Op":"I","commit_ts":"' + T + '","id":1.5}\n'
    )
    folder = Folder(tmp_path, COLUMNS, ["id"], **DMS)
    folder.put(CDC.format(0, "json"), good.encode())
    folder.put(CDC.format(1, "jsonl.gz"), gzip.compress(good.encode()))
    folder.put(CDC.format(2, "jsonl"), (good + 'no\n{"id":1,"id":2}\n\n[1]\n').encode())
    folder.put(CDC.format(3, "json"), b"")
    big = Decimal("1234567890123456789012345678.0123456789")
    expected = [
        (1, "aé\n", big, '{"z": [1.50, null],"a":"x"}'),
        (2, None, Decimal("0.1000000000"), "[ 1 ]"),
        (3, None, None, None),
        "id is not a valid long",
    ]
    refused = ["it is not a JSON object", "it has a key twice", "it is not a JSON object"]
    assert images(folder, spark) == [*expected, *expected, *expected, *refused]
    assert [file.rows for file in folder.files] == [4, 4, 7, 0]
    assert [bool(file.irregular) for file in folder.files] == [False, False, True, False]


def test_json_lines_that_spark_reads_otherwise(spark: SparkSession, tmp_path: Path) -> None:
    """What Spark forgives makes one bad row; marks, blank lines and long values none, whichever reader has the file."""
    head = '{"Op":"I","commit_ts":"' + T + '","id":'
    long = "[" * 900 + "1" * 5000 + "]" * 900
    good = f'\ufeff{head}1,"doc":{long}}}\r\n\n \t\r\n{head}2,"name":"\\ud83d\\ude00"}}\n'
    refused = [f"{head}3}} x", f"[{head}4}},{head}5}}]", f'{head}6,"name":"\\ud83d"}}', f"{head}7}}{head}8}}"]
    folder = Folder(tmp_path, COLUMNS, ["id"], **DMS)
    folder.put(CDC.format(0, "json"), good.encode())
    folder.put(CDC.format(1, "json"), (good + "".join(f"{line}\n" for line in refused)).encode())
    expected: list[Any] = [(1, None, None, long), (2, "😀", None, None)]
    no_object = "it is not a JSON object"
    half = "it has one half of a surrogate pair"
    assert images(folder, spark) == [*expected, *expected, no_object, no_object, half, no_object]
    assert [file.rows for file in folder.files] == [2, 6]
    assert [bool(file.irregular) for file in folder.files] == [False, True]


def test_values_that_were_not_supplied(spark: SparkSession, tmp_path: Path) -> None:
    """Neither NULL nor text: they are named, and until a row can leave a column alone, it is bad. A delete needs its
    key only. The strict reader says the same."""
    folder = Folder(tmp_path, COLUMNS, ["id"], **DMS, csv_no_sup_value="(none)", csv_null_value="")
    lines = [
        "Op,commit_ts,id,name,price,doc",
        f"U,{T},1,a,1.0,",
        f"U,{T},1,(none),1.0,(none)",
        f"D,{T},1,(none),(none),(none)",
        f"D,{T},(none),a,1.0,x",
    ]
    text = "".join(f"{line}\n" for line in lines)
    folder.put(CDC.format(0, "csv"), text.encode())
    folder.put(CDC.format(1, "csv"), (text + f"U,{T},2,(none),x,\0\n").encode())
    lacking = " was not supplied by the source: have its supplemental log carry every column"
    expected = [
        (1, "a", Decimal(1), None),
        "name, doc" + lacking,
        (1, None, None, None),
        "id is NULL",
    ]
    assert images(folder, spark) == [*expected, *expected, "name" + lacking]
    named = [row["_unsupplied"] for row in folder.changes(spark).orderBy("_file", "_row").collect()]
    assert named[:4] == [[], ["name", "doc"], ["name", "price", "doc"], ["id"]]


def test_empty_bytes_where_null_is_an_empty_field(spark: SparkSession, tmp_path: Path) -> None:
    """Bytes that are NOT NULL can only be the empty bytes. The strict reader says the same."""
    columns = {"id": "long not null", "data": "binary not null", "note": "binary"}
    folder = Folder(tmp_path, columns, ["id"], **DMS, csv_null_value="")
    text = f"Op,commit_ts,id,data,note\nI,{T},1,,\nU,{T},2,00ff,00\nD,{T},3,,\n".encode()
    folder.put(CDC.format(0, "csv"), text)
    folder.put(CDC.format(1, "csv"), text + f"U,{T},4,\0,\n".encode())
    expected = [(1, b"", None), (2, b"\x00\xff", b"\x00"), (3, None, None)]
    assert images(folder, spark)[:6] == [*expected, *expected]


def test_a_byte_order_mark(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path, COLUMNS, ["id"], **DMS)
    folder.put(CDC.format(0, "csv"), f"\ufeffOp,commit_ts,id,name,price,doc\nI,{T},1,\ufeff,,x\n".encode())
    assert images(folder, spark) == [
        "price is empty, which is not a valid decimal(38, 10) (is csv_null_value the endpoint's?)"
    ]
    folder = Folder(tmp_path / "b", {"name": "string not null", "id": "long"}, ["name"], csv_null_value="")
    folder.put("public/items/LOAD00000001.csv", "\ufeffa,1\n\ufeffb,2\n".encode())
    assert images(folder, spark) == [
        "a byte order mark before it may belong to its first value",
        ("\ufeffb", 2),
    ]


def test_rows_sort_by_file_however_each_was_read(spark: SparkSession, tmp_path: Path) -> None:
    """The address of a file is spelt alike by Spark and by the strict reader, odd names included."""
    folder = Folder(tmp_path / "ü [x]{y} %41 \u2003+#?", COLUMNS, ["id"], **DMS)
    for number, end in enumerate(["\n", "", "\n"]):
        row = f"Op,commit_ts,id,name,price,doc\nI,{T},1,a,1,x\n\n" if not end else ""
        folder.put(
            CDC.format(number, "csv"), (row or f"Op,commit_ts,id,name,price,doc\nI,{T},1,a,1,x\n").encode()
        )
    found = [row["_file"] for row in folder.changes(spark).orderBy("_file", "_row").collect()]
    assert [bool(file.irregular) for file in folder.files] == [False, True, False]
    folders = {address.rsplit("/", 1)[0] for address in found}
    assert len(folders) == 1, folders


def test_two_thousand_files_are_one_job(spark: SparkSession, tmp_path: Path) -> None:
    if is_remote():
        pytest.skip("only a Spark in this process tells how many jobs it ran")
    folder = Folder(tmp_path, COLUMNS, ["id"], **DMS)
    text = f"Op,commit_ts,id,name,price,doc\nI,{T},1,a,1,x\n"
    for number in range(2000):
        name = CDC.format(number // 60 * 100 + number % 60, "csv")
        folder.put(name, (text if number % 500 else text + "\n").encode())
    context = spark.sparkContext
    context.setJobGroup("reading", "counted")
    try:
        folder.changes(spark).write.format("noop").mode("overwrite").save()
    finally:
        context.setJobGroup("afterwards", "not counted")
    # The read of the regular files, and handing Spark the rows of the irregular ones.
    assert len(context.statusTracker().getJobIdsForGroup("reading")) <= 2
    assert folder.changes(spark).count() == 2004

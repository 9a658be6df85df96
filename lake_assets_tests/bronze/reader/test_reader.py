"""Files as typed changes: CSV's traps, null tokens, sequences, and what makes a row unusable.

Here: `read_changes` on files made by hand, without Iceberg. Not here: single values (`test_casts.py`), layouts
(`test_formats.py` of silver, through the whole engine).
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lake_assets.bronze.decode import files as decoding
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets_tests.helpers.files.dms_files import put
from lake_assets_tests.helpers.files.read_folder import Folder
from lake_assets_tests.helpers.lakes.small_lakes import DMS, read_of, small_lake

COLUMNS = {"id": "long not null", "name": "string not null", "note": "string"}


@dataclass
class Files:
    """A folder of files of `public.items`, and how its endpoint wrote them."""

    folder: Path
    dms: dict[str, Any]
    columns: dict[str, str]

    def put(self, name: str, content: bytes) -> None:
        put(self.folder / "bronze", f"public/items/{name}", content)

    def read(self) -> DataFrame:
        table = {"columns": self.columns, "primary_key": ["id"]}
        lake: Lake = small_lake(self.folder, {"public.items": table}, source={"dms": DMS | self.dms})
        return read_of(lake, "public.items")

    def images(self) -> list[Any]:
        """(id, name, note), or why not, in the order of file and line."""
        rows = self.read().orderBy("_file", "_row").collect()
        return [row["_bad"] or tuple(row["_image"]) for row in rows]


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(tmp_path, {"change_sequence_column": None, "before_image_prefix": None}, COLUMNS)


T = b"I,2026-03-01 12:00:00.000000,"


@pytest.mark.spark
def test_rfc_4180(files: Files) -> None:
    """Also without a header, and with a carriage return in the first row, which Spark's detection of line ends takes
    for the end of every row."""
    files.dms |= {"add_column_name": False}
    files.put(
        "LOAD00000001.csv",
        T
        + b'1,"a\rb",x\n'
        + T
        + b'2,"a\r\nb\n\nc","d ""e"", f"\n'
        + T
        + b"3,pl\rain,back\\slash\\\n"
        + T
        + b'4," lead and trail ",#no comment\n'
        + T
        + b'5,"",\n'
        + T
        + b"6,NULL,NULL\n"
        + T
        + "7,Zoë ☕,é\n".encode()
        + T
        + b"8,cut,of",
    )
    assert files.images() == [
        (1, "a\rb", "x"),
        (2, "a\r\nb\n\nc", 'd "e", f'),
        (3, "pl\rain", "back\\slash\\"),
        (4, " lead and trail ", "#no comment"),
        (5, "", ""),
        "name is NULL",
        (7, "Zoë ☕", "é"),
        "the file ends without a row delimiter after it, so that it may be cut off",
    ]


@pytest.mark.spark
def test_without_rfc_4180_a_quote_is_a_letter(files: Files) -> None:
    files.dms |= {"rfc_4180": False, "add_column_name": False}
    files.put("LOAD00000001.csv", T + b'1,"a,5" pipe\n' + T + b'2,a"b"",\\"\n')
    assert files.images() == [(1, '"a', '5" pipe'), (2, 'a"b""', '\\"')]


@pytest.mark.spark
def test_null_written_as_an_empty_field(files: Files) -> None:
    """What real files have. An empty text that is NOT NULL can only be the empty text."""
    files.dms |= {"csv_null_value": ""}
    files.put(
        "20260301-120000000.csv",
        b"Op,commit_ts,id,name,note\n"
        + T
        + b"1,,\n"
        + T
        + b'2,NULL,"NULL"\n'
        + T.replace(b"I", b"D", 1)
        + b"3,,\n",
    )
    assert files.images() == [(1, "", None), (2, "NULL", "NULL"), (3, None, None)]


@pytest.mark.spark
def test_windows_line_ends(files: Files) -> None:
    """They are no part of a number; behind a text nobody can tell, so that the row is refused."""
    files.columns = {"name": "string not null", "note": "string", "id": "long not null"}
    files.put(
        "LOAD00000001.csv", b"Op,commit_ts,name,note,id\r\n" + T + b'a,"b\r\nc",1\r\n' + T + b"b\r,c,2\r\n"
    )
    assert files.images() == [("a", "b\r\nc", 1), ("b\r", "c", 2)]
    files.columns = {**COLUMNS, "size": "string"}
    files.put("LOAD00000001.csv", b"Op,commit_ts,id,name,note,size\r\n" + T + b"1,a,b,c\r\n")
    assert files.images() == ["ends with a carriage return; set CsvRowDelimiter to \\n"]


@pytest.mark.spark
def test_rows_that_cannot_be_used_say_why(files: Files) -> None:
    files.dms |= {"before_image_prefix": "BI_"}
    files.columns = {**COLUMNS, "size": "int"}
    at = b",2026-03-01 12:00:00,"
    files.put(
        "20260301-120000000.csv",
        b"\n".join(
            [
                b"Op,commit_ts,id,name,note,size,BI_id",
                b"I" + at + b"1,a,b,1,",
                b"I" + at + b"1,a,b,1",
                b"I" + at + b"1,a,b,1,,",
                b"I" + at + b"1,a," + b"long" * 1_000_000,
                b"X" + at + b"1,a,b,1,",
                at + b"1,a,b,1,",
                b"I" + at + b"NULL,a,b,1,",
                b"U" + at + b"1,NULL,b,1,",
                b"D" + at + b"1,NULL,NULL,NULL,",
                b"D" + at + b"NULL,a,b,1,",
                b"I" + at + b"1,a,b,1.5,",
                b"I" + at + b"1,a,b,,",
                b"I,yesterday,1,a,b,1,",
                b"U" + at + b"2,a,b,1,1",
                b"U" + at + b"1,a,b,1,one",
                b"I" + at + b"1,a,b,1,one",
                b"I" + at + b"1",
                b"",
            ]
        ),
    )
    assert files.images() == [
        (1, "a", "b", 1),
        "not 7 fields",
        "not 7 fields",
        "not 7 fields",
        "unknown operation X",
        "no operation",
        "id is NULL",
        "name is NULL",
        (1, None, None, None),
        "id is NULL",
        "size is not a valid int",
        "size is empty, which is not a valid int (is csv_null_value the endpoint's?)",
        "commit_ts is not a timestamp",
        (2, "a", "b", 1),
        "BI_id is not a valid long",
        (1, "a", "b", 1),
        "not 7 fields",
    ]


@pytest.mark.spark
def test_sequences_and_instants(files: Files) -> None:
    """DMS's own sequence where there is one, else the commit's centisecond in its form; none for a full load."""
    files.dms |= {"timestamp_zone": "Europe/Berlin", "change_sequence_column": "change_seq"}
    own = "2026030111000000" + "7".zfill(19)
    files.put("LOAD00000001.csv", b"Op,commit_ts,id,name,note,change_seq\nI,2026-03-01 12:00:00.5,1,a,b,\n")
    files.put(
        "20260301-120000000.csv",
        b"Op,commit_ts,id,name,note,change_seq\nU,2026-03-01 12:00:01.239,1,a,b,\n"
        + f"U,2026-03-01 12:00:01,1,a,b,{own}\n".encode(),
    )
    files.put(
        "20260301-120000001.csv", b"Op,commit_ts,id,name,note,change_seq\nU,2026-03-01 12:00:01,1,a,b,1234\n"
    )
    rows = files.read().orderBy("_file", "_row").collect()
    assert [row["_sequence"] for row in rows] == ["2026030111000123" + "0" * 19, own, "1234", ""]
    assert [row["_bad"] for row in rows] == [None, None, "change_seq is not 35 digits", None]
    rows = rows[::-1]
    assert rows[0]["_commit_ts"].astimezone(UTC) == datetime(2026, 3, 1, 11, 0, 0, 500_000, tzinfo=UTC)


@pytest.mark.spark
def test_without_timestamps_the_files_name_gives_the_sequence(files: Files) -> None:
    files.dms |= {"timestamp_column_name": None}
    files.put("20260301-1200010990.csv", b"Op,id,name,note\nU,1,a,b\nU,1,c,d\n")
    rows = files.read().orderBy("_row").collect()
    assert [row["_sequence"] for row in rows] == ["2026030112000109" + "0" * 19] * 2
    assert [row["_image"]["name"] for row in rows] == ["a", "c"]


def test_many_files_at_once_and_in_pieces(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bad rows keep their reasons and places."""
    folder = Folder(tmp_path, {"id": "long not null", "name": "string"}, ["id"], add_column_name=True)
    for number in range(70):
        width = ",a,b" if number % 10 == 3 else f',"n\n{number}"'
        content = f"Op,id,name\nI,{number}{width}\nU,x{number},\n".encode()
        assert folder.put(f"public/items/20260301-12{number // 60:02d}{number % 60:02d}000.csv", content)

    def read(most: int) -> list[dict[str, Any]]:
        monkeypatch.setattr(decoding, "MOST_BYTES", most)
        rows = folder.changes(spark).collect()
        return sorted((row.asDict(recursive=True) for row in rows), key=str)

    here, there = read(decoding.MOST_BYTES), read(-1)
    assert here == there
    assert len(here) == 140
    assert {row["_bad"] for row in here} >= {None, "not 3 fields", "id is not a valid long"}

"""Whose rows a transaction file holds, and when nobody can say: decisions on tables of cases, without Spark."""

import csv
import gzip
import io
import tracemalloc
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lake_assets.bronze.files import content, transactions
from lake_assets.bronze.files.inspect import UnreadableFile
from lake_assets.bronze.files.keys import TransactionFile
from lake_assets.bronze.files.transactions import inspect_transactions
from lake_assets.config import DmsSettings
from lake_assets.storage.object_store import LocalStore
from lake_assets_tests.helpers.files.damage import damaged
from lake_assets_tests.helpers.files.dms_files import put

TABLES = ("public.trips", "public.notes", "audit.trips")
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
STAMP = b"2026-03-01 12:00:00.000000"


@pytest.fixture
def inspect(tmp_path: Path) -> Any:
    """Rows by table of a file with this content."""

    def look(content: bytes, name: str = "CDC_TXN-20260301120000000.csv", **dms: Any) -> dict[str, int]:
        put(tmp_path, f"cdc/{name}", content)
        file = TransactionFile(f"cdc/{name}", "gzip" if name.endswith("gz") else "none", AT)
        settings = DmsSettings(preserve_transactions=True, cdc_path="cdc", **dms)
        found = inspect_transactions(LocalStore(str(tmp_path)), file, settings, TABLES)
        return {table: share.rows for table, share in found.items()}

    return look


@pytest.mark.parametrize(
    ("case", "content", "expected"),
    [
        ("nothing", b"", {}),
        (
            "an empty record, which DMS once wrote at start and stop",
            b"\n\nI,trips,public,1\n\n",
            {"public.trips": 1},
        ),
        (
            "rows of several widths and tables",
            b"I,trips,public,1,2,3\nI,notes,public,1\nD,trips,audit,1,2\nU,trips,public,1,2,3\n",
            {"public.trips": 2, "public.notes": 1, "audit.trips": 1},
        ),
        ("a table that lake.yaml does not name", b"I,other,public,1\n", {"public.other": 1}),
        ("names differ by case", b"I,Trips,public,1\n", {"public.Trips": 1}),
        (
            "quotes, newlines and delimiters inside of quotes",
            b'I,trips,public,"a\nI,notes,public,""\nb, ""c"" """\nI,"no""tes, all",public,1\n',
            {"public.trips": 1, 'public.no"tes, all': 1},
        ),
        ("a quoted name", b'I,"trips","public",1\n', {"public.trips": 1}),
        ("carriage returns at the ends", b"I,trips,public\r\nI,trips,public,1\r\n", {"public.trips": 2}),
        ("a row that is too short is its table's", b"I,trips,public\n", {"public.trips": 1}),
        (
            "so is one with another operation",
            b"X,trips,public,1\n,notes,public,1\n",
            {"public.trips": 1, "public.notes": 1},
        ),
    ],
)
def test_every_row_has_a_table(inspect: Any, case: str, content: bytes, expected: dict[str, int]) -> None:
    assert inspect(content) == expected, case


@pytest.mark.parametrize(
    ("case", "row", "reason"),
    [
        (
            "too short for a table",
            b"I,trips",
            "table of row 2 is unknown: it has 2 fields, not even Op, TABLE, SCHEMA",
        ),
        ("one word", b"I", "it has 1 field,"),
        ("no table", b"I,,public,1", "its table is empty"),
        ("no schema", b"I,trips,,1", "its schema is empty"),
        ("neither operation nor table is known", b"X,other,public,1", "its operation is not I, U or D"),
        ("schema before table", b"I,public,trips,1", "public is the schema and trips the table in lake.yaml"),
        (
            "timestamp first",
            b"I," + STAMP + b",trips,public,1",
            "a time is in the place of its table or its schema",
        ),
        (
            "a quote that is never closed",
            b'I,trips,public,"a\nI,notes,public,1',
            "row 2 has a quote that is never closed",
        ),
        (
            "text after a quote",
            b'I,trips,public,"a"b,1',
            "row 2 has a quote that neither begins nor ends a field",
        ),
        (
            "a quote that is not doubled",
            b'I,trips,public,5" pipe\nI,notes,public,6" pipe',
            "row 2 has a quote",
        ),
        ("not UTF-8", b"I,trips,public,\xff", "row 2 is not UTF-8"),
    ],
)
def test_a_row_that_could_be_anybodys_makes_the_file_unreadable(
    inspect: Any, case: str, row: bytes, reason: str
) -> None:
    with pytest.raises(UnreadableFile, match="CDC_TXN") as raised:
        inspect(b"I,notes,public,1\n" + row + b"\nI,notes,public,1\n")
    assert reason in str(raised.value), case


def test_a_gzip_file(inspect: Any, tmp_path: Path) -> None:
    name = "CDC_TXN-20260301120000000.csv.gz"
    content = b"I,trips,public,1\n" * 1000
    assert inspect(content, name) == {"public.trips": 1000}
    store = LocalStore(str(tmp_path))
    settings = DmsSettings(preserve_transactions=True, cdc_path="cdc")
    (tmp_path / "cdc" / name).write_bytes(gzip.compress(content)[:-20])
    with pytest.raises(UnreadableFile, match="gzip stream is damaged"):
        inspect_transactions(store, TransactionFile(f"cdc/{name}", "gzip", AT), settings, TABLES)


@pytest.mark.parametrize("delimiter", [";", "|", "^", "]", "\\", "\t", "§"])
def test_other_delimiters(inspect: Any, delimiter: str) -> None:
    rows = f'I{delimiter}"tr{delimiter}ips"{delimiter}public{delimiter}"1""\n"\nI{delimiter}trips{delimiter}public\n'
    assert inspect(rows.encode(), csv_delimiter=delimiter) == {
        f"public.tr{delimiter}ips": 1,
        "public.trips": 1,
    }


def test_without_rfc_4180_a_quote_is_a_letter(inspect: Any) -> None:
    content = b'I,trips,public,"a\nI,notes,public,b"c\n'
    assert inspect(content, rfc_4180=False) == {"public.trips": 1, "public.notes": 1}


def test_the_timestamp_is_the_fourth_column(tmp_path: Path) -> None:
    put(
        tmp_path,
        "cdc/t.csv",
        b"I,notes,public\nI,trips,public,2026-03-01 13:00:00.000001,1\nI,trips,public,x,1\n",
    )
    settings = DmsSettings(
        preserve_transactions=True, cdc_path="cdc", timestamp_column_name="ts", timestamp_zone="Europe/Berlin"
    )
    found = inspect_transactions(
        LocalStore(str(tmp_path)), TransactionFile("cdc/t.csv", "none", AT), settings, TABLES
    )
    assert found["public.trips"].first_commit_ts == AT.replace(microsecond=1)
    assert found["public.notes"].first_commit_ts is None


def test_rows_across_the_pieces_in_which_a_file_is_read(
    inspect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = b'I,trips,public,"x\n""y"\nI,notes,public,zz\n' * 7
    for size in (1, 2, 3, 5, 8, 13, 1000):
        monkeypatch.setattr(content, "CHUNK", size)
        assert inspect(rows) == {"public.trips": 7, "public.notes": 7}


def test_a_file_is_never_in_memory_as_a_whole(inspect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"I,trips,public,%b\n" % (b"x" * 1000) * 20_000
    tracemalloc.start()
    try:
        baseline = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        assert inspect(content) == {"public.trips": 20_000}
        assert tracemalloc.get_traced_memory()[1] - baseline < 8 << 20
    finally:
        tracemalloc.stop()
    monkeypatch.setattr(transactions, "_LONGEST_RECORD", 1 << 20)
    for endless in (b'I,trips,public,"' + content, b"I,trips,public," + b"x" * (3 << 20)):
        with pytest.raises(UnreadableFile, match="for 1 MiB"):
            inspect(endless)


def test_rubbish_does_not_flood_the_log(inspect: Any) -> None:
    names = b"".join(b"I,t%d,public,1\n" % number for number in range(1001))
    with pytest.raises(UnreadableFile, match="yet another table, after 1000 unknown ones"):
        inspect(names)


def _named(schema: str, table: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' if "." in part else part for part in (schema, table))


def test_of_damaged_files_nothing_is_lost_and_nothing_made_up(inspect: Any) -> None:
    """Whatever happened to a file: it is unreadable, or each row is counted for the table that another parser sees."""
    rng = Random(5)
    readable = 0
    for _ in range(2000):
        content = damaged(rng)
        try:
            found = inspect(content)
        except UnreadableFile:
            continue
        readable += 1
        text = io.StringIO(content.decode(), newline="")
        expected = Counter(_named(row[2], row[1]) for row in csv.reader(text, strict=True) if row)
        assert found == expected, content
    assert 500 < readable < 1800

"""The same rows have one digest, whatever their order and spelling; other rows have another."""

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.bronze.files.inspect import inspect_file
from lake_assets.bronze.files.keys import DataFile, FileKind
from lake_assets.config import DmsSettings
from lake_assets.storage.object_store import LocalStore
from lake_assets_tests.helpers.files.dms_files import put

FOLDER = "public/items"


def content(
    folder: Path, name: str, bytes_: bytes, kind: FileKind = FileKind.LOAD, **dms: object
) -> str | None:
    """The log's name for the content of a file."""
    put(folder, f"{FOLDER}/{name}", bytes_)
    file = DataFile(
        key=f"{FOLDER}/{name}",
        schema="public",
        table="items",
        kind=kind,
        format=name.split(".")[1],
        compression="gzip" if name.endswith(".gz") else "none",
        flush_time=None,
        capture_date=None,
    )
    settings = DmsSettings.model_validate({"add_column_name": True, **dms})
    return inspect_file(LocalStore(folder), file, settings).content


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b"id,v\n1,a\n2,b\n", b"id,v\n2,b\n1,a\n", True),
        (b"id,v\n1,a\n2,b\n", b'id,v\n"1",a\n2,"b"\n', True),
        (b"id,v\n1,a\n2,b\n", b"\xef\xbb\xbfid,v\n2,b\n1,a", True),
        (b'id,v\n1,"a\n""b"\n2,b\n', b'id,v\n2,b\n"1","a\n""b"\n', True),
        (b"id,v\n1,a\n2,b\n", b"id,v\n1,b\n2,a\n", False),
        (b"id,v\n1,a\n2,b\n", b"id,v\n1,a\n", False),
        (b"id,v\n1,a\n2,b\n", b"id,v\n1,a\n2,b\n2,b\n", False),
        (b"id,v\n1,a\n1,a\n", b"id,v\n2,b\n2,b\n", False),
        (b'id,v\n1,"a,b"\n', b"id,v\n1,a,b\n", False),
        (b'id,v\n1,"a\n2,b\n', b'id,v\n2,b\n1,"a\n', False),
        (b"id,v\n1,\n", b'id,v\n1,""\n', True),
    ],
)
def test_csv(tmp_path: Path, one: bytes, other: bytes, same: bool) -> None:
    assert (
        content(tmp_path, "LOAD00000001.csv", one) == content(tmp_path, "LOAD00000001.csv", other)
    ) == same
    again = content(tmp_path, "LOAD00000001.csv.gz", other)
    assert again == content(tmp_path, "LOAD00000001.csv", other)


@pytest.mark.parametrize("dms", [{"csv_delimiter": "|"}, {"csv_row_delimiter": "\r\n"}, {"rfc_4180": False}])
def test_other_dialects(tmp_path: Path, dms: dict[str, Any]) -> None:
    between, end = str(dms.get("csv_delimiter", ",")), str(dms.get("csv_row_delimiter", "\n"))
    rows = [between.join(row) for row in (("id", "v"), ("1", "a"), ("2", "b"))]
    one, other, wrong = (
        content(tmp_path, "LOAD00000001.csv", "".join(f"{rows[n]}{end}" for n in order).encode(), **dms)
        for order in ((0, 1, 2), (0, 2, 1), (0, 1, 1))
    )
    assert one == other != wrong


def test_json_lines(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": 1, "v": "é"}, {"id": 2, "v": None}]
    one = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    other = "".join(f"{json.dumps(dict(reversed(row.items())), ensure_ascii=False)}\n" for row in rows[::-1])
    name = "LOAD00000001.json"
    assert content(tmp_path, name, one) == content(tmp_path, name, f"\n{other}".encode())
    assert content(tmp_path, name, one) != content(tmp_path, name, one.replace(b"null", b'"null"'))


def test_parquet(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2, 3]),
            "v": pa.array(["a", None, "c"]),
            "b": pa.array([b"\xff", b"", None]),
            "at": pa.array([1, 2, None], pa.timestamp("us")),
            "x": pa.array([1.5, float("nan"), None]),
        }
    )

    def digest(found: pa.Table, **options: object) -> str | None:
        sink = pa.BufferOutputStream()
        pq.write_table(found, sink, **options)
        return content(tmp_path, "LOAD00000001.parquet", bytes(sink.getvalue()))

    one = digest(table)
    assert one == digest(table.take([2, 0, 1]), compression="gzip", row_group_size=1, use_dictionary=False)
    assert one != digest(table.set_column(1, "v", pa.array(["a", "", "c"])))
    assert one != digest(table.slice(0, 2))


def test_only_where_nothing_else_dates_the_rows(tmp_path: Path) -> None:
    one, other = b"commit_ts,id\na,1\nb,2\n", b"commit_ts,id\nb,2\na,1\n"
    for kind, dms in ((FileKind.LOAD, {"timestamp_column_name": "commit_ts"}), (FileKind.CDC, {})):
        name = "LOAD00000001.csv" if kind is FileKind.LOAD else "20260301-120000000.csv"
        assert content(tmp_path, name, one, kind, **dms) != content(tmp_path, name, other, kind, **dms)


def test_in_pieces_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(3)
    rows = [f'{n},"{"x" * random.randint(0, 40)}\n""{n}"\n'.encode() for n in range(200)]
    found = set()
    for size in (7, 64, 1 << 20):
        monkeypatch.setattr("lake_assets.bronze.files.content.CHUNK", size)
        random.shuffle(rows)
        found.add(content(tmp_path, "LOAD00000001.csv", b"id,v\n" + b"".join(rows)))
        packed = gzip.decompress(gzip.compress(b"id,v\n" + b"".join(rows)))
        found.add(content(tmp_path, "LOAD00000001.csv.gz", packed))
    assert len(found) == 1

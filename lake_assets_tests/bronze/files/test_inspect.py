"""Rows, columns and first commit time of a file, without Spark."""

import csv
import gzip
import io
from dataclasses import replace
from datetime import UTC, datetime
from time import perf_counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lake_assets.bronze.files.csv_dialect import CsvDialect
from lake_assets.bronze.files.csv_structure import StructureScan
from lake_assets.bronze.files.inspect import (
    FileInspection,
    UnreadableFile,
    inspect_file,
    inspect_large_file,
)
from lake_assets.bronze.files.keys import DataFile, parse_key
from lake_assets.config import DmsSettings
from lake_assets.storage.object_store import LocalStore, ObjectGone, S3Store, open_store

LOAD, CDC = "public/trips/LOAD00000001", "public/trips/20240501-120000000"
WITH_HEADER = DmsSettings(add_column_name=True, timestamp_column_name="commit_ts")
NOON = datetime(2024, 5, 1, 12, 0, 0, 123456, UTC)


@pytest.fixture
def inspect(tmp_path):
    def run(name: str, content: bytes, dms: DmsSettings) -> FileInspection:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
        file = parse_key(name, dms)
        assert isinstance(file, DataFile)
        return replace(inspect_file(LocalStore(tmp_path), file, dms), content=None)

    return run


def count_records(chunks, *, quoted=True):
    """The records, header included, of a CSV with newlines between them."""
    scan = StructureScan(CsvDialect(quoted=quoted))
    for chunk in chunks:
        scan.feed(chunk)
    scan.finish()
    return scan.records()


nasty = st.text(st.sampled_from("\",\n\r;aä€😀 \0\\'"), max_size=8)
rows = st.lists(st.lists(nasty, min_size=1, max_size=4), max_size=12)


def rfc_4180(table: list[list[str]], newline: str, quote_all: bool) -> str:
    def field(value: str) -> str:
        if quote_all or any(character in value for character in '",\r\n'):
            return '"' + value.replace('"', '""') + '"'
        return value

    return "".join(",".join(map(field, row)) + newline for row in table)


@given(rows, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans(), st.integers(1, 7))
@settings(max_examples=400, deadline=None)
def test_counts_what_csv_reads(table, newline, quote_all, last_newline, size):
    text = rfc_4180(table, newline, quote_all)
    if not last_newline:
        text = text.removesuffix(newline)
    content = text.encode()
    chunks = [content[start : start + size] for start in range(0, len(content), size)]
    assert count_records(chunks) == len(list(csv.reader(io.StringIO(text, newline=""))))


@given(st.binary(max_size=60), st.integers(1, 7))
def test_counts_the_same_in_pieces_of_any_size(content, size):
    chunks = [content[start : start + size] for start in range(0, len(content), size)]
    assert count_records(chunks) == count_records([content])
    assert count_records(chunks, quoted=False) == content.count(b"\n") + bool(
        content and not content.endswith(b"\n")
    )


def test_is_fast():
    line = b'I,2024-05-01 12:00:00.000000,123456,"Some ""Station"", with a comma",12.50,plain\n'
    chunk = line * 12_000
    start = perf_counter()
    assert count_records([chunk] * 60) == 720_000
    speed = 60 * len(chunk) / (perf_counter() - start)
    assert speed > 50e6, f"{speed / 1e6:.0f} MB/s; several hundred on an idle machine"


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"", 0),
        (b"a,b\n", 0),
        (b"a,b", 0),
        (b"a,b\n1,2\n", 1),
        (b"a,b\n1,2", 1),
        (b"a,b\r\n1,2\r\n3,4\r\n", 2),
        (b'a,"b\nc"\n1,2\n', 1),
        (b'a,b\n1,"2\n\n""\n3"\n', 1),
        (b'a,b\n1,"never closed\n\n', 1),
    ],
)
def test_rows_below_a_header(inspect, content, rows):
    assert inspect(f"{LOAD}.csv", content, WITH_HEADER).rows == rows
    assert inspect(f"{LOAD}.csv.gz", gzip.compress(content), WITH_HEADER).rows == rows


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        (b"", None),
        (b"Op,commit_ts,id", ("Op", "commit_ts", "id")),
        (b"Op,commit_ts,id\r\nI,x,1\r\n", ("Op", "commit_ts", "id")),
        (b'\xef\xbb\xbf"the ""id""","two\nlines"\n1,2\n', ('the "id"', "two\nlines")),
        ("größe,名前\n1,2\n".encode(), ("größe", "名前")),
    ],
)
def test_header(inspect, content, columns):
    assert inspect(f"{LOAD}.csv", content, WITH_HEADER).columns == columns


def test_no_header_no_columns(inspect):
    assert inspect(f"{LOAD}.csv", b"1,2\n3,4\n", DmsSettings()) == FileInspection(2, None, None, width=2)


def test_without_rfc_4180_a_quote_is_a_letter(inspect):
    content = b'id,name\n1,"5 inch\n2,6" nail\n'
    dms = DmsSettings(rfc_4180=False, add_column_name=True)
    assert inspect(f"{LOAD}.csv", content, dms) == FileInspection(2, ("id", "name"), None)


def test_another_delimiter(inspect):
    dms = DmsSettings(csv_delimiter="|", add_column_name=True, timestamp_column_name="ts")
    found = inspect(f"{CDC}.csv", b"Op|ts|id\nI|2024-05-01 12:00:00.123456|1\n", dms)
    assert found == FileInspection(1, ("Op", "ts", "id"), NOON)


TS = "2024-05-01 12:00:00.123456"


@pytest.mark.parametrize(
    ("name", "content", "settings", "expected"),
    [
        (
            CDC,
            f"Op,commit_ts,id\nI,{TS},1\nU,2030-01-01 00:00:00.000000,1\n",
            {"add_column_name": True},
            NOON,
        ),
        (CDC, f"id,commit_ts\n1,{TS}\n", {"add_column_name": True}, NOON),
        (CDC, f"Op,other,id\nI,{TS},1\n", {"add_column_name": True}, None),
        (CDC, "Op,commit_ts,id\n", {"add_column_name": True}, None),
        (CDC, f"I,{TS},1\n", {}, NOON),
        (CDC, f'I,"{TS}",1', {}, NOON),
        (LOAD, f"{TS},1\n", {}, NOON),
        (LOAD, f"I,{TS},1\n", {"include_op_for_full_load": True}, NOON),
        (LOAD, f"{TS}\n", {"timestamp_column_name": None}, None),
        (CDC, "I,2024-05-01 14:00:00.123456,1\n", {"timestamp_zone": "Europe/Berlin"}, NOON),
        (CDC, "I,NULL,1\n", {}, None),
        (CDC, "I\n", {}, None),
        (CDC, "I,yesterday,1\n", {}, None),
        (CDC, "I,0001-01-01 00:00:00,1\n", {"timestamp_zone": "Asia/Tokyo"}, None),
        (CDC, f"I,{TS},{'x' * 200_000}\n", {}, NOON),
        (CDC, f'I,{TS},"{"ä" * 2_000_000}"\n', {}, NOON),
        (CDC, f"Op,id,commit_ts\nI,{'x' * 65_520},{TS}\n", {"add_column_name": True}, None),
    ],
)
def test_first_commit_time(inspect, name, content, settings, expected):
    dms = DmsSettings.model_validate({"timestamp_column_name": "commit_ts"} | settings)
    assert inspect(f"{name}.csv", content.encode(), dms).first_commit_ts == expected


def parquet(table: pa.Table, **options) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


@pytest.mark.parametrize(
    "timestamps",
    [
        pa.array([TS] * 3, pa.string()),
        pa.array([NOON] * 3, pa.timestamp("us", "UTC")),
        pa.array([NOON.replace(tzinfo=None)] * 3, pa.timestamp("us")),
        pa.array([NOON] * 3, pa.timestamp("us", "Europe/Berlin")),
        pa.array([NOON.replace(tzinfo=None)] * 3, pa.timestamp("ns")),
    ],
)
def test_parquet(inspect, timestamps):
    content = parquet(
        pa.table({"commit_ts": timestamps, "id": pa.array([1, 2, 3], pa.int32())}), row_group_size=2
    )
    found = inspect(f"{LOAD}.parquet", content, WITH_HEADER)
    assert found.rows == 3
    assert found.columns == (f"commit_ts:{timestamps.type}", "id:int32")
    assert found.first_commit_ts == NOON


def test_parquet_without_rows_or_timestamp(inspect):
    nothing = pa.table({"commit_ts": pa.array([], pa.string()), "price": pa.array([], pa.decimal128(10, 2))})
    found = inspect(f"{LOAD}.parquet", parquet(nothing), WITH_HEADER)
    assert found == FileInspection(0, ("commit_ts:string", "price:decimal128(10, 2)"), None)
    found = inspect(f"{LOAD}.parquet", parquet(pa.table({"id": [1]})), WITH_HEADER)
    assert found == FileInspection(1, ("id:int64",), None)
    found = inspect(f"{LOAD}.parquet", parquet(pa.table({"commit_ts": [5]})), WITH_HEADER)
    assert found == FileInspection(1, ("commit_ts:int64",), None)


whole = gzip.compress(b"id,commit_ts\n" + b"1,x\n" * 10_000, mtime=0)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (f"{LOAD}.csv.gz", whole[:-20], "gzip stream is damaged or incomplete"),
        (f"{LOAD}.csv.gz", whole[:20] + b"\xff" * 20 + whole[40:], "gzip stream is damaged"),
        (f"{LOAD}.csv.gz", b"id\n1\n", "gzip stream is damaged"),
        (f"{LOAD}.csv", "größe\n1\n".encode("latin-1"), "header is not UTF-8"),
        (f"{LOAD}.csv", b"x" * 140_000 + b"\n", "header is not a valid CSV record"),
        (f"{LOAD}.csv", b'"' + b"x" * 5_000_000, "longer than 4 MiB"),
        (f"{LOAD}.parquet", b"", "no valid Parquet"),
        (f"{LOAD}.parquet", b"PAR1", "no valid Parquet"),
        (f"{LOAD}.parquet", b"id,name\n1,2\n" * 50, "no valid Parquet"),
        (f"{LOAD}.parquet", parquet(pa.table({"id": [1]}))[:-30], "no valid Parquet"),
    ],
)
def test_unreadable(inspect, name, content, reason):
    with pytest.raises(UnreadableFile, match=reason) as raised:
        inspect(name, content, WITH_HEADER)
    assert raised.value.key == name
    assert name in str(raised.value)


def test_a_file_that_vanished(tmp_path):
    file = parse_key(f"{LOAD}.csv", WITH_HEADER)
    assert isinstance(file, DataFile)
    with pytest.raises(ObjectGone):
        inspect_file(LocalStore(tmp_path), file, WITH_HEADER)


def test_a_large_parquet_in_s3_is_not_read_whole(new_bucket, s3, monkeypatch):
    bucket = new_bucket()
    key = f"{LOAD}.parquet"
    wide = {"commit_ts": [TS] * 5000, "x": [str(number) * 20 for number in range(5000)]}
    content = parquet(pa.table(wide), compression="none")
    bucket.put_object(Key=key, Body=content)
    fetched = []
    fetch = S3Store._range

    def count(store, address, first, last):
        fetched.append(last - first + 1)
        return fetch(store, address, first, last)

    monkeypatch.setattr(S3Store, "_range", count)
    file = parse_key(key, WITH_HEADER)
    assert isinstance(file, DataFile)
    found = inspect_large_file(open_store(f"s3://{bucket.name}", s3), file, WITH_HEADER)
    assert found is not None
    assert (found.rows, found.content) == (5000, None)
    assert 0 < sum(fetched) < len(content) / 4


def test_the_digest_is_of_the_content(tmp_path):
    """Not of the object: compression does not change it, one value does."""

    def digest(name, content):
        (tmp_path / LOAD).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
        file = parse_key(name, WITH_HEADER)
        assert isinstance(file, DataFile)
        return inspect_file(LocalStore(tmp_path), file, WITH_HEADER).content

    text = f"commit_ts,id\n{TS},1\n".encode()
    plain = digest(f"{LOAD}.csv", text)
    assert plain == digest(f"{LOAD}.csv.gz", gzip.compress(text)) is not None
    assert plain != digest(f"{LOAD}.csv", text.replace(b",1\n", b",2\n"))
    table = pa.table({"commit_ts": [TS], "id": [1]})
    same = digest(f"{LOAD}.parquet", parquet(table))
    assert same == digest(f"{LOAD}.parquet", parquet(table))
    assert same != digest(f"{LOAD}.parquet", parquet(pa.table({"commit_ts": [TS], "id": [2]})))


def test_a_large_text_tells_its_first_commit(tmp_path):
    for name, content in {
        f"{LOAD}.csv": f"commit_ts,id\n{TS},1\n".encode(),
        f"{LOAD}.csv.gz": gzip.compress(f"commit_ts,id\n{TS},1\n".encode()),
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
        file = parse_key(name, WITH_HEADER)
        assert isinstance(file, DataFile)
        assert inspect_large_file(LocalStore(tmp_path), file, WITH_HEADER) == FileInspection(None, None, NOON)


def test_from_s3(new_bucket, s3):
    bucket = new_bucket()
    store = open_store(f"s3://{bucket.name}", s3)
    contents = {
        f"{LOAD}.parquet": parquet(pa.table({"commit_ts": [TS] * 3})),
        f"{LOAD}.csv.gz": gzip.compress(f"commit_ts\n{TS}\n{TS}\n{TS}".encode()),
        f"{LOAD}.csv": f"commit_ts\n{TS}\n{TS}\n{TS}".encode(),
    }
    for key, content in contents.items():
        bucket.put_object(Key=key, Body=content)
        file = parse_key(key, WITH_HEADER)
        assert isinstance(file, DataFile)
        found = inspect_file(store, file, WITH_HEADER)
        assert (found.rows, found.first_commit_ts) == (3, NOON)


@pytest.mark.parametrize(
    ("seconds", "alike"), [([0], None), ([0, 0, 0], True), ([0, 0, 1], False), ([0] * 5000 + [1], True)]
)
def test_whether_a_loads_rows_have_one_stamp(inspect, seconds: list[int], alike: bool | None) -> None:
    stamps = [NOON.replace(second=second) for second in seconds]
    text = "".join(f"I,{stamp:%Y-%m-%d %H:%M:%S.%f},{n}\n" for n, stamp in enumerate(stamps))
    content = f"Op,commit_ts,id\n{text}".encode()
    assert inspect(f"{LOAD}.csv", content, WITH_HEADER).one_stamp is alike
    assert inspect(f"{CDC}.csv", content, WITH_HEADER).one_stamp is None
    out = io.BytesIO()
    pq.write_table(pa.table({"commit_ts": pa.array(stamps), "id": list(range(len(stamps)))}), out)
    assert inspect(f"{LOAD}.parquet", out.getvalue(), WITH_HEADER).one_stamp is alike

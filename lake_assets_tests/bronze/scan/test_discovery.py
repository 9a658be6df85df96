"""One pass over a source: what is new is logged once, what is not data is told, nothing is lost."""

import gzip
import io
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime

import pytest

from lake_assets.bronze.files.inspect import inspect_file
from lake_assets.bronze.files.keys import UnknownKey
from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.scan import discovery
from lake_assets.bronze.scan.discovery import Discovery, discover
from lake_assets.config import SourceConfig
from lake_assets.storage.object_store import (
    LocalStore,
    ObjectGone,
    S3Store,
    StoredObject,
    StoreError,
)
from lake_assets_tests.helpers.files.scanned_source import HEADER, LATER_ROW, ROW, TRIPS, ScannedSource
from lake_assets_tests.helpers.processes.faults import Killed, killed

NO_STAMP, ROW_WITHOUT = b"Op,trip_id\n", b"I,1\n"


@pytest.fixture
def source():
    table = {"columns": {"trip_id": "long not null"}, "primary_key": ["trip_id"]}
    return SourceConfig.model_validate(
        {
            "location": "unused",
            "dms": {"add_column_name": True, "timestamp_column_name": "commit_ts"},
            "tables": {"public.trips": table, "public.Stations": table},
        }
    )


@pytest.fixture
def local(source, open_catalog, tmp_path):
    return ScannedSource(source, open_catalog, root=tmp_path / "bronze")


@pytest.fixture
def bench(source, open_catalog, location):
    return ScannedSource(source, open_catalog, **location)


def test_a_first_pass(bench):
    bench.put(f"{TRIPS}/20240501-120000000.csv", HEADER + ROW + ROW)
    bench.put(f"{TRIPS}/LOAD00000001.csv.gz", gzip.compress(HEADER + ROW * 3))
    bench.put("public/Stations/LOAD00000001.csv")
    bench.put("public/stations/LOAD00000001.csv")
    bench.put("public/stations/LOAD00000002.csv")
    bench.put("awsdms_status/x.csv")
    bench.put(f"{TRIPS}/_tmp")
    bench.put(f"{TRIPS}/readme.txt")
    bench.put("lost.csv")
    found = bench.run()
    assert [(r.offset, r.key, r.rows, r.epoch) for r in found.logged] == [
        (1, "public/Stations/LOAD00000001.csv", 1, 1),
        (2, f"{TRIPS}/LOAD00000001.csv.gz", 3, 1),
        (3, f"{TRIPS}/20240501-120000000.csv", 2, 1),
    ]
    assert [key.key for key in found.unknown] == ["lost.csv", f"{TRIPS}/readme.txt"]
    assert found.unconfigured == {"public.stations": 2}, "names are matched exactly"
    assert (found.ignored, found.listed) == (2, 9)
    load, change = found.logged[1:]
    assert (load.source, load.format, load.compression) == ("bikeshare", "csv", "gzip")
    assert load.columns == ("Op", "commit_ts", "trip_id")
    assert load.first_commit_ts == datetime(2024, 5, 1, 11, 59, tzinfo=UTC)
    assert (load.flush_time, load.capture_date) == (None, load.last_modified.date())
    assert (change.flush_time, change.capture_date) == (
        datetime(2024, 5, 1, 12, tzinfo=UTC),
        date(2024, 5, 1),
    )
    assert bench.log.files() == found.logged


def test_a_known_file_is_not_logged_twice(bench):
    bench.put(f"{TRIPS}/LOAD00000001.csv")
    bench.put(f"{TRIPS}/20240501-120000000.csv")
    assert len(bench.run().logged) == 2
    commits = bench.commits()
    for log in (bench.log, FileLog(bench.open_catalog())):
        bench.log = log
        found = bench.run()
        assert (found.logged, found.listed) == ([], 2)
    assert bench.commits() == commits, "no commit when nothing is new"


def test_changed_objects_are_logged_again(bench):
    bench.put(f"{TRIPS}/LOAD00000001.csv")
    bench.put(f"{TRIPS}/20240501-120000000.csv")
    bench.run()
    bench.put(f"{TRIPS}/LOAD00000001.csv", HEADER + LATER_ROW * 2)
    bench.put(f"{TRIPS}/20240501-120000000.csv", HEADER + ROW * 3)
    assert [(r.offset, r.rows, r.epoch) for r in bench.run().logged] == [(3, 2, 2), (4, 3, 2)]
    assert bench.run().logged == []


def test_a_late_file_gets_a_later_offset(bench):
    bench.put(f"{TRIPS}/20240501-120500000.csv")
    bench.run()
    bench.put(f"{TRIPS}/20240501-120000000.csv")
    (late,) = bench.run().logged
    assert (late.offset, late.key) == (2, f"{TRIPS}/20240501-120000000.csv")


def test_nothing_there(bench):
    assert bench.run() == Discovery([], [], {}, 0, 0, keys=frozenset())


def test_a_missing_bucket_is_an_error_and_logs_nothing(source, open_catalog, s3):
    log = FileLog(open_catalog())
    with pytest.raises(StoreError, match="NoSuchBucket"):
        discover("bikeshare", source, S3Store("nobody-made-this", s3), log)
    assert log.head() == 0


def test_damaged_and_big_files_are_logged_without_rows(local):
    local.put(f"{TRIPS}/20240501-120000000.csv.gz", gzip.compress(HEADER + os.urandom(1000))[:-9])
    local.put(f"{TRIPS}/20240501-120001000.parquet", b"")
    local.put(f"{TRIPS}/20240501-120002000.csv", HEADER + ROW * 100)
    local.put(f"{TRIPS}/20240501-120003000.csv")
    found = local.run(inspect_budget_bytes=1500)
    assert [record.rows for record in found.logged] == [None, None, None, 1]
    assert [record.columns for record in found.logged][:3] == [None] * 3
    assert found.logged[2].size > 1500
    assert local.run().logged == [], "damaged files are logged once too"


def test_a_local_file_of_known_size_and_time_is_not_read(local, monkeypatch):
    local.put(f"{TRIPS}/20240501-120000000.csv")
    local.run()

    def fail(*_):
        raise AssertionError("read")

    monkeypatch.setattr(LocalStore, "version", fail)
    assert local.run().logged == []


def test_a_touched_local_file_is_known_by_its_content(local):
    for name in ("LOAD00000001.csv", "20240501-120000000.csv"):
        local.put(f"{TRIPS}/{name}", mtime=1_714_564_800)
    local.run()
    for name in ("LOAD00000001.csv", "20240501-120000000.csv"):
        local.put(f"{TRIPS}/{name}", mtime=1_714_564_900)
    assert local.run().logged == []


def test_new_content_of_the_same_size(local):
    local.put(f"{TRIPS}/20240501-120000000.csv", HEADER + b"I,x,1\n", mtime=1_714_564_800)
    local.run()
    local.put(f"{TRIPS}/20240501-120000000.csv", HEADER + b"I,x,2\n", mtime=1_714_564_801)
    assert [record.offset for record in local.run().logged] == [2]


def test_a_reload_whose_first_part_came_out_the_same(local, monkeypatch):
    """DMS writes all parts again; a table that only grew has parts with the bytes that they had before,
    where no timestamp column says when they were transferred."""
    local.put(f"{TRIPS}/LOAD00000001.csv", NO_STAMP + ROW_WITHOUT, mtime=1_714_564_800)
    local.put(f"{TRIPS}/LOAD00000002.csv", NO_STAMP, mtime=1_714_564_801)
    local.run()
    local.put(f"{TRIPS}/LOAD00000001.csv", NO_STAMP + ROW_WITHOUT, mtime=1_714_570_000)
    assert local.run().logged == [], "so far, it may just have been touched"
    local.put(f"{TRIPS}/LOAD00000002.csv", NO_STAMP + ROW_WITHOUT, mtime=1_714_570_001)

    def read(*_):
        raise AssertionError("its rows are known")

    monkeypatch.setattr(
        discovery,
        "inspect_file",
        lambda s, file, d: inspect_file(s, file, d) if "2.csv" in file.key else read(),
    )
    reloaded = local.run().logged
    assert [(r.offset, r.key[-5:], r.rows, r.epoch) for r in reloaded] == [
        (3, "1.csv", 1, 2),
        (4, "2.csv", 1, 2),
    ]
    assert local.run().logged == []


class Bucket:
    """An object store with versions and times of one's choice."""

    location = "memory"
    has_free_ranges = True

    def __init__(self):
        self.objects, self.after_listing, self.left_out = {}, None, {}

    def write(self, key, content, modified=None):
        """Discovery reads."""
        raise NotImplementedError

    def version_of(self, content):
        """Discovery reads."""
        raise NotImplementedError

    def remove_same(self, obj):
        """Discovery reads."""
        raise NotImplementedError

    def remove_former(self, keys):
        """Discovery reads."""
        raise NotImplementedError

    def put(self, key, etag, minute):
        written = datetime(2024, 5, 1, 12, minute, tzinfo=UTC)
        self.objects[key] = StoredObject(key, len(HEADER), written, etag)

    def list(self, prefix="", start_after=None):
        listed = sorted(self.objects.values(), key=lambda obj: obj.key)
        if self.after_listing:
            self.after_listing()
        yield from listed

    def version(self, obj):
        return obj.etag

    def open(self, key, *, seekable=False):
        return io.BytesIO(NO_STAMP + f"I,{self.objects[key].etag}\n".encode())

    def remove(self, key: str) -> None:
        raise AssertionError(key)

    def spark_uri(self, key):
        return key


def test_a_reload_in_a_bucket_whose_first_part_came_out_the_same(source, open_catalog):
    log, bucket = FileLog(open_catalog()), Bucket()

    def run():
        return [(r.key[-5:], r.version, r.epoch) for r in discover("bikeshare", source, bucket, log).logged]

    bucket.put(f"{TRIPS}/LOAD00000001.csv", "a", 0)
    bucket.put(f"{TRIPS}/LOAD00000002.csv", "b", 1)
    assert run() == [("1.csv", "a", 1), ("2.csv", "b", 1)]
    bucket.put(f"{TRIPS}/LOAD00000001.csv", "a", 30)
    assert run() == []
    bucket.put(f"{TRIPS}/LOAD00000002.csv", "b2", 31)
    assert run() == [("1.csv", "a", 2), ("2.csv", "b2", 2)]
    assert run() == []


def test_an_object_rewritten_after_the_listing(source, open_catalog):
    """Another process sees and logs the newer content first: the older one is not logged on top of it."""
    bucket = Bucket()
    bucket.put(f"{TRIPS}/LOAD00000001.csv", "older", 0)

    def meanwhile():
        bucket.after_listing = None
        bucket.put(f"{TRIPS}/LOAD00000001.csv", "newer", 1)
        assert len(discover("bikeshare", source, bucket, FileLog(open_catalog())).logged) == 1

    bucket.after_listing = meanwhile
    log = FileLog(open_catalog())
    assert discover("bikeshare", source, bucket, log).logged == []
    assert [record.version for record in log.files()] == ["newer"]
    assert discover("bikeshare", source, bucket, log).logged == []


def test_a_file_that_vanishes_or_changes_is_left_to_the_next_pass(local, monkeypatch):
    for number in range(3):
        local.put(f"{TRIPS}/20240501-12000{number}000.csv")
    version = LocalStore.version

    def inspect(store, file, dms):
        if file.key.endswith("0000.csv"):
            raise ObjectGone("gone")
        return inspect_file(store, file, dms)

    def hash_it(store, obj):
        if obj.key.endswith("1000.csv"):
            local.put(obj.key, HEADER + ROW * 9)
        return version(store, obj)

    monkeypatch.setattr(discovery, "inspect_file", inspect)
    monkeypatch.setattr(LocalStore, "version", hash_it)
    assert [record.key[-8:] for record in local.run().logged] == ["2000.csv"]
    monkeypatch.undo()
    assert [(record.key[-8:], record.rows) for record in local.run().logged] == [
        ("0000.csv", 1),
        ("1000.csv", 9),
    ]


def test_a_file_that_may_not_be_read_is_shown(local, monkeypatch):
    local.put(f"{TRIPS}/20240501-120000000.csv")
    local.put(f"{TRIPS}/20240501-120001000.csv")
    version = LocalStore.version

    def refuse(store, obj):
        if obj.key.endswith("0000.csv"):
            raise StoreError("Permission denied")
        return version(store, obj)

    monkeypatch.setattr(LocalStore, "version", refuse)
    found = local.run()
    assert found.unknown == [UnknownKey(f"{TRIPS}/20240501-120000000.csv", "Permission denied")]
    assert len(found.logged) == 1, "the others go on"


def test_a_crash_before_the_commit_loses_and_repeats_nothing(bench, monkeypatch):
    bench.put(f"{TRIPS}/LOAD00000001.csv")
    bench.put(f"{TRIPS}/20240501-120000000.csv")

    monkeypatch.setattr(FileLog, "append", killed)
    with pytest.raises(Killed):
        bench.run()
    monkeypatch.undo()
    bench.log = FileLog(bench.open_catalog())
    assert [record.offset for record in bench.run().logged] == [1, 2]
    assert bench.run().logged == []


def test_passes_at_the_same_time(local):
    """Four processes' worth of discovery while files arrive: every file once."""

    def passes(part):
        log = FileLog(local.open_catalog())
        store = LocalStore(local.root)
        logged = []
        for number in range(4):
            local.put(f"{TRIPS}/20240501-12{part:02}{number:02}000.csv", HEADER + ROW * (number + 1))
            logged += discover("bikeshare", local.source, store, log).logged
        return logged

    with ThreadPoolExecutor(4) as pool:
        claimed = [record for logged in pool.map(passes, range(4)) for record in logged]
    local.run()
    records = local.log.files()
    assert [record.offset for record in records] == list(range(1, len(records) + 1))
    by_key = {record.key: record for record in records}
    assert len(by_key) == 16
    assert all(record.rows == int(record.key[-8:-7]) + 1 for record in by_key.values())
    offsets = [record.offset for record in claimed]
    assert len(offsets) == len(set(offsets))

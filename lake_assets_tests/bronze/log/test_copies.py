"""Objects whose content the log has already: put again with another ETag, compressed, moved. In a folder and in S3."""

import gzip
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.copies import originals
from lake_assets.bronze.log.file_log import FileLog, LoggedFile
from lake_assets.bronze.scan.discovery import anything_unlogged, discover, unlogged_parts
from lake_assets.config import DmsSettings, S3Config, SourceConfig
from lake_assets.silver.plan.members import newest_versions
from lake_assets.storage.object_store import LocalStore, open_store
from lake_assets_tests.helpers.files.dms_files import put

TABLE = {"columns": {"id": "long not null"}, "primary_key": ["id"]}
ITEMS, OTHER = "public/items", "public/other"
LOAD, CDC = f"{ITEMS}/LOAD00000001.csv", f"{ITEMS}/20260301-120000000.csv"


def rows(*lines: str) -> bytes:
    """A CSV file with Op, timestamp and id."""
    return "".join(f"{line}\n" for line in ("Op,commit_ts,id", *lines)).encode()


LOADED = rows("I,2026-03-01 11:00:00.000000,1", "I,2026-03-01 11:00:01.000000,2")
CHANGED = rows("U,2026-03-01 11:59:00.000000,1")


class Place:
    """A folder, its log and looks at it."""

    def __init__(self, folder: Path, catalog: Catalog) -> None:
        self.folder, self.log = folder, FileLog(catalog)
        self.source = SourceConfig.model_validate(
            {
                "location": "unused",
                "dms": {"add_column_name": True, "timestamp_column_name": "commit_ts"},
                "tables": {"public.items": TABLE, "public.other": TABLE},
            }
        )

    def look(self) -> list[tuple[str, int, int | None]]:
        """What enters the log: name, epoch, and the offset of the record that it repeats."""
        found = discover("shop", self.source, LocalStore(self.folder), self.log)
        return [(file.key.rpartition("/")[2], file.epoch, file.copy_of) for file in found.logged]

    def planned(self) -> list[LoggedFile]:
        return originals(self.log.files("shop", "public.items"))


@pytest.fixture
def place(open_catalog: Callable[[], Catalog], tmp_path: Path) -> Place:
    found = Place(tmp_path / "bronze", open_catalog())
    put(found.folder, LOAD, LOADED)
    put(found.folder, CDC, CHANGED)
    put(found.folder, f"{OTHER}/LOAD00000001.csv", LOADED)
    assert len(found.look()) == 3
    return found


def compress(place: Place, key: str, level: int = 6) -> None:
    path = place.folder / key
    content = gzip.decompress(path.read_bytes()) if key.endswith(".gz") else path.read_bytes()
    path.unlink()
    path.with_name(path.name.removesuffix(".gz") + ".gz").write_bytes(gzip.compress(content, level))


def test_compressed_objects_repeat_what_is_known(place: Place) -> None:
    compress(place, LOAD)
    compress(place, CDC)
    assert place.look() == [("20260301-120000000.csv.gz", 1, 3), ("LOAD00000001.csv.gz", 1, 1)]
    load, change = place.planned()
    assert (load.offset, load.key, load.path, load.compression) == (1, LOAD, f"{LOAD}.gz", "gzip")
    assert (change.offset, change.path) == (3, f"{CDC}.gz")
    assert place.look() == [], "the copies are known"


def test_a_copy_of_a_copy_is_one_of_the_first(place: Place) -> None:
    compress(place, LOAD)
    place.look()
    compress(place, f"{LOAD}.gz", level=1)
    assert place.look() == [("LOAD00000001.csv.gz", 1, 1)]
    put(place.folder, LOAD, LOADED)
    (place.folder / f"{LOAD}.gz").unlink()
    assert place.look() == [("LOAD00000001.csv", 1, 1)]
    assert place.planned()[0].path == LOAD


@pytest.mark.parametrize("key", [LOAD, CDC])
@pytest.mark.parametrize("beside", [False, True])
def test_a_file_that_comes_back_with_other_bytes_is_one_file(place: Place, key: str, beside: bool) -> None:
    """`.csv`, `.csv.gz`, and `.csv` again with a quoted value; the older object is gone, or stays beside it."""
    compress(place, key)
    place.look()
    packed = place.folder / f"{key}.gz"
    put(place.folder, key, gzip.decompress(packed.read_bytes()).replace(b",1\n", b',"1"\n'))
    if not beside:
        packed.unlink()
    assert [found[1:] for found in place.look()] == [(1, None)]
    members = newest_versions(place.planned())
    assert sorted(member.path for member in members) == sorted([LOAD, CDC]), "each file is read once"
    assert place.look() == []


def test_all_files_of_a_table_may_be_moved_at_once(place: Place) -> None:
    """It has not been truncated, though none of the known keys is there any more."""
    compress(place, LOAD)
    compress(place, CDC)
    place.look()
    assert all(file.kind is not FileKind.VANISHED for file in place.log.files("shop"))


def test_equal_changes_under_another_name_are_changes(place: Place) -> None:
    """Without a timestamp, two changes may be equal, and the first one's file may have been expired."""
    again = f"{ITEMS}/20260301-130000000.csv"
    put(place.folder, again, CHANGED)
    (place.folder / CDC).unlink()
    assert place.look() == [("20260301-130000000.csv", 1, None)]


def test_equal_parts_are_two_where_their_rows_may_be_equal(place: Place) -> None:
    """A full load of a table without a key may have two equal parts, if its rows have one timestamp."""
    equal = rows("I,2026-03-01 11:00:00.000000,1", "I,2026-03-01 11:00:00.000000,1")
    put(place.folder, f"{ITEMS}/p0/LOAD00000002.csv", equal)
    put(place.folder, f"{ITEMS}/p1/LOAD00000002.csv", equal)
    assert place.look() == [("LOAD00000002.csv", 1, None), ("LOAD00000002.csv", 1, None)]


def test_an_equal_part_that_is_not_logged_yet_is_waited_for(place: Place) -> None:
    equal = rows("I,2026-03-01 11:00:00.000000,1", "I,2026-03-01 11:00:00.000000,1")
    put(place.folder, f"{ITEMS}/p0/LOAD00000002.csv", equal)
    place.look()
    files = place.log.files("shop")
    parts = [file for file in files if file.kind is FileKind.LOAD]
    put(place.folder, f"{ITEMS}/p1/LOAD00000002.csv", equal)
    store = LocalStore(place.folder)
    assert unlogged_parts(place.source, store, parts, files) == [f"{ITEMS}/p1/LOAD00000002.csv"]
    assert anything_unlogged("shop", place.source, store, place.log)
    assert place.look() == [("LOAD00000002.csv", 1, None)]


def test_a_part_whose_rows_have_times_of_their_own_is_there_once(place: Place) -> None:
    copy = f"{ITEMS}/p0/LOAD00000001.csv"
    put(place.folder, copy, LOADED)
    assert place.look() == []
    (place.folder / LOAD).unlink()
    assert place.look() == [("LOAD00000001.csv", 1, 1)], "it was moved"


def test_a_part_of_a_reload_may_be_moved_over_a_part_of_the_load_before(place: Place) -> None:
    moved = f"{ITEMS}/old/LOAD00000001.csv"
    put(place.folder, moved, LOADED)
    (place.folder / LOAD).unlink()
    assert place.look() == [("LOAD00000001.csv", 1, 1)]
    put(place.folder, LOAD, rows("I,2026-03-01 13:00:00.000000,1", "I,2026-03-01 13:00:01.000000,3"))
    assert place.look() == [("LOAD00000001.csv", 2, None)]
    (place.folder / LOAD).replace(place.folder / moved)
    assert place.look() == [("LOAD00000001.csv", 2, 5)], "a copy of the reload's part"


def test_a_copy_of_what_the_load_before_said_is_no_part_of_the_reload(place: Place) -> None:
    put(place.folder, f"{LOAD}.gz", LOADED)
    assert place.look() == []
    put(place.folder, LOAD, LOADED.replace(b"11:00:0", b"12:30:0"))
    assert place.look() == [("LOAD00000001.csv.gz", 1, 1), ("LOAD00000001.csv", 2, None)]
    assert place.look() == []
    # And the reload's part takes its place.
    put(place.folder, f"{LOAD}.gz", (place.folder / LOAD).read_bytes())
    (place.folder / LOAD).unlink()
    (found,) = place.look()
    assert found[:2] == ("LOAD00000001.csv.gz", 2)
    assert place.look() == [], "what is known stays known"


def test_what_is_there_twice_is_not_waited_for(place: Place) -> None:
    put(place.folder, f"{LOAD}.gz", LOADED)
    place.look()
    files = place.log.files("shop")
    parts = [file for file in files if file.kind is FileKind.LOAD]
    store = LocalStore(place.folder)
    assert unlogged_parts(place.source, store, parts, files) == []
    assert not anything_unlogged("shop", place.source, store, place.log)
    put(place.folder, f"{ITEMS}/LOAD00000002.csv", CHANGED)
    assert unlogged_parts(place.source, store, parts, files) == [f"{ITEMS}/LOAD00000002.csv"]
    assert anything_unlogged("shop", place.source, store, place.log)


def test_a_part_of_the_load_before_is_not_waited_for_when_it_is_touched(place: Place) -> None:
    """Its rows have the timestamps of their former transfer, so no scan assigns it to the reload."""
    second = f"{ITEMS}/LOAD00000002.csv"
    put(place.folder, second, rows("I,2026-03-01 11:00:02.000000,3"))
    place.look()
    put(place.folder, LOAD, LOADED.replace(b"11:00:0", b"12:30:0"))
    assert place.look() == [("LOAD00000001.csv", 2, None)]
    later = time.time() + 60
    os.utime(place.folder / second, (later, later))
    assert place.look() == []
    files = place.log.files("shop")
    parts = [file for file in files if file.kind is FileKind.LOAD and file.epoch == 2]
    assert unlogged_parts(place.source, LocalStore(place.folder), parts, files) == []


def test_an_answer_about_a_load_is_no_timestamp_of_its_rows(place: Place) -> None:
    """`full-load --began` dates the records of a source without timestamps: its parts may still be reloaded."""
    source = place.source.model_copy(update={"dms": DmsSettings(add_column_name=True)})
    put(place.folder, f"{ITEMS}/LOAD00000002.csv", rows("I,x,3"))
    place.look()
    first, second = [file for file in place.log.files("shop", "public.items") if file.kind is FileKind.LOAD]
    answered = replace(second, first_commit_ts=first.first_commit_ts)
    later = time.time() + 60
    os.utime(place.folder / second.key, (later, later))
    parts, store = [replace(first, epoch=2)], LocalStore(place.folder)
    assert unlogged_parts(source, store, parts, [first, answered]) == [second.key]
    assert unlogged_parts(place.source, store, parts, [first, answered]) == []


def test_a_corrected_part_stays_in_its_load(place: Place) -> None:
    put(place.folder, LOAD, LOADED.replace(b",2\n", b",3\n"))
    assert place.look() == [("LOAD00000001.csv", 1, None)]


@pytest.mark.parametrize("name", [LOAD, f"{LOAD}.gz"])
def test_a_part_with_its_rows_in_another_order_is_no_reload(place: Place, name: str) -> None:
    """Its first row is a later one."""
    header, first, second = LOADED.splitlines(keepends=True)
    (place.folder / LOAD).unlink()
    put(place.folder, name, header + second.replace(b"2\n", b'"2"\n') + first)
    assert [found[1] for found in place.look()] == [1]
    load = [file for file in place.planned() if file.kind is FileKind.LOAD and file.path == name][-1]
    assert load.first_commit_ts == place.log.files("shop")[0].first_commit_ts


def test_a_later_transfer_is_a_reload(place: Place) -> None:
    put(place.folder, LOAD, LOADED.replace(b"11:00:0", b"12:30:0"))
    assert place.look() == [("LOAD00000001.csv", 2, None)]
    put(place.folder, LOAD, LOADED)
    assert place.look() == [("LOAD00000001.csv", 2, None)], "older content is no reload; the plan asks"


def test_a_touched_part_of_the_load_before_does_not_join_the_reload(place: Place) -> None:
    second = f"{ITEMS}/LOAD00000002.csv"
    put(place.folder, second, LOADED.replace(b",1\n", b",7\n"))
    place.look()
    put(place.folder, LOAD, LOADED.replace(b"11:00:0", b"12:30:0"))
    assert place.look() == [("LOAD00000001.csv", 2, None)]
    (place.folder / second).touch()
    assert place.look() == []
    compress(place, second)
    assert place.look() == [("LOAD00000002.csv.gz", 1, 4)], "nor does one that was copied"


def test_rows_that_were_quarantined_are_asked_for_where_the_content_is_now(place: Place) -> None:
    compress(place, CDC)
    place.look()
    (change,) = [file for file in place.planned() if file.kind is FileKind.CDC]
    (request,) = place.log.log_again([change])
    assert (request.retry, request.key) == (True, CDC)
    assert [file.path for file in place.planned() if file.retry] == [f"{CDC}.gz"]


@pytest.mark.parametrize("key", [LOAD, CDC])
def test_another_etag_for_the_same_bytes(
    key: str, new_bucket: Callable[[], Any], s3: S3Config, open_catalog: Callable[[], Catalog], tmp_path: Path
) -> None:
    """As a multipart copy or KMS makes it."""
    bucket, place = new_bucket(), Place(tmp_path, open_catalog())
    store = open_store(f"s3://{bucket.name}", s3)
    content = LOADED if key == LOAD else CHANGED
    bucket.put_object(Key=key, Body=content)
    (first,) = discover("shop", place.source, store, place.log).logged
    upload = bucket.Object(key).initiate_multipart_upload()
    part = upload.Part(1).upload(Body=content)
    upload.complete(MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    (again,) = discover("shop", place.source, store, place.log).logged
    assert first.version != again.version
    assert (again.copy_of, again.epoch) == (first.offset, 1)
    assert discover("shop", place.source, store, place.log).logged == []


def unstamped(*ids: int) -> bytes:
    return "".join(f"{line}\n" for line in ("Op,id", *(f"I,{n}" for n in ids))).encode()


@pytest.mark.parametrize("order", ["copy first", "together", "reload first"])
def test_an_unchanged_part_joins_a_reload_without_timestamps(place: Place, order: str) -> None:
    """DMS writes it again, compressed or encrypted anew: its bytes are others, its content is not."""
    first, second = f"{ITEMS}/p0/LOAD00000001.csv.gz", f"{ITEMS}/p1/LOAD00000001.csv.gz"
    path = place.folder / first
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(unstamped(1), mtime=1))
    put(place.folder, second, unstamped(2))
    place.look()
    found = []
    for step in {"copy first": "c r", "together": "cr", "reload first": "r c"}[order].split():
        if "c" in step:
            path.write_bytes(gzip.compress(unstamped(1), mtime=2))
        if "r" in step:
            put(place.folder, second, unstamped(2, 3))
        found += place.look()
    found += place.look()
    newest = {file.key: file for file in place.log.files("shop", "public.items")}
    assert (newest[first].epoch, newest[second].epoch) == (2, 2), found
    assert newest[first].copy_of is None
    assert place.look() == []


def test_a_file_beside_the_one_that_it_replaces_waits(place: Place) -> None:
    """Somebody compresses the bucket, and a look comes between."""
    for key in (LOAD, CDC):
        path = place.folder / key
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert place.look() == [], "the same rows are not read twice"
    (place.folder / LOAD).unlink()
    (place.folder / CDC).unlink()
    assert [copy for _, _, copy in place.look()] == [3, 1]


def test_moved_content_that_the_former_key_has_again_is_not_waited_for(place: Place) -> None:
    """A compressed file, and the uncompressed one put back beside it."""
    compress(place, LOAD)
    assert place.look() == [("LOAD00000001.csv.gz", 1, 1)]
    put(place.folder, LOAD, LOADED)
    files, store = place.log.files("shop"), LocalStore(place.folder)
    parts = [file for file in files if file.kind is FileKind.LOAD and file.qualified_table == "public.items"]
    for _ in range(2):
        assert place.look() == [], "the log does not grow by each scan"
        assert unlogged_parts(place.source, store, parts, files) == []
        assert not anything_unlogged("shop", place.source, store, place.log)
    (place.folder / f"{LOAD}.gz").unlink()
    assert place.look() == [("LOAD00000001.csv", 1, 1)]
    put(place.folder, LOAD, CHANGED)
    assert len(place.look()) == 1, "other content under the former key is new"


def test_two_files_with_one_content_are_each_known_by_name(place: Place) -> None:
    """As DMS writes changes again into another file."""
    again = f"{ITEMS}/20260301-120001000.csv"
    put(place.folder, again, CHANGED)
    place.look()
    compress(place, CDC)
    assert place.look() == [("20260301-120000000.csv.gz", 1, 3)]
    compress(place, again)
    assert place.look() == [("20260301-120001000.csv.gz", 1, 4)]

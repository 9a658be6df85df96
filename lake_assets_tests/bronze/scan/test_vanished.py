"""A table's files are gone: deleted with the table, or for another reason. In a folder and in a bucket."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.scan.discovery import Discovery, discover
from lake_assets.bronze.scan.vanished import Removal, Removed, missing_files, newest_known, vanished_tables
from lake_assets.config import S3Config, SourceConfig
from lake_assets.storage.object_store import ObjectStore, StoreError, open_store
from lake_assets_tests.helpers.files.records import logged

TABLE = {"columns": {"id": "long not null"}, "primary_key": ["id"]}
CONTENT = b"Op,commit_ts,id\nI,2026-03-01 11:59:00.000000,1\n"
LOAD1, LOAD2, CHANGES = (
    "public/items/LOAD00000001.csv",
    "public/items/p0/LOAD00000001.csv",
    "public/items/20260301-120000000.csv",
)
OTHER = "public/other/LOAD00000001.csv"


class Place(ABC):
    """A location, its log and looks at it."""

    def __init__(self, store: ObjectStore, catalog: Catalog) -> None:
        self.store, self.catalog, self.log = store, catalog, FileLog(catalog)
        self.source = SourceConfig.model_validate(
            {
                "location": "unused",
                "dms": {"add_column_name": True, "timestamp_column_name": "commit_ts"},
                "tables": {"public.items": TABLE, "public.other": TABLE},
            }
        )

    @abstractmethod
    def put(self, *keys: str) -> None: ...

    @abstractmethod
    def remove(self, *keys: str) -> None: ...

    def look(
        self, removals: dict[str, Removal] | None = None, after: timedelta = timedelta(seconds=1)
    ) -> Discovery:
        """`after`: from the last write of the file to S3's word."""
        at = {file.key: file.last_modified + after for file in self.log.files("shop")}
        told = {key: Removed(why, at[key]) for key, why in (removals or {}).items()}
        return discover("shop", self.source, self.store, self.log, removals=told)

    def records(self) -> list[tuple[str, str, int]]:
        return [(file.kind.value, file.qualified_table, file.epoch) for file in self.log.files("shop")]


class Folder(Place):
    def __init__(self, root: Path, catalog: Catalog) -> None:
        super().__init__(open_store(str(root), S3Config()), catalog)
        self.root = root

    def put(self, *keys: str) -> None:
        for key in keys:
            (self.root / key).parent.mkdir(parents=True, exist_ok=True)
            (self.root / key).write_bytes(CONTENT)

    def remove(self, *keys: str) -> None:
        for key in keys:
            (self.root / key).unlink()


class Bucket(Place):
    def __init__(self, bucket: Any, s3: S3Config, catalog: Catalog) -> None:
        super().__init__(open_store(f"s3://{bucket.name}/in", s3), catalog)
        self.bucket = bucket

    def put(self, *keys: str) -> None:
        for key in keys:
            self.bucket.put_object(Key=f"in/{key}", Body=CONTENT)

    def remove(self, *keys: str) -> None:
        self.bucket.delete_objects(Delete={"Objects": [{"Key": f"in/{key}"} for key in keys]})


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path, open_catalog: Callable[[], Catalog]) -> Place:
    """With two loads and a change of items, all of it logged."""
    found: Place
    if request.param == "folder":
        found = Folder(tmp_path / "bronze", open_catalog())
    else:
        bucket = request.getfixturevalue("new_bucket")()
        found = Bucket(bucket, request.getfixturevalue("s3"), open_catalog())
    found.put(OTHER, LOAD1, LOAD2, CHANGES)
    assert len(found.look().logged) == 4
    return found


def test_all_files_of_a_table_vanish(place: Place) -> None:
    place.remove(LOAD1, LOAD2, CHANGES)
    look = place.look()
    assert [(file.kind, file.qualified_table) for file in look.logged] == [
        (FileKind.VANISHED, "public.items")
    ]
    assert look.unconfirmed == {}
    assert place.look().logged == []
    # In another process as well.
    place.log = FileLog(place.catalog)
    assert place.look().logged == []


def test_what_comes_after_begins_anew(place: Place) -> None:
    """The very file that vanished is written again, in the same look in which the others are missed."""
    place.remove(LOAD1, LOAD2, CHANGES)
    new = CHANGES.replace("120000", "130000")
    place.put(new)
    look = place.look()
    assert [file.kind for file in look.logged] == [FileKind.VANISHED, FileKind.CDC]
    place.put(LOAD1)
    assert [(file.kind, file.epoch) for file in place.look().logged] == [(FileKind.LOAD, 2)]
    assert place.look().logged == []


def test_files_that_come_back_are_logged_again(place: Place) -> None:
    """They were not deleted by DMS after all."""
    place.remove(LOAD1, LOAD2, CHANGES)
    place.look()
    place.put(LOAD1, LOAD2, CHANGES)
    assert [(file.kind, file.epoch) for file in place.look().logged] == [
        (FileKind.LOAD, 2),
        (FileKind.LOAD, 2),
        (FileKind.CDC, 2),
    ]
    assert place.look().logged == []


def test_some_files_are_left(place: Place) -> None:
    """As a lifecycle rule leaves them, or a look amid a deletion finds them."""
    place.remove(LOAD1, LOAD2)
    look = place.look()
    assert (look.logged, look.unconfirmed) == ([], {})
    known = newest_known(place.log.files("shop"))
    assert [file.key for file in missing_files(place.store, known)] == [LOAD1, LOAD2]
    assert missing_files(place.store, [file for file in known if file.key == CHANGES]) == []
    # Files of whole transactions share a folder that is no table's.
    changes = next(file for file in known if file.key == CHANGES)
    place.put("cdc/CDC_TXN-20260301120000000.csv", "cdc/CDC_TXN-20260301120001000.csv")
    keys = [f"cdc/CDC_TXN-2026030112000{second}000.csv" for second in (0, 1, 2)]
    assert missing_files(place.store, [replace(changes, key=key) for key in keys]) == [
        replace(changes, key=keys[2])
    ]


def test_an_empty_location_is_suspicious(place: Place) -> None:
    """Another prefix, a folder that is not mounted."""
    place.remove(LOAD1, LOAD2, CHANGES, OTHER)
    for _ in range(2):
        look = place.look()
        assert look.logged == []
        assert set(look.unconfirmed) == {"public.items", "public.other"}
        assert "the location itself may have changed, or be empty" in look.unconfirmed["public.items"]
    place.put(LOAD1, LOAD2, CHANGES, OTHER)
    assert place.look().unconfirmed == {}


def test_s3_says_that_they_were_deleted(place: Place) -> None:
    """Then also of the only table of its source."""
    place.remove(LOAD1, LOAD2, CHANGES, OTHER)
    told = dict.fromkeys((LOAD1, LOAD2, CHANGES), Removal.DELETED)
    look = place.look(told)
    assert [file.qualified_table for file in look.logged] == ["public.items"]
    assert set(look.unconfirmed) == {"public.other"}


def test_s3_says_that_they_expired(place: Place) -> None:
    place.remove(LOAD1, LOAD2, CHANGES)
    look = place.look({LOAD1: Removal.EXPIRED, LOAD2: Removal.DELETED})
    assert look.logged == []
    assert look.unconfirmed == {"public.items": "S3 says that a lifecycle rule expired them"}


def test_some_had_expired_before_the_others_were_deleted(place: Place) -> None:
    place.remove(LOAD1, LOAD2, CHANGES, OTHER)
    look = place.look({LOAD1: Removal.EXPIRED, LOAD2: Removal.DELETED, CHANGES: Removal.DELETED})
    assert [file.qualified_table for file in look.logged] == ["public.items"]


def test_what_s3_said_of_an_earlier_file_says_nothing(place: Place) -> None:
    """LOAD00000001 is the name of a file of each load; S3's word may come twice, and late."""
    place.remove(LOAD1, LOAD2, CHANGES, OTHER)
    told = dict.fromkeys((LOAD1, LOAD2, CHANGES), Removal.DELETED)
    look = place.look(told, after=timedelta(seconds=-1))
    assert look.logged == []
    assert "public.items" in look.unconfirmed


def test_what_is_seen_is_not_gone(place: Place) -> None:
    place.remove(LOAD2)
    assert place.look(dict.fromkeys((LOAD1, LOAD2), Removal.DELETED)).returned == {LOAD1}


def test_nothing_that_is_left_is_as_old(place: Place) -> None:
    """Every file of a quiet table may expire on one day, with all others of that day."""
    known = newest_known(place.log.files("shop"))
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    later = [replace(file, last_modified=tomorrow) if file.key == OTHER else file for file in known]
    (found,) = vanished_tables(later, {OTHER}, ["public.items", "public.other"])
    assert not found.certain
    assert found.reason.startswith("no other file as old exists either")
    (found,) = vanished_tables(known, {OTHER}, ["public.items", "public.other"])
    assert found.certain
    assert vanished_tables(known, {OTHER}, ["public.other"]) == []


def test_files_of_whole_transactions_are_nobodys_own() -> None:
    files = [
        logged(1, "LOAD1"),
        logged(2, "CDC_TXN-1", format="transactions"),
        logged(3, "LOAD1x", table="other"),
    ]
    assert vanished_tables(files, {"LOAD1x"}, ["public.items"]) == []


def test_a_listing_that_fails_says_nothing(s3: S3Config, place: Place) -> None:
    wrong = s3.model_copy(update={"endpoint": "http://127.0.0.1:9"})
    place.store = open_store("s3://bucket/in", wrong)
    with pytest.raises(StoreError):
        place.look()
    assert len(place.log.files("shop")) == 4


def test_a_bucket_that_is_gone_says_nothing(s3: S3Config, place: Place) -> None:
    place.store = open_store("s3://no-such-bucket/in", s3)
    with pytest.raises(StoreError, match="NoSuchBucket"):
        place.look()


def test_a_folder_that_is_back_at_the_second_look(
    tmp_path: Path, open_catalog: Callable[[], Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody moves it away and back; the look is between the two."""
    place = Folder(tmp_path / "bronze", open_catalog())
    place.put(OTHER, LOAD1)
    place.look()
    aside = tmp_path / "aside"
    shutil.move(place.root / "public/items", aside)
    whole, calls = place.store.list, []

    def listed(prefix: str = "", start_after: str | None = None) -> Any:
        calls.append(prefix)
        if prefix:
            shutil.move(aside, place.root / "public/items")
        return whole(prefix, start_after)

    monkeypatch.setattr(place.store, "list", listed)
    assert place.look().logged == []
    assert calls == ["", "public/items/"]
    assert (place.root / LOAD1).exists()

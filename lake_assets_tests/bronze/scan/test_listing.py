"""Looking through a bucket of two hundred thousand objects and a thousand tables, by counted requests.

The store is in memory and answers after 50 ms, as S3 does; the log's records are made up. Here: which requests are
made, and what they find. Not here: real stores (`test_object_store.py`), what becomes of an object
(`test_discovery.py`).
"""

import bisect
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.scan import object_listing
from lake_assets.bronze.scan.object_listing import PAGE, Listed, Listing
from lake_assets.config import SourceConfig
from lake_assets.storage.object_store import StoredObject, StoreError
from lake_assets_tests.helpers.files.records import logged

START = datetime(2026, 3, 1, tzinfo=UTC)
TABLE = {"columns": {"id": "long not null"}, "primary_key": ["id"]}


class Bucket:
    """Pages of a thousand objects, each after a while."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.keys: list[str] = []
        self.seconds = seconds
        self.requests = 0
        self.broken = False
        self._lock = threading.Lock()

    def put(self, *keys: str) -> None:
        for key in keys:
            if (place := bisect.bisect_left(self.keys, key)) == len(self.keys) or self.keys[place] != key:
                self.keys.insert(place, key)

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[StoredObject]:
        at = bisect.bisect_left(self.keys, prefix)
        if start_after is not None:
            at = max(at, bisect.bisect_right(self.keys, start_after))
        while True:
            with self._lock:
                self.requests += 1
            time.sleep(self.seconds)
            if self.broken:
                raise StoreError("S3 answered 503")
            page = [key for key in self.keys[at : at + PAGE] if key.startswith(prefix)]
            yield from (StoredObject(key, 10, START, "etag") for key in page)
            if len(page) < PAGE:
                return
            at += PAGE


class Log:
    """The log's records by offset."""

    def __init__(self) -> None:
        self.records: list[LoggedFile] = []

    def add(self, *keys: str) -> None:
        for key in keys:
            schema, table, *_, name = key.split("/")
            load, stamp = name.startswith("LOAD"), f"{name[:18]}000+0000"
            flushed = None if load else datetime.strptime(stamp, "%Y%m%d-%H%M%S%f%z")
            record = logged(
                len(self.records) + 1,
                key,
                schema=schema,
                table=table,
                version="etag",
                last_modified=START,
                logged_at=START,
                flush_time=flushed,
                first_commit_ts=None,
            )
            self.records.append(record)


def cdc(table: int, minute: float, folder: str = "") -> str:
    at = START + timedelta(minutes=minute)
    stamp = f"{at:%Y%m%d-%H%M%S}{at.microsecond // 1000:03d}"
    return f"public/t{table:04d}/{folder}{stamp}.csv"


class World:
    """A bucket, its log, and somebody who looks."""

    def __init__(self, tables: int, files: int, seconds: float = 0.0, dms: Any = None) -> None:
        config = {
            "location": "s3://nowhere",
            "tables": {f"public.t{number:04d}": TABLE for number in range(tables)},
            "dms": {"timestamp_column_name": "ts"} | (dms or {}),
        }
        self.bucket, self.log, self.now = Bucket(), Log(), 0.0
        keys = [cdc(table, minute) for table in range(tables) for minute in range(files - 1)]
        keys += [f"public/t{table:04d}/LOAD00000001.csv" for table in range(tables)]
        self.bucket.keys = sorted(keys)
        self.log.add(*self.bucket.keys)
        self.listing = Listing(SourceConfig.model_validate(config), self.bucket, lambda: self.now)  # type: ignore[arg-type]
        self.look()
        self.bucket.seconds = seconds

    @property
    def looks_to_see_all(self) -> int:
        """After so many looks at most, a file is found wherever it is."""
        return -(-len(self.log.records) // (PAGE * object_listing.PAGES)) + 1

    def scan(self, *hints: str) -> Listed:
        return self.listing.scan(self.log.records[self.listing.head :], hints)

    def look(self, *hints: str) -> tuple[set[str], int, bool]:
        """New keys, which then enter the log; requests; whether a pass was completed."""
        before = self.bucket.requests
        found = self.scan(*hints)
        known = {record.key for record in self.log.records}
        new = {obj.key for obj in found.objects} - known
        self.log.add(*sorted(new))
        return new, self.bucket.requests - before, found.keys is not None


@pytest.mark.long
def test_a_thousand_tables() -> None:
    world = World(1000, 200, seconds=0.05)
    assert len(world.bucket.keys) == 200_000
    busy, cold = cdc(7, 500), cdc(993, 500)
    world.bucket.put(busy, cold)
    seen: dict[str, int] = {}
    slowest, most = 0.0, 0
    for number in range(1, world.looks_to_see_all + 1):
        began = time.monotonic()
        new, requests, _ = world.look()
        slowest, most = max(slowest, time.monotonic() - began), max(most, requests)
        seen |= dict.fromkeys(new, number)
    print(f"{most} requests and {slowest:.2f} s at most, found after looks {seen}")
    assert most <= 200 + 10 + 1
    assert slowest < 2
    assert set(seen) == {busy, cold}
    assert max(seen.values()) <= 5, "the tails of 1,000 tables in turns of 200"


Turns = Callable[[int], None]


@pytest.fixture
def by_turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """Has each scan list the tails of so many tables, and one page of the pass, however few files there are."""

    def by_turns(tails: int) -> None:
        monkeypatch.setattr(object_listing, "WHOLE_BELOW", 1)
        monkeypatch.setattr(object_listing, "TAILS", tails)
        monkeypatch.setattr(object_listing, "PAGES", 1)

    return by_turns


def test_small_locations_are_listed_whole() -> None:
    world = World(5, 20)
    world.bucket.put(cdc(1, 500), cdc(2, -500), "public/unknown/20260301-000000000.csv")
    new, requests, whole = world.look()
    assert (len(new), requests, whole) == (3, 1, True)


def test_a_busy_table_is_asked_for_each_time_and_others_in_turn(by_turns: Turns) -> None:
    by_turns(8)
    world = World(40, 50)
    world.bucket.put(cdc(3, 100))
    looks = [world.look()[0] for _ in range(6)]
    (first,) = [number for number, new in enumerate(looks) if new]
    for minute in range(101, 110):
        world.bucket.put(cdc(3, minute))
        assert world.look()[0] == {cdc(3, minute)}
    world.bucket.put(*(cdc(table, 200) for table in range(40)))
    found = set().union(*(world.look()[0] for _ in range(40)))
    assert len(found) == 40
    assert first < 6


def test_the_tail_has_late_names_within_the_overlap_and_rewritten_loads(by_turns: Turns) -> None:
    by_turns(40)
    world = World(40, 100)
    world.bucket.put(cdc(5, 90.5), "public/t0005/LOAD00000002.csv", "public/t0005/p1/LOAD00000001.csv")
    new, requests, _ = world.look()
    assert new == {cdc(5, 90.5), "public/t0005/LOAD00000002.csv", "public/t0005/p1/LOAD00000001.csv"}
    assert requests == 41
    world.bucket.put(cdc(5, 2.5))
    looks = [world.look() for _ in range(world.looks_to_see_all)]
    assert {cdc(5, 2.5)} in [new for new, _, _ in looks], "an old name is for the pass"
    assert any(whole for _, _, whole in looks)


def test_what_is_told_of_is_looked_for_first(by_turns: Turns) -> None:
    by_turns(4)
    world = World(40, 50)
    world.bucket.put(cdc(39, 100))
    assert world.look(cdc(39, 100))[0] == {cdc(39, 100)}
    assert world.look("public/nobody/knows.csv")[1] <= 6


def test_a_late_name_that_is_told_of_is_found_at_once(by_turns: Turns) -> None:
    """Its table's tail begins above it, and the pass would come to it looks later."""
    by_turns(4)
    world = World(40, 150)
    late = cdc(39, 1.5)
    world.bucket.put(late)
    assert world.look() == (set(), 5, False)
    new, requests, _ = world.look(late)
    assert (new, requests <= 7) == ({late}, True)


@pytest.mark.parametrize(("sequence", "rises"), [("yyyymmdd", True), ("ddmmyyyy", False)])
def test_folders_that_do_not_sort_by_date_are_listed_whole(
    sequence: str, rises: bool, by_turns: Turns
) -> None:
    by_turns(40)
    world = World(
        40,
        50,
        dms={
            "date_partition_enabled": True,
            "date_partition_sequence": sequence,
            "change_sequence_column": "seq",
        },
    )
    world.bucket.put(cdc(5, 100, "01112025/" if not rises else "2026/03/01/"))
    assert len(world.look()[0]) == 1


def test_after_an_error_the_pass_begins_anew(by_turns: Turns) -> None:
    by_turns(1)
    world = World(40, 100)
    late = cdc(0, 0.5)
    world.look()
    world.bucket.put(late)
    world.bucket.broken = True
    with pytest.raises(StoreError):
        world.look()
    world.bucket.broken = False
    found = set().union(*(world.look()[0] for _ in range(world.looks_to_see_all)))
    assert late in found


def test_a_late_transaction_file_that_is_told_of_is_found_at_once(by_turns: Turns) -> None:
    """It is in no table's folder."""
    shared = {"preserve_transactions": True, "cdc_path": "cdc"}
    by_turns(1)
    world = World(2, 20, dms=shared)
    world.listing._continue_pass = lambda: ([], None)  # type: ignore[method-assign]
    world.listing._tails["cdc/"].start_after = "cdc/CDC_TXN-9.csv"
    late = "cdc/CDC_TXN-00000000000000000005.csv"
    world.bucket.put(late)
    assert late not in {obj.key for obj in world.scan().objects}
    assert late in {obj.key for obj in world.scan(late).objects}

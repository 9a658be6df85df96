"""Up to where a stream has landed: several readers, readers that die, gaps, quiet shards. Not here: what a landing's
files are (`test_landing.py`)."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.log.streams.stream_positions import Read, parse_ranges
from lake_assets.bronze.stream import landing
from lake_assets.bronze.stream.landing import QUIET_FOR, Landing
from lake_assets.storage.local_store import LocalStore
from lake_assets_tests.bronze.stream.test_landing import Shop
from lake_assets_tests.helpers.files.dms_messages import message
from lake_assets_tests.helpers.processes.faults import Killed, killed


@pytest.fixture
def shop(tmp_path: Path, open_catalog: Callable[[], Catalog]) -> Shop:
    return Shop(tmp_path, open_catalog)


def test_a_file_that_is_logged_again_moves_no_position(shop: Shop) -> None:
    """A retry of its quarantined rows logs it again, long after later messages have landed."""
    for number in range(1, 4):
        shop.stream.put("a", message("insert", {"id": number}, transaction=number))
        shop.reader().land(0)
    read, transactions = shop.log.read("shop"), shop.log.transactions("shop")
    first, *_ = shop.log.files("shop")
    assert first.ranges is not None
    shop.log.log_again([first])
    for log in (shop.log, FileLog(shop.open_catalog())):
        assert log.read("shop") == read
        assert log.transactions("shop") == transactions
    assert shop.reader().land(0).messages == 0


def chained(transaction: int, before: int, record: int = 1) -> bytes:
    """A change whose transaction follows another of one change."""
    last: dict[str, Any] = {"prev-transaction-id": (1 << 32) + before, "prev-transaction-record-id": 1}
    return message("insert", {"id": transaction}, transaction=transaction, record=record, **last)


def test_changes_that_no_shard_has(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only after all shards were read to their ends once more; a shard that cannot be read may have them."""
    monkeypatch.setattr(landing, "GAP_AFTER", timedelta(0))
    reader = shop.reader()
    shop.stream.put("a", chained(1, 0), chained(2, 1), chained(5, 4))
    shop.stream.put("b", chained(3, 2))
    shop.stream.throttled.add("b")
    assert reader.land(0).gap is None
    shop.stream.put("a", chained(6, 5))
    assert reader.land(0).gap is None
    assert shop.log.transactions("shop").gaps == 0
    shop.stream.throttled.clear()
    gap = reader.land(0).gap
    assert gap is not None
    assert gap.startswith(
        f"behind change 1 of transaction {(1 << 32) + 3}, the changes up to change 1 of {(1 << 32) + 4} have not "
        "landed, and no shard has them"
    )
    found = shop.log.transactions("shop")
    assert (found.gaps, found.others) == (1, ())
    shop.stream.put("b", chained(4, 3))
    assert reader.land(0).gap is None
    assert shop.log.transactions("shop").again == 1


def land_often(reader: Landing) -> None:
    for _ in range(100):
        reader.land(0)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_readers_that_compete_and_die_land_each_message_once(
    shop: Shop, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, expected = Random(seed), []
    readers = [shop.reader(at_once=random.randint(1, 4)) for _ in range(3)]
    for number in range(60):
        shard = random.choice("abc")
        shop.stream.put(shard, message("insert", {"id": number}, transaction=number + 1))
        expected.append(str(number))
        if random.random() < 0.6:
            place = random.randrange(len(readers))
            if random.random() < 0.2:
                step = random.choice(["landed_records", "append_rows"])
                monkeypatch.setattr(f"lake_assets.bronze.log.file_log.{step}", killed)
                with pytest.raises(Killed):
                    land_often(readers[place])
                monkeypatch.undo()
                readers[place] = shop.reader(at_once=random.randint(1, 4))
            else:
                readers[place].land(0)
    land_often(readers[0])
    rows = shop.all_rows()
    assert sorted(int(id_) for _, id_ in rows) == [int(id_) for id_ in expected]
    ranges = [parse_ranges(file.ranges) for file in shop.log.records("shop") if file.ranges is not None]
    for shard in "abc":
        own = [found[shard] for found in ranges if shard in found]
        assert [r.after for r in own] == [None, *(r.through for r in own[:-1])]
        assert sum(r.messages for r in own) == len(shop.stream.shards[shard])


def test_a_quiet_shard_was_read(shop: Shop) -> None:
    """The log learns it from time to time, so that one knows later whether messages of it can have expired."""
    shop.stream.put("a", message("insert", {"id": 1}, transaction=1))
    clock = lambda: datetime.now(UTC) - QUIET_FOR - timedelta(minutes=1)  # noqa: E731
    log = FileLog(shop.open_catalog(), clock=clock)
    Landing("shop", shop.source, LocalStore(shop.folder), log, shop.stream.client()).land(0)
    reader = shop.reader()
    (record,) = reader.land(0).logged
    assert parse_ranges(record.ranges or "") == {"a": Read("0", "0", 0)}
    assert reader.land(0).logged == []
    assert shop.reader().land(0).logged == []
    shop.stream.put("a", message("insert", {"id": 2}, transaction=2))
    assert reader.land(0).messages == 1
    assert [number for _, number in shop.all_rows()] == ["1", "2"]

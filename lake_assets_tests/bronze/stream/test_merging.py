"""Small files of landings become one, with the same rows. Not here: silver (`silver/test_merged_landings.py`)."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitStateUnknownException

from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.log.streams import merged_records
from lake_assets.bronze.stream import merging
from lake_assets.bronze.stream.landed_objects import CARRIER
from lake_assets.bronze.stream.merging import Apart, merged_files, runs
from lake_assets.storage.local_store import LocalStore
from lake_assets_tests.bronze.stream.test_landing import Shop
from lake_assets_tests.helpers.files.dms_messages import NOON, ODD, control, message

LATE = datetime(2100, 1, 1, tzinfo=UTC)
EVERYTHING = Apart(applied=10**6, settled=LATE)


@pytest.fixture
def shop(tmp_path: Path, open_catalog: Callable[[], Catalog]) -> Shop:
    return Shop(tmp_path, open_catalog)


def merge(shop: Shop, apart: Apart = EVERYTHING) -> list[tuple[int, ...]]:
    """The offsets of the files that became one."""
    files = shop.log.files("shop", "public.items")
    merged = [one for run in runs(files, apart) for one in merged_files(run, LocalStore(shop.folder))]
    former = [file for one in merged for file in one.files]
    shop.log.merge(former, [one.record for one in merged])
    return [tuple(file.offset for file in one.files) for one in merged]


def land(shop: Shop, *messages: bytes) -> list[LoggedFile]:
    """Each in a landing of its own."""
    reader = shop.reader()
    for one in messages:
        shop.stream.put("a", one)
        reader.land(0)
    return shop.log.files("shop", "public.items")


def test_rows_and_positions_stay_as_they_were(shop: Shop) -> None:
    whole = {"id": 1, "v": "x", "born": None, "raw": None}
    changes = [message("insert", whole, transaction=number) for number in range(1, 6)]
    texts = [
        message("update", {"id": n, "v": text}, before={"id": n - 1} if n % 2 else None, transaction=n)
        # A file with a NUL is read by another reader than files without.
        for n, text in enumerate((text for text in ODD if "\x00" not in text), start=10)
    ]
    land(shop, *changes, control("create-table"), *texts)
    files = land(shop, message("insert", whole, transaction=99))
    rows = [row for file in files for row in shop.rows(file)]
    read, created, transactions = (
        ask("shop") for ask in (shop.log.read, shop.log.created, shop.log.transactions)
    )
    newest = files[-1]
    assert merge(shop, replace(EVERYTHING, alone={newest.key})) == [tuple(file.offset for file in files[:-1])]
    for log in (shop.log, FileLog(shop.open_catalog())):
        merged, last = log.files("shop", "public.items")
        assert last == newest
        assert (merged.offset, merged.rows) == (files[-2].offset, len(files) - 1)
        assert merged.flush_time == max(f.flush_time for f in files[:-1] if f.flush_time is not None)
        assert merged.first_commit_ts == NOON
        found = [row for file in (merged, last) for row in shop.rows(file)]
        assert [{k: v for k, v in row.items() if not k.startswith("$dms.before")} for row in found] == [
            {k: v for k, v in row.items() if not k.startswith("$dms.before")} for row in rows
        ]
        image = "$dms.before.id"
        assert [row.get(image, "$dms.null") for row in found] == [row.get(image, "$dms.null") for row in rows]
        assert (log.read("shop"), log.created("shop"), log.transactions("shop")) == (
            read,
            created,
            transactions,
        )
        assert log.head() == newest.offset
    assert shop.reader().land(0).messages == 0
    assert land(shop, message("insert", {"id": 100}, transaction=100))[-1].offset == newest.offset + 1


def offsets(shop: Shop, **apart: Any) -> list[list[int]]:
    files = shop.log.files("shop", "public.items")
    return [[file.offset for file in run] for run in runs(files, replace(EVERYTHING, **apart))]


def test_what_stays_apart(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "FEWEST", 2)
    hour = timedelta(hours=1)
    changes = [message("insert", {"id": n}, transaction=n, at=NOON + n * hour) for n in range(1, 11)]
    files = land(shop, *changes)
    assert [file.offset for file in files] == [*range(1, 11)]
    assert offsets(shop) == [[*range(1, 11)]]
    assert offsets(shop, applied=7) == [[*range(1, 8)]]
    assert offsets(shop, positions=[4]) == [[1, 2, 3], [*range(5, 11)]]
    assert offsets(shop, contracts=[4]) == [[1, 2, 3], [*range(4, 11)]]
    assert offsets(shop, alone={files[4].key}) == [[1, 2, 3, 4], [*range(6, 11)]]
    fourth = files[3].flush_time
    assert fourth is not None
    assert offsets(shop, loads=[fourth]) == [[1, 2, 3], [*range(4, 11)]]
    assert offsets(shop, settled=fourth) == [], "they are logged now, later than that"


def test_days_columns_and_loads_stay_apart(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day of bronze has its own files; rows with other columns are of another contract."""
    monkeypatch.setattr(merging, "FEWEST", 2)
    day = timedelta(days=1)
    old = {"id": 1, "v": "x", "born": None, "raw": None}
    said = [
        *[message("insert", old, transaction=n) for n in (1, 2)],
        *[message("insert", old, transaction=n, at=NOON + day) for n in (3, 4)],
        *[message("insert", {"id": 1, "more": 1}, transaction=n, at=NOON + day) for n in (5, 6)],
        message("load", old, at=NOON + day),
        *[message("insert", old, transaction=n, at=NOON + day) for n in (7, 8)],
        *[message("update", old, before={"id": 1, "v": "y"}, transaction=n, at=NOON + day) for n in (9, 10)],
        *[message("update", old, before={"v": "y"}, transaction=n, at=NOON + day) for n in (11, 12)],
    ]
    land(shop, *said)
    assert offsets(shop) == [[1, 2], [3, 4], [5, 6], [8, 9, 10, 11], [12, 13]]


def test_a_large_landing_stays_as_it_is(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MOST_TEXT", 400)
    land(shop, *[message("insert", {"id": n, "v": "x" * 50}, transaction=n) for n in range(1, 13)])
    merged = merge(shop)
    assert len(merged) > 1
    assert [offset for one in merged for offset in one] == [
        *range(1, len([o for one in merged for o in one]) + 1)
    ]
    assert sum(file.rows or 0 for file in shop.log.files("shop", "public.items")) == 12


def test_a_reader_that_lands_meanwhile(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log's compare-and-set refuses one of the two, which then tries again."""
    land(shop, *[message("insert", {"id": n}, transaction=n) for n in range(1, 13)])
    real = merging.merged_files
    reader = FileLog(shop.open_catalog())
    assert reader.head() == 12

    def slow(*given: Any) -> Any:
        found = [*real(*given)]
        land(shop, message("insert", {"id": 13}, transaction=13))
        return found

    monkeypatch.setattr("lake_assets_tests.bronze.stream.test_merging.merged_files", slow)
    assert merge(shop, replace(EVERYTHING, applied=11)) == [tuple(range(1, 12))]
    assert sorted(int(id_) for _, id_ in shop.all_rows()) == [*range(1, 14)]
    assert [file.offset for file in reader.files("shop")] == [11, 12, 13]
    carriers = [file for file in reader.files("shop") if file.key.startswith(CARRIER)]
    assert carriers == []


def test_the_answer_to_a_merge_is_lost(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog has committed it, and it is tried again."""
    land(shop, *[message("insert", {"id": n}, transaction=n) for n in range(1, 13)])
    real, answers = merged_records.replace_records, [CommitStateUnknownException("no answer"), None]

    def replace_records(*given: Any) -> None:
        real(*given)
        if (lost := answers.pop(0)) is not None:
            raise lost

    monkeypatch.setattr("lake_assets.bronze.log.file_log.replace_records", replace_records)
    assert merge(shop) == [tuple(range(1, 13))]
    assert answers == []
    assert [(file.offset, file.rows) for file in FileLog(shop.open_catalog()).files("shop")] == [(12, 12)]


def test_a_file_that_was_changed_is_not_merged(shop: Shop) -> None:
    files = land(shop, *[message("insert", {"id": n}, transaction=n) for n in range(1, 13)])
    for other in (replace(files[3], rows=2), replace(files[3], columns=("id", "v"))):
        with pytest.raises(ValueError, match="is not what the log says of it"):
            list(merged_files([*files[:3], other], LocalStore(shop.folder)))
    (shop.folder / files[3].key).write_bytes(b"x")
    with pytest.raises(ValueError, match="is no gzip file"):
        list(merged_files(files, LocalStore(shop.folder)))
    with pytest.raises(ValueError, match="not in the log"):
        shop.log.merge([*files[:2], replace(files[2], version="another")], [files[2]])

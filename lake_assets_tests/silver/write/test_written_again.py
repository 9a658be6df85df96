"""CDC files that are written again under their names: with the rows that they had, or with others; while the files that
a table was made of are there, and after some have expired.

Here: every shape. Not here: objects with the very bytes that they had.
"""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.quarantine.quarantine_log import State
from lake_assets.commands.mend.quarantine_commands import discard, retry
from lake_assets.errors import TableStopped
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, cdc_file
from lake_assets_tests.helpers.files.written_again import (
    BY_ROWS,
    COLUMNS,
    EVENTS,
    ITEMS,
    SILVER,
    SOFT,
    TABLES,
    Lake,
)

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    found = Lake(tmp_path_factory.mktemp("lake"))
    found.load()
    return found


@pytest.fixture(scope="module")
def files(lake: Lake) -> list[dict[str, DmsFile]]:
    """Three of each table, of which the first one is a batch of its own."""
    found = []
    for number in (1, 2, 3):
        found.append(
            lake.changes(("U", number, "new"), ("D", 4, "loaded") if number == 1 else ("I", 6 + number, "i"))
        )
        if number != 2:
            lake.turn()
    return found


def test_the_same_rows_as_other_bytes_change_nothing(lake: Lake, files: list[dict[str, DmsFile]]) -> None:
    before = lake.rows()
    lake.encode(*files[0].values())
    results = lake.turn()
    assert lake.rows() == before
    assert all(result.batches for result in results.values()), "they were news"
    assert [lake.held(name) for name in lake.names] == [[]] * len(SILVER)
    assert rebuild(lake.bench.lake.runtime, lake.target("items_changes")).equal
    log = results["items_changes"].batches[0]
    assert (log.superseded_files, log.rows_written) == (1, 0)


def test_nor_do_they_after_older_files_have_expired(lake: Lake, files: list[dict[str, DmsFile]]) -> None:
    before = lake.rows()
    lake.expire_loads()
    lake.encode(*files[1].values())
    lake.turn()
    assert lake.rows() == before
    for name in lake.names:
        if name in BY_ROWS:
            assert lake.held(name) == [], name
        else:
            (held,) = lake.held(name)
            assert "was written again after its rows had been applied" in held.reason
            assert "not all files that the table would be recomputed from are in the bucket" in held.reason
            assert "`lake-assets quarantine discard` leaves it so" in held.reason


def test_a_late_file_that_needs_what_is_lost_waits(lake: Lake, files: list[dict[str, DmsFile]]) -> None:
    """What a key was after that file cannot be computed again: it must not be computed without it."""
    before = lake.rows()
    clock = Clock(NOON + timedelta(minutes=5, seconds=1))
    late = cdc_file(
        ITEMS, NOON + timedelta(minutes=5, seconds=30), [clock.change("U", {"id": 2, "v": "late"})]
    )
    lake.bench.put(late)
    lake.turn()
    assert lake.bench.rows("items") == before["items"]
    assert late.key in [held.key for held in lake.held("items")]
    assert late.key in [held.key for held in lake.held("items_history")]
    assert len(lake.bench.rows("items_changes")) == len(before["items_changes"]) + 1
    with pytest.raises(TableStopped):
        rebuild(lake.bench.lake.runtime, lake.target("items"))


def test_other_rows_are_quarantined_until_somebody_decides(
    lake: Lake, files: list[dict[str, DmsFile]]
) -> None:
    before = lake.rows()
    file = files[2][ITEMS]
    first, second = file.rows
    lake.bench.put(DmsFile(file.key, ({**first, "v": "other"}, second)))
    shorter = files[2][EVENTS]
    lake.bench.put(DmsFile(shorter.key, shorter.rows[:1]))
    lake.turn()
    assert lake.rows() == before
    (log,) = lake.held("items_changes")
    assert "1 of its 2 rows differs" in log.reason
    history = next(held for held in lake.held("items_history") if held.key == file.key)
    assert "1 of its 2 rows differs" in history.reason
    (events,) = lake.held("events")
    assert "it had 2 rows that can be used, and has 1" in events.reason
    # The log takes what the file says now, and loses nothing of what it said.
    retry(lake.bench.lake.runtime, [log])
    lake.turn()
    now = lake.bench.rows("items_changes")
    assert len(now) == len(before["items_changes"]) + 1
    assert set(before["items_changes"]) < set(now)
    assert any("'other'" in row for row in now)
    assert lake.held("items_changes") == []
    discard(lake.bench.lake.runtime, [history, events])
    lake.changes(("I", 30, "goes on"))
    lake.turn()
    assert all(any("goes on" in row for row in rows) for rows in lake.rows().values())
    states = {h.id: h.state for h in lake.bench.lake.runtime.quarantine.all()}
    assert (states[log.id], states[events.id]) == (State.RELEASED, State.DISCARDED)
    assert len(lake.bench.rows("items_history")) == len(before["items_history"]) + 1


@pytest.mark.long
def test_changes_without_a_sequence(spark: SparkSession, tmp_path: Path) -> None:
    """Equal rows are told by how many there are."""
    tables = {ITEMS: {"columns": COLUMNS, "primary_key": ["id"], "mode": "change_log"}}
    lake = Lake(tmp_path, tables, {"change_sequence_column": None})
    lake.load()
    file = lake.changes(("U", 1, "new"), ("U", 2, "new"))[ITEMS]
    lake.turn()
    before = lake.bench.rows()
    lake.encode(file)
    lake.turn()
    assert (lake.bench.rows(), lake.held("items")) == (before, [])
    first, second = file.rows
    lake.bench.put(DmsFile(file.key, (first, {**second, "v": "other"})))
    lake.turn()
    assert lake.bench.rows() == before
    retry(lake.bench.lake.runtime, lake.held("items"))
    lake.turn()
    assert len(lake.bench.rows()) == len(before) + 1
    assert lake.held("items") == []


def test_a_soft_delete_that_has_seen_a_reload_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """What the rows of the load before were is only in the table."""
    lake = Lake(tmp_path, {SOFT: TABLES[SOFT]})
    lake.load()
    lake.turn()
    lake.clock.now += timedelta(hours=1)
    lake.load(at=lake.clock.now)
    wrong = lake.changes(("I", 70, "wrong"))[SOFT]
    lake.turn()
    before = lake.rows()
    lake.bench.put(DmsFile(wrong.key, ({**wrong.rows[0], "id": 71},)))
    lake.turn()
    assert lake.rows() == before
    (held,) = lake.held("soft")
    retry(lake.bench.lake.runtime, [held])
    lake.turn()
    assert lake.held("soft") == []
    rows = lake.bench.stored("soft")
    assert {70, 71} <= {row["id"] for row in rows if not row["_is_deleted"]}

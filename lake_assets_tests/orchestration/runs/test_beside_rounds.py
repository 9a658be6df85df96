"""What a round of the continuous run does not wait for: turns with much to do, marts, maintenance.

Here: all three, held by the tests. Not here: what rounds do otherwise (`test_continuous.py`).
"""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.config import ContinuousConfig
from lake_assets.iceberg.table_maintenance import Maintained, TableMaintenance
from lake_assets.orchestration.io_managers.iceberg_io_manager import TableIOManager
from lake_assets.orchestration.runs.continuous_run import Round
from lake_assets.rounds import maintenance
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply import engine
from lake_assets.silver.plan import planner
from lake_assets.silver.table.targets import Target
from lake_assets.silver.write.batch import TableResult
from lake_assets_tests.helpers.lakes.bank import CUT
from lake_assets_tests.helpers.orchestration.kept_lake import ITEMS, ITEMS_NOW, NOTES, Kept

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def kept(spark: SparkSession, tmp_path: Path) -> Kept:
    return Kept(tmp_path)


@pytest.fixture
def slow_notes(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Turns of `notes` wait for the event; three pending rows are much to do."""
    go_on, apply_table = threading.Event(), engine.apply_table

    def apply(runtime: LakeRuntime, target: Target, *given: Any) -> TableResult:
        if target.name == "notes":
            assert go_on.wait(60)
        return apply_table(runtime, target, *given)

    monkeypatch.setattr(engine, "apply_table", apply)
    monkeypatch.setattr(planner, "LARGE_ROWS", 3)
    return go_on


def test_a_turn_with_much_to_do_delays_no_round(kept: Kept, slow_notes: threading.Event) -> None:
    kept.put(NOTES, 1, 2, 3)
    for number in range(2):
        kept.put(ITEMS, number)
        kept.put(NOTES, 10 + number)
        done = kept.round()
        assert (done.batches, done.marts, done.failed) == (1, 1, [])
        assert "silver/shop/notes" not in kept.told()
    slow_notes.set()
    read = 0
    while read < 5:
        assert kept.round().failed == []
        read += kept.told().get("silver/shop/notes", {}).get("rows_read", 0)
    assert kept.bench.rows() == kept.bench.truth(ITEMS)
    assert kept.bench.rows("notes") == kept.bench.truth(NOTES)


def test_a_run_that_hands_over_waits_for_turns_under_way(kept: Kept, slow_notes: threading.Event) -> None:
    kept.put(NOTES, 1, 2, 3)
    assert kept.round().batches == 0
    threading.Timer(0.5, slow_notes.set).start()
    kept.rounds.finish()
    assert kept.told()["silver/shop/notes"]["rows_read"] == 3
    kept.rounds.close()


@pytest.fixture
def maintained_at_once(monkeypatch: pytest.MonkeyPatch) -> ContinuousConfig:
    """Settings by which a table is maintained after each commit."""
    monkeypatch.setattr(maintenance, "APART", 1)
    return ContinuousConfig(tend_after=1)


@pytest.fixture
def slow_marts(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Marts are stored after the event."""
    go_on, store = threading.Event(), TableIOManager.store

    def late(*given: Any) -> Any:
        assert go_on.wait(60)
        return store(*given)

    monkeypatch.setattr(TableIOManager, "store", late)
    return go_on


def test_a_mart_and_maintenance_delay_no_round(
    kept: Kept,
    monkeypatch: pytest.MonkeyPatch,
    slow_marts: threading.Event,
    maintained_at_once: ContinuousConfig,
) -> None:
    """But a table has no turn while it is maintained."""
    maintain = TableMaintenance.run

    def late(given: TableMaintenance) -> Maintained:
        assert slow_marts.wait(60)
        return maintain(given)

    monkeypatch.setattr(TableMaintenance, "run", late)
    kept.begin(settings=maintained_at_once)
    kept.put(ITEMS, 0)
    done = kept.rounds.round()
    assert (done.batches, done.marts, done.maintained) == (1, 0, [])
    kept.put(ITEMS, 1)
    kept.put(NOTES, 1)
    done = kept.rounds.round()
    assert (done.files, done.batches, done.marts, done.maintained) == (2, 1, 0, [])
    assert kept.bench.rows("notes") == kept.bench.truth(NOTES)
    assert kept.bench.rows() != kept.bench.truth(ITEMS)
    slow_marts.set()
    kept.rounds.wait(done)
    assert (done.marts, [one.table for one in done.maintained]) == (1, ["silver_shop.items"])
    assert kept.items() == 1, "what silver had when it began"
    assert kept.round().batches == 1
    assert kept.bench.rows() == kept.bench.truth(ITEMS)
    kept.round()
    assert kept.items() == 2


def test_what_a_mart_reads_is_kept(
    kept: Kept, slow_marts: threading.Event, maintained_at_once: ContinuousConfig
) -> None:
    kept.begin(settings=maintained_at_once.model_copy(update={"keep_commits": 2}))
    kept.put(ITEMS, 0)
    kept.rounds.round()
    read = kept.bench.table().metadata.current_snapshot_id
    fewest = 99
    for number in range(1, 8):
        kept.put(ITEMS, number)
        kept.rounds.round()
        assert [one.error for one in kept.rounds._maintenance.finished(waits=True)] == [None]
        fewest = min(fewest, len(kept.bench.table().metadata.snapshots))
    assert fewest < 8, "some have expired"
    assert read in {snapshot.snapshot_id for snapshot in kept.bench.table().metadata.snapshots}
    slow_marts.set()
    kept.rounds.wait(done := Round())
    assert (done.marts, done.failed) == (1, [])
    assert kept.items() == 1
    kept.rounds.catch_up()
    assert kept.items() == 8


def test_a_report_waits_for_the_marts_of_what_it_reports(kept: Kept, slow_marts: threading.Event) -> None:
    for number in range(2):
        kept.put(ITEMS, number)
        kept.rounds.round()
    threading.Timer(0.5, slow_marts.set).start()
    kept.rounds.catch_up()
    assert kept.items() == 2
    told = kept.told()
    assert told["gold/items_now"]["refreshed"] == 2
    assert told["gold/items_now"]["consumed"] == {
        "silver_shop.items": str(kept.bench.table().metadata.current_snapshot_id)
    }


def test_the_end_of_a_run_begins_no_mart(
    spark: SparkSession, tmp_path: Path, slow_marts: threading.Event
) -> None:
    other = replace(ITEMS_NOW, name="items_too")
    kept = Kept(tmp_path, marts=(ITEMS_NOW, other))
    kept.put(ITEMS, 1)
    kept.rounds.round()
    kept.rounds.finish()
    assert set(kept.told()) == {"bronze/shop/items", "silver/shop/items"}, "before the mart has ended"
    slow_marts.set()
    kept.rounds.wait(done := Round())
    assert done.marts == 1
    assert "gold/items_now" in kept.told()
    kept.rounds.close()


def test_a_source_with_a_consistent_cut_waits_for_all(
    spark: SparkSession, tmp_path: Path, maintained_at_once: ContinuousConfig
) -> None:
    """Its tables are tagged together: one that missed a round would have none of its tag."""
    kept = Kept(tmp_path, source=CUT)
    kept.begin(settings=maintained_at_once)
    kept.put(ITEMS, 1)
    done = kept.rounds.round()
    assert (done.batches, done.marts, len(done.maintained)) == (1, 1, 1)

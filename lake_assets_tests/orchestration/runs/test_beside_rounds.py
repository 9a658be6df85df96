"""What a round of the continuous run does not wait for: turns with much to do, marts, maintenance.

Here: all three, held by the tests. Not here: what rounds do otherwise (`test_continuous.py`).
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.config import ContinuousConfig
from lake_assets.iceberg.table_maintenance import TableMaintenance
from lake_assets.orchestration.io_managers.iceberg_io_manager import TableIOManager
from lake_assets.rounds import maintenance
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply import engine
from lake_assets.silver.plan import planner
from lake_assets.silver.table.targets import Target
from lake_assets.silver.write.batch import TableResult
from lake_assets_tests.helpers.lakes.bank import CUT
from lake_assets_tests.helpers.orchestration.kept_lake import ITEMS, NOTES, Kept

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


def test_a_mart_and_maintenance_delay_no_round(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, maintained_at_once: ContinuousConfig
) -> None:
    """But a table has no turn while it is maintained."""
    store, maintain, go_on = TableIOManager.store, TableMaintenance.run, threading.Event()

    def waits(done: Callable[..., Any], *given: Any) -> Any:
        assert go_on.wait(60)
        return done(*given)

    monkeypatch.setattr(TableIOManager, "store", lambda *given: waits(store, *given))
    monkeypatch.setattr(TableMaintenance, "run", lambda *given: waits(maintain, *given))
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
    go_on.set()
    kept.rounds.wait(done)
    assert (done.marts, [one.table for one in done.maintained]) == (1, ["silver_shop.items"])
    assert kept.items() == 1, "what silver had when it began"
    assert kept.round().batches == 1
    assert kept.bench.rows() == kept.bench.truth(ITEMS)
    kept.round()
    assert kept.items() == 2


def test_a_source_with_a_consistent_cut_waits_for_all(
    spark: SparkSession, tmp_path: Path, maintained_at_once: ContinuousConfig
) -> None:
    """Its tables are tagged together: one that missed a round would have none of its tag."""
    kept = Kept(tmp_path, source=CUT)
    kept.begin(settings=maintained_at_once)
    kept.put(ITEMS, 1)
    done = kept.rounds.round()
    assert (done.batches, done.marts, len(done.maintained)) == (1, 1, 1)

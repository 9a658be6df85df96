"""Maintenance between the rounds of the continuous run: what it keeps, and that it stops none.

Here: rounds in this process. Not here: the rounds themselves (`test_continuous.py`), old rows of histories
(`silver/test_trimmed_histories.py`).
"""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.config import ContinuousConfig
from lake_assets.errors import LakeError
from lake_assets.iceberg.publish import KeptBranches
from lake_assets.orchestration.runs.continuous_run import Continuous
from lake_assets.rounds import maintenance
from lake_assets.rounds.maintenance import APART
from lake_assets_tests.helpers.orchestration.kept_lake import ITEMS, ITEMS_NOW, Kept

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROUNDS = 13
"""So many that a table without maintenance has more files and snapshots than are allowed."""


@pytest.fixture
def kept(spark: SparkSession, tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_tables_stay_small_between_rounds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is large to the engine gets a file and two snapshots a batch."""
    kept = Kept(tmp_path, rewrite_below_mb=0)
    monkeypatch.setattr(maintenance, "MAINTAIN_AFTER", 2)
    settings = ContinuousConfig(keep_commits=2)
    lake = kept.bench.lake
    kept.rounds = Continuous(lake.runtime, "shop", lake.targets, lake.marts, kept.instance, settings=settings)
    maintained, most = [], {"files": 0, "snapshots": 0, "of the mart": 0}
    for number in range(ROUNDS):
        kept.put(ITEMS, number)
        done = kept.rounds.round()
        assert (done.batches, done.marts, done.failed) == (1, 1, [])
        maintained += [(number, one.table) for one in done.maintained]
        assert [one.error for one in done.maintained] == [None] * len(done.maintained)
        table = kept.bench.table()
        most["files"] = max(most["files"], int(kept.bench.summary()["total-data-files"]))
        most["snapshots"] = max(most["snapshots"], len(table.metadata.snapshots))
        mart = lake.runtime.catalog.load_table("gold.items_now")
        most["of the mart"] = max(most["of the mart"], len(mart.metadata.snapshots))
    numbers = [number for number, _ in maintained]
    assert len(numbers) >= 3
    assert all(later - earlier >= APART for earlier, later in itertools.pairwise(numbers)), maintained
    assert {table for _, table in maintained} == {"silver_shop.items", "gold.items_now"}
    # Two tables have two parts each.
    behind = 4 * APART + 2
    assert most["files"] <= behind, most
    assert most["snapshots"] <= 2 * (behind + settings.keep_commits), most
    assert most["of the mart"] <= behind + settings.keep_commits, most
    assert kept.bench.rows() == kept.bench.truth(ITEMS)
    assert kept.items() == ROUNDS


def test_what_a_mart_reads_that_has_never_been_computed_stays(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first computation takes longer than so many batches, in a run of its own."""
    kept = Kept(tmp_path, marts=(replace(ITEMS_NOW, with_silver=False),))
    monkeypatch.setattr(maintenance, "MAINTAIN_AFTER", 2)
    lake, settings = kept.bench.lake, ContinuousConfig(keep_commits=2)
    kept.rounds = Continuous(lake.runtime, "shop", lake.targets, lake.marts, kept.instance, settings=settings)
    maintained, read = [], set()
    for number in range(2 * APART):
        kept.put(ITEMS, number)
        maintained += kept.rounds.round().maintained
        read.add(kept.bench.table().metadata.current_snapshot_id)
    assert [one.error for one in maintained] == [None, None]
    assert read <= {snapshot.snapshot_id for snapshot in kept.bench.table().metadata.snapshots}


def test_a_table_that_cannot_be_maintained_stops_no_round(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = kept.bench.lake
    monkeypatch.setattr(maintenance, "MAINTAIN_AFTER", 1)
    kept.rounds = Continuous(lake.runtime, "shop", lake.targets, lake.marts, kept.instance)
    lost = LakeError("the server is gone: StatusCode.UNAVAILABLE")

    def fails(*given: Any) -> Any:
        raise lost

    monkeypatch.setattr(KeptBranches, "drop", fails)
    maintained = []
    for number in range(APART + 1):
        kept.put(ITEMS, number)
        maintained += kept.rounds.round().maintained
    assert [one.error for one in maintained] == [lost]
    assert len(kept.bench.rows()) == APART + 1

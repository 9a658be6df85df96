"""One way in and out: marts are read and stored through the IO manager in every kind of run, also those with a key.

Here: the continuous run, `sync`, and runs as a sensor or a backfill requests them, in turn on one lake. Not here: what
is written of a keyed mart (`gold/test_keyed_marts.py`), real daemons (`orchestration/test_backfills.py`).
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.errors import ApplyConflict
from lake_assets.gold.consumption import read_consumption
from lake_assets.gold.mart import Follow, Input, Mart, MartRequest
from lake_assets.gold.table_snapshots import newest_consumption
from lake_assets.gold.write.write_mart import Computed, Store
from lake_assets.iceberg.publish import Attempt
from lake_assets.iceberg.table_io import summary
from lake_assets.iceberg.upkeep.retention import main_chain
from lake_assets.orchestration.assets.mart_runs import mart_work
from lake_assets.orchestration.io_managers.iceberg_io_manager import TableIOManager
from lake_assets.orchestration.lake_definitions import build_definitions
from lake_assets.orchestration.sync import sync
from lake_assets_tests.helpers.orchestration.kept_lake import ITEMS, NOTES, TABLE, Kept

pytestmark = pytest.mark.spark


def by_value(request: MartRequest) -> Any:
    return request.inputs["items"].groupBy("v").agg(F.count(F.lit(1)).alias("items"))


def by_day(request: MartRequest) -> Any:
    logged = request.inputs["log"].filter(request.within("_commit_ts"))
    return logged.groupBy(F.to_date("_commit_ts").alias("day")).agg(F.count(F.lit(1)).alias("changes"))


BY_VALUE = Mart(
    name="items_by_value",
    description="How many items have each value.",
    inputs={"items": Input("shop", "items")},
    columns=(parse_column("v", "string not null"), parse_column("items", "long not null")),
    compute=by_value,
    partition_column=None,
    key=("v",),
)
BY_DAY = Mart(
    name="changes_by_day",
    description="How many changes each day has.",
    inputs={"log": Input("shop", "notes_changes", Follow.DAY, "_commit_ts")},
    columns=(parse_column("day", "date not null"), parse_column("changes", "long not null")),
    compute=by_day,
)


def table(kept: Kept, mart: Mart = BY_VALUE) -> Table:
    return kept.bench.lake.runtime.catalog.load_table(mart.identifier)


def values(kept: Kept) -> dict[str, int]:
    """The rows of the keyed mart."""
    return {row["v"]: row["items"] for row in table(kept).scan().to_arrow().to_pylist()}


def truth(kept: Kept) -> dict[str, int]:
    """What they should be, by silver's own rows."""
    return dict(Counter(row["v"] for row in kept.bench.stored()))


def files(kept: Kept) -> set[str]:
    return {task.file.file_path for task in table(kept).scan().plan_files()}


def added(kept: Kept) -> int:
    """Rows that the newest commit of the keyed mart has written."""
    return int(summary(table(kept).current_snapshot()).get("added-records", "0"))


def test_a_keyed_mart_in_the_continuous_run(spark: SparkSession, tmp_path: Path) -> None:
    kept = Kept(tmp_path, marts=(BY_VALUE,))

    def round_of(*changes: tuple[str, dict[str, Any]]) -> None:
        kept.change(ITEMS, *changes)
        done = kept.rounds.round()
        assert (done.batches, done.marts, done.failed) == (1, 1, [])
        assert values(kept) == truth(kept)

    round_of(*(("I", {"id": number, "v": "abc"[number % 3]}) for number in range(6)))
    first = files(kept)
    assert values(kept) == {"a": 2, "b": 2, "c": 2}
    round_of(("U", {"id": 0, "v": "b"}), ("I", {"id": 6, "v": "d"}))
    assert values(kept) == {"a": 1, "b": 3, "c": 2, "d": 1}
    assert first < files(kept), "rows that did not change are in the files that they were in"
    assert added(kept) == 3
    before = files(kept)
    round_of(("U", {"id": 6, "v": "d"}))
    assert files(kept) == before
    assert added(kept) == 0, "no row differs"
    round_of(("D", {"id": 6}))
    assert values(kept) == {"a": 1, "b": 3, "c": 2}
    assert added(kept) == 0
    metadata = kept.told()["gold/items_by_value"]
    assert (metadata["refreshed"], metadata["dagster/row_count"]) == (4, 3)
    kept.rounds.close()


def test_a_keyed_mart_that_loses_a_race_or_its_process_is_right_in_the_next_round(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(tmp_path, marts=(BY_VALUE,))
    kept.put(ITEMS, 1, 2)
    assert kept.rounds.round().marts == 1
    publish = Attempt.publish
    for number, error in (
        (10, ApplyConflict("another run was first")),
        (20, RuntimeError("the disk is full")),
    ):

        def fails(self: Attempt, error: Exception = error) -> None:
            if BY_VALUE.name in self.table:
                raise error
            publish(self)

        kept.put(ITEMS, number)
        with monkeypatch.context() as patched:
            patched.setattr(Attempt, "publish", fails)
            assert len(kept.rounds.round().failed) == 1
        assert values(kept) != truth(kept)
        kept.now += 3600
        assert kept.rounds.round().failed == []
        assert values(kept) == truth(kept)
    kept.rounds.close()


@dataclass
class Passages:
    """What passes through the IO manager of any run."""

    reads: list[tuple[str, int | None]] = field(default_factory=list)
    stores: dict[str, list[str]] = field(default_factory=dict)
    """By table, the snapshots that were stored."""

    def take(self) -> "Passages":
        taken, self.reads, self.stores = Passages(self.reads, self.stores), [], {}
        return taken


@pytest.fixture
def passages(monkeypatch: pytest.MonkeyPatch) -> Passages:
    seen, read, store = Passages(), TableIOManager.read, TableIOManager.store

    def reading(self: TableIOManager, identifier: str, snapshot_id: int | None, **options: Any) -> DataFrame:
        seen.reads.append((identifier, snapshot_id))
        return read(self, identifier, snapshot_id, **options)

    def storing(
        self: TableIOManager, identifier: str, computed: Computed, how: Store | None = None
    ) -> dict[str, Any]:
        done = store(self, identifier, computed, how)
        seen.stores.setdefault(identifier, []).append(done["snapshot_id"])
        return done

    monkeypatch.setattr(TableIOManager, "read", reading)
    monkeypatch.setattr(TableIOManager, "store", storing)
    return seen


def snapshots(kept: Kept, mart: Mart) -> list[str]:
    """All commits that a computation of the mart has published, the oldest first."""
    catalog = kept.bench.lake.runtime.catalog
    if not catalog.table_exists(mart.identifier):
        return []
    found = [s for s in main_chain(table(kept, mart)) if read_consumption(summary(s)).snapshots]
    return [str(snapshot.snapshot_id) for snapshot in reversed(found)]


def test_every_kind_of_run_reads_and_stores_through_the_io_manager(
    spark: SparkSession, tmp_path: Path, passages: Passages
) -> None:
    kept = Kept(tmp_path, marts=(BY_VALUE, BY_DAY), notes=TABLE | {"also": ["change_log"]})
    lake, before = kept.bench.lake, {mart.name: list[str]() for mart in (BY_VALUE, BY_DAY)}

    def assert_passed(*marts: Mart) -> None:
        """Each new commit was stored by the IO manager, from inputs that it has read at the recorded snapshots."""
        seen = passages.take()
        assert set(seen.stores) == {mart.identifier for mart in marts}
        for mart in (BY_VALUE, BY_DAY):
            now = snapshots(kept, mart)
            assert now == before[mart.name] + seen.stores.get(mart.identifier, [])
            before[mart.name] = now
        for mart in marts:
            state = newest_consumption(table(kept, mart))
            assert state is not None
            assert set(state.snapshots.items()) <= set(seen.reads)
        assert values(kept) == truth(kept)

    kept.put(ITEMS, 1, 2)
    assert kept.rounds.round().marts == 1
    kept.rounds.close()
    assert_passed(BY_VALUE)

    kept.put(ITEMS, 3)
    kept.put(NOTES, 1)
    result = sync(lake, kept.instance)
    assert (result.failed, set(result.marts)) == ({}, {BY_VALUE.name, BY_DAY.name})
    assert_passed(BY_VALUE, BY_DAY)

    kept.change(ITEMS, ("U", {"id": 3, "v": "other"}))
    kept.put(NOTES, 2)
    kept.bench.apply()
    job = build_definitions(lake).resolve_implicit_global_asset_job_def()
    for run in mart_work(lake.runtime, lake.marts).runs:
        assert job.execute_in_process(instance=kept.instance, asset_selection=run.keys, tags=run.tags).success
    assert_passed(BY_VALUE, BY_DAY)

    (day,) = (row["day"] for row in table(kept, BY_DAY).scan().to_arrow().to_pylist())
    key = BY_DAY.partitions.key(day)
    assert job.execute_in_process(
        instance=kept.instance,
        asset_selection=[dg.AssetKey(BY_DAY.asset_key)],
        partition_key=key,
    ).success
    assert_passed(BY_DAY)

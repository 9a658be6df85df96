"""How long changes took, from the tables' own snapshots: silver's and a mart's, metadata, and the command.

Not here: how long they take on a machine (`benchmarks/latency.py`).
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyiceberg.table import Table
from pyspark.sql import SparkSession
from rich.console import Console

from lake_assets.commands.show.latency import BOUNDS, histogram, latency
from lake_assets.commands.show.show import show_latency, show_status
from lake_assets.commands.show.status import status
from lake_assets.rounds.maintenance import maintain_silver
from lake_assets.silver.batch_log.batch_row import committed_batches
from lake_assets.silver.table.batch_latency import FIRST_COMMIT, FIRST_FILE, Passage, Spread, oldest
from lake_assets_tests.helpers.files.dms_files import cdc_file, load_file
from lake_assets_tests.helpers.orchestration.kept_lake import ITEMS, Kept

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def passages(table: Table) -> list[Passage]:
    """Of the batches of which the table has the commits, the newest first."""
    return [way for row in committed_batches(table)[::-1] if (way := row.passage) is not None]


def test_the_oldest_change_counts() -> None:
    commits = [
        {FIRST_FILE: NOON.isoformat(), FIRST_COMMIT: (NOON - timedelta(seconds=20)).isoformat()},
        {FIRST_FILE: (NOON - timedelta(seconds=5)).isoformat()},
        {FIRST_FILE: (NOON - timedelta(days=1)).isoformat(), "lake.restamp-of": "7"},
        {"added-records": "3"},
    ]
    found = oldest(commits, NOON + timedelta(seconds=2))
    assert found is not None
    assert (found.from_file, found.from_commit, found.to_file) == (7, 22, 15)
    assert found.metadata() == {
        "latency_commit_to_file_seconds": 15,
        "latency_file_to_table_seconds": 7,
        "latency_commit_to_table_seconds": 22,
    }
    assert oldest(commits[3:], NOON) is None
    assert Passage(NOON, NOON).metadata() == {"latency_file_to_table_seconds": 0}


def test_spreads_and_bars() -> None:
    assert Spread.of([None]) is None
    assert Spread.of([3.0]) == Spread(3, 3, 3, 3)
    assert Spread.of([float(number) for number in range(101)]) == Spread(50, 90, 99, 100)
    counts = histogram([0.1, 0.5, 0.6, 4000])
    assert (counts[0], counts[1], counts[-1], sum(counts)) == (2, 1, 1, 4)
    assert len(counts) == len(BOUNDS) + 1


@pytest.mark.spark
def test_files_from_before_the_lake(spark: SparkSession, tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    bench = kept.bench
    bench.put(load_file(ITEMS, [{"id": 1, "v": "old"}]))
    kept.put(ITEMS, 2)
    kept.rounds.round()
    assert not passages(bench.table()), "the changes waited for a lake to be set up"
    assert "latency_file_to_table_seconds" not in kept.told()["silver/shop/items"]
    kept.put(ITEMS, 3)
    kept.rounds.round()
    assert len(passages(bench.table())) == 1


@pytest.mark.spark
@pytest.mark.slow
def test_tables_and_marts_tell(spark: SparkSession, tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    bench, lake = kept.bench, kept.bench.lake
    bench.put(load_file(ITEMS, [{"id": 1, "v": "old"}]))
    assert kept.rounds.round().batches == 1
    assert not passages(bench.table()), "how long a full load takes is another question"
    for number, seconds in enumerate((100, 40)):
        rows = [kept.clock.change("I", {"id": 10 * number + n, "v": "new"}) for n in (2, 3)]
        file = cdc_file(ITEMS, kept.clock.now, rows)
        bench.put(file)
        landed = datetime.now(UTC) - timedelta(seconds=seconds)
        os.utime(tmp_path / "bronze" / file.key, (landed.timestamp(), landed.timestamp()))
        done = kept.rounds.round()
        assert (done.batches, done.marts) == (1, 1)
        newest = passages(bench.table())[0]
        assert abs((newest.landed - landed).total_seconds()) < 0.01
        assert newest.committed == min(row["commit_ts"] for row in rows)
        assert seconds < newest.from_file < seconds + 60
        told = kept.told()
        for table in ("silver/shop/items", "gold/items_now"):
            metadata = told[table]
            assert seconds < metadata["latency_file_to_table_seconds"] < seconds + 60
            whole = metadata["latency_commit_to_file_seconds"] + metadata["latency_file_to_table_seconds"]
            assert whole == pytest.approx(metadata["latency_commit_to_table_seconds"], abs=0.01)
        silver, gold = (
            told[table]["latency_file_to_table_seconds"] for table in ("silver/shop/items", "gold/items_now")
        )
        assert gold > silver
    # Maintenance rewrites and repeats, and was in nobody's way.
    assert maintain_silver(lake.runtime, lake.marts, lake.targets[0]).error is None
    found = {line.table: line for line in latency(lake)}
    assert (found["silver_shop.items"].commits, found["gold.items_now"].commits) == (2, 2)
    items, mart = found["silver_shop.items"].from_file, found["gold.items_now"].from_file
    assert items is not None
    assert mart is not None
    assert 40 < items.p50 < items.max < mart.max < 160
    (line, _) = status(lake)
    assert line.latency == items
    console = Console(record=True, width=150)
    show_latency(console, list(found.values()))
    show_status(console, status(lake))
    text = console.export_text()
    assert "to 60" in text
    assert "File to marts, seconds" in text

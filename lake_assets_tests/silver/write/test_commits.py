"""What each commit of a silver table says, and that batches without effect are commits like others.

Here: position and touched days in the summary, zero rows, metadata over many batches, the engines that read the table.
Not here: the rows themselves (`test_apply.py`), reading a position back (`test_position.py`).
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest
from pyspark.sql import SparkSession

from lake_assets.silver.table.position import (
    BATCH,
    EPOCH,
    LOG_OFFSET,
    MAX_COMMIT_TS,
    MAX_SEQUENCE,
    TOUCHED_DAYS,
)
from lake_assets.silver.table.targets import Tracked
from lake_assets_tests.helpers.files.dms_files import Clock, Row, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench, comparable

pytestmark = pytest.mark.spark
TRIPS: dict[str, Any] = {
    "columns": {"id": "long not null", "started": "timestamptz not null", "ended": "timestamptz"},
    "primary_key": ["id"],
    "partition_by": ["day(started)"],
}


def trip(key: int, started: int, ended: int | None) -> dict[str, Any]:
    def day(number: int) -> datetime:
        return datetime(2026, 3, number, 23, 59, 59, tzinfo=UTC)

    return {"id": key, "started": day(started), "ended": None if ended is None else day(ended)}


@pytest.fixture(scope="module")
def bench(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = Bench(tmp_path_factory.mktemp("commits"), {"public.trips": TRIPS})
    # As for marts of which one follows the partitions, and one the other column.
    bench.tracked["trips"] = Tracked(days=("ended",), by_partition=True)
    return bench


class Turns:
    """Batches of one file each."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.clock = Clock()

    def apply(self, *rows: Row) -> dict[str, str]:
        """The summary of the commit that brought the rows."""
        self.clock.now += timedelta(minutes=1)
        self.bench.put(cdc_file("public.trips", self.clock.now, rows))
        (batch,) = self.bench.apply()["trips"]
        summary = self.bench.summary("trips")
        assert (
            summary[LOG_OFFSET]
            == str(batch.position.log_offset)
            == str(self.bench.lake.runtime.file_log.head())
        )
        assert self.bench.rows("trips") == self.bench.truth("public.trips")
        assert batch.rows == len(self.bench.rows("trips"))
        return summary


def test_fifteen_batches(bench: Bench) -> None:
    """In one test, since each stands on the one before."""
    # A full load that is a header and nothing else: the table is there, empty, and at a position.
    bench.put(load_file("public.trips", []))
    (batch,) = bench.apply()["trips"]
    assert (batch.kind, batch.rows, bench.rows("trips")) == ("full_load", 0, [])
    summary = bench.summary("trips")
    assert (summary[LOG_OFFSET], summary[EPOCH], summary[MAX_SEQUENCE]) == ("1", "1", "")
    assert summary[f"{TOUCHED_DAYS}ended"] == "all"
    assert bench.apply()["trips"] == [], "nothing is pending, so nothing is committed"

    turns = Turns(bench)
    change = turns.clock.change
    assert turns.apply()[f"{TOUCHED_DAYS}ended"] == ""
    summary = turns.apply(
        change("I", trip(1, 1, 2)), change("I", trip(2, 1, None)), change("I", trip(3, 4, 5))
    )
    assert summary[f"{TOUCHED_DAYS}ended"] == "2026-03-02,2026-03-05"
    newest = bench.files("public.trips")[-1].rows[-1]
    assert summary[MAX_SEQUENCE] == newest["change_seq"]
    assert datetime.fromisoformat(summary[MAX_COMMIT_TS]) == newest["commit_ts"]
    assert (summary[f"{BATCH}kind"], summary[f"{BATCH}rows-read"], summary[f"{BATCH}rows-inserted"]) == (
        "cdc",
        "3",
        "3",
    )

    # Days of old images and of new ones: an end that moved, one that came, one whose row got another key, a delete.
    summary = turns.apply(
        change("U", trip(1, 1, 8)),
        change("U", trip(2, 1, 9)),
        change("U", trip(30, 4, 10), before={"id": 3}),
    )
    assert summary[f"{TOUCHED_DAYS}ended"] == "2026-03-02,2026-03-05,2026-03-08,2026-03-09,2026-03-10"
    summary = turns.apply(change("D", {"id": 1}), change("I", trip(4, 11, 11)), change("U", trip(4, 11, 12)))
    # The 11th is in no image before or after the batch: nobody ever saw it.
    assert summary[f"{TOUCHED_DAYS}ended"] == "2026-03-08,2026-03-12"
    assert {key for key in summary if key.startswith("partitions.")} == {"partitions.started_day=2026-03-11"}

    assert turns.apply(change("D", {"id": 404}))[f"{TOUCHED_DAYS}ended"] == ""
    everything = [change("D", {"id": key}) for key in (2, 30, 4)]
    assert turns.apply(*everything)[f"{TOUCHED_DAYS}ended"] == "2026-03-09,2026-03-10,2026-03-12"
    assert bench.rows("trips") == []

    # A file of no bytes at all.
    bench.put_text("public/trips/20260302-000000000.csv")
    (batch,) = bench.apply()["trips"]
    assert (batch.rows_counted, batch.rows_read, batch.strategy) == (0, 0, "append")

    for number in range(7):
        turns.apply(
            change("I", trip(100 + number, 1, 2)), change("U", trip(100 + number // 2, 1, 2 + number))
        )


def test_metadata_stays_small(bench: Bench) -> None:
    runtime = bench.lake.runtime
    assert runtime.branches is not None
    runtime.branches.drop(runtime.sessions.root(), bench.lake.config.catalog.name)
    table = bench.table("trips")
    folder = Path(unquote(urlparse(table.metadata_location).path)).parent
    assert len(list(folder.glob("*.metadata.json"))) <= 11, "previous-versions-max, and the current one"
    assert set(table.refs()) == {"main"}, "no branch of an attempt is left"


def test_every_reader_sees_the_same_rows(bench: Bench) -> None:
    """After merge-on-read batches in format v3, so through deletion vectors."""
    table = bench.table("trips")
    assert table.format_version == 3
    expected = bench.truth("public.trips")
    assert expected
    assert int(bench.summary("trips")["total-position-deletes"]) > 0
    connection = table.scan().to_duckdb("trips")
    assert comparable(connection.sql("FROM trips").to_arrow_table().to_pylist()) == expected
    found = bench.lake.runtime.sessions.root().table(f"{bench.lake.config.catalog.name}.silver_shop.trips")
    assert comparable([row.asDict() | _instants(row.asDict()) for row in found.collect()]) == expected


def _instants(row: dict[str, Any]) -> dict[str, Any]:
    # PySpark shows an instant as the wall clock of this machine, without a zone.
    return {name: value.astimezone(UTC) for name, value in row.items() if isinstance(value, datetime)}

"""DMS deletes a table's files at TRUNCATE and DROP: what becomes of the silver table, and who is told.

Here: the policies on real tables, with kills and rebuilds. Not here: telling it from a lifecycle rule or a wrong prefix
(`bronze/scan/test_vanished.py`), the plans case by case (`test_plan.py`).
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.show.status import status
from lake_assets.errors import TableStopped
from lake_assets.iceberg.publish import Attempt
from lake_assets.iceberg.table_io import load_table
from lake_assets.orchestration.sync import sync
from lake_assets.silver.batch.result import BatchResult
from lake_assets.silver.batch_log.batches_table import BatchLog
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.orchestration.dagster_shop import open_instance
from lake_assets_tests.helpers.processes.faults import Killed

pytestmark = [pytest.mark.spark, pytest.mark.slow]
COLUMNS = {"id": "long not null", "v": "string"}
ITEMS = {"columns": COLUMNS, "primary_key": ["id"]}
HOUR = timedelta(hours=1)


class Story:
    """A table `items` of five rows, of which one was changed, beside `other`, which stays."""

    def __init__(self, folder: Path, on_vanished: str, **more: Any) -> None:
        self.bench = Bench(
            folder, {"public.other": ITEMS, "public.items": ITEMS | {"on_vanished": on_vanished} | more}
        )
        self.clock = Clock(NOON + HOUR)
        self.bench.put(load_file("public.other", [{"id": 1, "v": "o"}]))
        self.bench.put(load_file("public.items", [{"id": n, "v": "loaded"} for n in range(1, 6)]))
        self.change("U", 3, "changed")
        self.apply()

    def change(self, op: str, key: int, value: str | None) -> None:
        self.clock.now += timedelta(minutes=10)
        self.bench.put(
            cdc_file("public.items", self.clock.now, [self.clock.change(op, {"id": key, "v": value})])
        )

    def truncate(self) -> None:
        """As DMS does it: the files of the table are gone."""
        assert self.bench.location is not None
        for key in [key for key in self.bench.bucket if key.startswith("public/items/")]:
            (self.bench.location / key).unlink()
            del self.bench.bucket[key]

    def apply(self) -> list[BatchResult]:
        return self.bench.apply()["items"]

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.bench.stored())

    def is_rebuilt_the_same(self) -> bool:
        rows = self.bench.rows()
        self.bench.lake.runtime.catalog.drop_table("silver_shop.items")
        self.apply()
        return self.bench.rows() == rows


@pytest.fixture
def story(spark: SparkSession, tmp_path: Path) -> Callable[..., Story]:
    def new(on_vanished: str, **more: Any) -> Story:
        return Story(tmp_path, on_vanished, **more)

    return new


@pytest.mark.long
def test_keep(story: Callable[..., Story]) -> None:
    lake = story("keep")
    rows = lake.bench.rows()
    lake.truncate()
    (batch,) = lake.apply()
    assert (batch.kind, batch.rows_removed, len(batch.vanished)) == ("cdc", 0, 1)
    assert lake.bench.rows() == rows
    assert lake.apply() == []
    (items,) = (line for line in status(lake.bench.lake) if line.table == "silver_shop.items")
    assert items.state == "up to date"
    assert items.vanished is not None
    assert (items.reason or "").startswith("all 2 files had vanished from the bucket at ")
    assert (items.reason or "").endswith("on_vanished is keep")

    lake.change("I", 9, "since")
    lake.change("D", 1, None)
    lake.apply()
    assert lake.ids() == [2, 3, 4, 5, 9]
    (items,) = (line for line in status(lake.bench.lake) if line.table == "silver_shop.items")
    assert (items.vanished, items.reason) == (None, None)

    # A reload replaces what was kept.
    lake.bench.put(load_file("public.items", [{"id": 2, "v": "reloaded"}], at=lake.clock.now + HOUR))
    lake.apply()
    assert lake.ids() == [2]


@pytest.mark.long
def test_keep_says_what_was_lost(story: Callable[..., Story]) -> None:
    """Files vanish between being logged and being applied."""
    lake = story("keep")
    lake.change("I", 9, "never read")
    lake.bench.look()
    lake.truncate()
    result = lake.bench.turn()["items"]
    assert isinstance(result.error, TableStopped)
    assert "which the next batch needs, has vanished from the bucket" in str(result.error)


def test_truncate(story: Callable[..., Story]) -> None:
    lake = story("truncate")
    lake.change("I", 8, "not applied, and gone")
    lake.bench.look()
    lake.truncate()
    (batch,) = lake.apply()
    assert (batch.kind, batch.rows_removed, batch.rows, batch.superseded_files) == ("truncate", 5, 0, 1)
    assert lake.bench.summary()["lake.log-offset"] == str(batch.position.log_offset)
    assert lake.apply() == []
    lake.change("I", 9, "since")
    lake.change("U", 3, "a row that is not there")
    (batch,) = lake.apply()
    assert batch.kind == "cdc"
    assert lake.bench.rows() == lake.bench.truth()
    assert lake.is_rebuilt_the_same()

    # Of a late file, the keys are read again: from the files since.
    lake.clock.now -= timedelta(minutes=15)
    lake.change("U", 9, "late")
    (batch,) = lake.apply()
    assert batch.replayed_bytes > 0
    assert lake.bench.rows() == lake.bench.truth()

    # Reloaded, and truncated once more.
    lake.bench.put(load_file("public.items", [{"id": 2, "v": "reloaded"}], at=lake.clock.now + HOUR))
    lake.apply()
    assert lake.ids() == [2]
    lake.truncate()
    assert [batch.kind for batch in lake.apply()] == ["truncate"]
    assert lake.ids() == []


@pytest.mark.long
def test_a_truncation_before_a_reload(story: Callable[..., Story]) -> None:
    """Both are found in one look: the reload's rows stay."""
    lake = story("truncate", also=["change_log"])
    changes = lake.bench.rows("items_changes")
    lake.truncate()
    rows = load_file("public.items", [{"id": n, "v": "reloaded"} for n in (2, 7)], at=NOON + 9 * HOUR).rows
    lake.bench.put(DmsFile("public/items/p0/LOAD00000001.csv", rows))
    lake.clock.now = NOON + 10 * HOUR
    lake.change("D", 7, None)
    assert [batch.kind for batch in lake.apply()] == ["truncate", "full_load", "cdc"]
    assert lake.bench.rows() == lake.bench.truth()
    # A log is what happened.
    assert set(changes) < set(lake.bench.rows("items_changes"))
    assert lake.is_rebuilt_the_same()


@pytest.mark.parametrize("published", [pytest.param(False, marks=pytest.mark.long), True])
def test_killed_while_truncating(
    story: Callable[..., Story], monkeypatch: pytest.MonkeyPatch, published: bool
) -> None:
    lake = story("truncate")
    rows = lake.bench.rows()
    lake.truncate()
    lake.change("I", 9, "since")
    whole = Attempt.publish

    def dies(attempt: Attempt) -> int:
        if published:
            whole(attempt)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Attempt, "drop", lambda self: None)
        patched.setattr(Attempt, "publish", dies)
        with pytest.raises(Killed):
            lake.bench.turn()
    assert lake.bench.rows() == ([] if published else rows)
    assert [batch.kind for batch in lake.apply()] == (["cdc"] if published else ["truncate", "cdc"])
    assert lake.ids() == [9]


@pytest.mark.long
def test_drop(story: Callable[..., Story], monkeypatch: pytest.MonkeyPatch) -> None:
    lake = story("drop")
    catalog = lake.bench.lake.runtime.catalog
    lake.truncate()
    with monkeypatch.context() as patched:
        # Killed between emptying and dropping.
        patched.setattr(type(catalog), "drop_table", lambda self, name: (_ for _ in ()).throw(OSError(name)))
        error = lake.bench.turn()["items"].error
        assert error is not None
        assert isinstance(error.__cause__, OSError)
    assert lake.ids() == []
    lake.apply()
    assert load_table(catalog, "silver_shop.items") is None
    recorded = BatchLog(catalog).since(datetime(2020, 1, 1, tzinfo=UTC), ["silver_shop.items"])
    kinds = [row.kind for row in sorted(recorded, key=lambda row: row.number)]
    assert kinds[0] == "full_load", "its batches outlive it"
    assert kinds[-1] == "truncate"
    (items,) = (line for line in status(lake.bench.lake) if line.table == "silver_shop.items")
    assert (items.state, items.rows, items.pending_files) == ("up to date", 0, 0)
    assert lake.apply() == []
    # Created again at the source.
    lake.bench.put(load_file("public.items", [{"id": 2, "v": "again"}], at=NOON + 9 * HOUR))
    lake.apply()
    assert lake.bench.rows() == lake.bench.truth()


@pytest.mark.long
def test_dagster_is_told(story: Callable[..., Story], tmp_path: Path) -> None:
    lake = story("truncate")
    with open_instance(tmp_path / "dagster") as instance:
        sync(lake.bench.lake, instance, gold=False)
        lake.truncate()
        sync(lake.bench.lake, instance, gold=False)
        sync(lake.bench.lake, instance, gold=False)
        key = dg.AssetKey(["silver", "shop", "items"])
        (record,) = instance.fetch_observations(key, limit=10).records
        observed = record.asset_observation
        assert observed is not None
        assert (observed.description or "").startswith(
            "DMS deletes a table's files at TRUNCATE and DROP: all 2 files"
        )
        metadata = {name: value.value for name, value in observed.metadata.items()}
        assert (metadata["vanished_files"], metadata["rows_removed"], metadata["on_vanished"]) == (
            2,
            5,
            "truncate",
        )
        (newest,) = instance.fetch_materializations(key, limit=1).records
        assert newest.asset_materialization is not None
        assert newest.asset_materialization.metadata["dagster/row_count"].value == 0

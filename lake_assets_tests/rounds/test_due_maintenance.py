"""Maintenance by itself: tables become due by what batches do to them, and maintenance ends what is due.

Here: silver and marts, with Spark, by the rule that the sensor, `sync` and `maintain --dry-run` share. Not here: the
limits (`iceberg/test_table_health.py`), the steps of maintenance (`silver/test_maintenance.py`).
"""

from pathlib import Path
from random import Random

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.iceberg.file_io.metadata_cache import MetadataCache
from lake_assets.iceberg.upkeep import table_health, table_maintenance
from lake_assets.iceberg.upkeep.parts_and_limits import MIN_SMALL_FILES, WORN_SHARE, Part
from lake_assets.lake import Lake
from lake_assets.orchestration import sync
from lake_assets.rounds.due_maintenance import TableUpkeep, due_upkeep, upkeep
from lake_assets.rounds.pending_work import SyncResult
from lake_assets_tests.helpers.files.dms_files import Clock
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, changed, loaded
from lake_assets_tests.helpers.lakes.keyed_shop import KEYED, maintained_shop
from lake_assets_tests.helpers.lakes.small_table import NEVER

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("keep_little")]


def of_items(bench: Bench) -> TableUpkeep:
    return next(iter(upkeep(bench.lake)))


@pytest.mark.parametrize("version", [3, pytest.param(2, marks=pytest.mark.long)])
def test_files_with_deleted_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """A file becomes due once WORN_SHARE of its rows are marked; the table, once it has MIN_SMALL_FILES of them."""
    monkeypatch.setattr(table_health, "SMALL_FILES", 100)
    bench = Bench(tmp_path, {"public.items": ITEMS | {"format_version": version}}, sections=NEVER)
    clock, files = Clock(), MIN_SMALL_FILES
    bench.put(loaded(dict.fromkeys(range(10), "a")))
    bench.apply()
    for number in range(1, files):
        bench.put(changed(clock, *(("I", 10 * number + key, "a") for key in range(10))))
        bench.apply()
    assert of_items(bench).health.files.number == files
    for marked in range(1, 4):
        bench.put(changed(clock, *(("D", 10 * number + marked, "a") for number in range(files))))
        (batch,) = bench.apply()["items"]
        found = of_items(bench)
        assert found.health.files.deleted_rows == files * marked
        assert found.health.files.deleted_share == pytest.approx(marked / 10)
        assert found.health.files.delete_files == files
        shown = found.health.figures()
        in_commit = {name: shown[name] for name in ("data_files", "delete_files", "deleted_rows")}
        assert {name: getattr(batch, name) for name in in_commit} == in_commit
        is_due = marked / 10 >= WORN_SHARE
        assert (found.health.files.worn, found.reason) == (
            (files, f"{files} files with many deleted rows") if is_due else (0, "")
        )
    rows = bench.rows()
    done = of_items(bench).run()
    assert done.error is None
    after = of_items(bench)
    assert (after.health.files.delete_files, after.health.files.scan_ratio) == (0, 1.0)
    assert found.health.files.scan_ratio > 1
    assert (after.reason, after.health.files.deleted_rows, after.health.files.number) == ("", 0, 1)
    assert bench.rows() == rows == bench.truth()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))])
def test_what_was_due_is_not_due_after_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Else a sensor would start the same maintenance again and again. By random limits and batches."""
    random = Random(seed)
    for limit in ("SMALL_FILES", "MANIFESTS", "SNAPSHOTS"):
        monkeypatch.setattr(table_health, limit, random.choice([MIN_SMALL_FILES, 7, 100]))
    table = KEYED | ({"partition_by": ["bucket(2, id)"]} if random.random() < 0.5 else {})
    shop = maintained_shop(tmp_path, items=table | {"format_version": random.choice([2, 3])})
    ran = 0
    for _ in range(8):
        shop.change()
        shop.bench.apply()
        for _ in range(2):  # rewriting files adds snapshots
            for one in due_upkeep(shop.bench.lake):
                assert one.run().error is None
                ran += 1
        assert of_items(shop.bench).reason == ""
        shop.check()
    assert ran >= (1 if table_health.SNAPSHOTS < 100 else 0)
    shop.check()


def test_only_the_due_part_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[set[Part]] = []
    plain = table_maintenance.TableMaintenance.run

    def noted(
        self: table_maintenance.TableMaintenance, chosen: tuple[Part, ...]
    ) -> table_maintenance.Maintained:
        parts.append({*chosen})
        return plain(self, chosen)

    monkeypatch.setattr(table_maintenance.TableMaintenance, "run", noted)
    monkeypatch.setattr(table_health, "SNAPSHOTS", 4)
    shop = maintained_shop(tmp_path)
    assert due_upkeep(shop.bench.lake) == []
    for _ in range(2):
        shop.change()
        shop.bench.apply()
    (due,) = due_upkeep(shop.bench.lake)
    assert due.reason == "5 snapshots that nothing needs"
    due.run()
    assert parts == [{Part.SNAPSHOTS}]
    assert len(shop.bench.table().snapshots()) == 1
    assert due_upkeep(shop.bench.lake, among=["silver_shop.others"]) == []


def test_tables_that_are_stopped_or_cannot_be_read_keep_nobody_waiting(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_health, "SNAPSHOTS", 1)
    shop = maintained_shop(tmp_path, items=KEYED, goods=KEYED, parts=KEYED)
    shop.change()
    shop.bench.apply()
    lake = shop.bench.lake
    assert {each.table for each in due_upkeep(lake)} == {
        f"silver_shop.{n}" for n in ("items", "goods", "parts")
    }
    shop.sql("DELETE FROM {table} WHERE id = 1")
    goods = shop.bench.table("goods")
    Path(goods.metadata_location.removeprefix("file:")).unlink()
    # This process has the file's content, as another one has not.
    monkeypatch.setattr(MetadataCache, "__call__", lambda self, *given: self._read(*given))
    assert [each.table for each in due_upkeep(lake)] == ["silver_shop.parts"]
    assert sync_notes(lake, "silver_shop.goods") == []


def sync_notes(lake: Lake, table: str) -> list[str]:
    """What `sync` says of maintenance after it has applied the table."""
    result = SyncResult(applied={table: {}})
    with dg.DagsterInstance.ephemeral() as instance:
        sync._maintain_one(lake, instance, result)
    return result.notes

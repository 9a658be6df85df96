"""`partition_by` of lake.yaml, edited: said until maintenance has applied it. Not here: maintenance's other steps."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from lake_assets.commands.setup.validate import check
from lake_assets.commands.show.status import status
from lake_assets.iceberg.partitioning import has_former_partitions, partitions_of
from lake_assets.iceberg.table_io import summary
from lake_assets.iceberg.upkeep import parts_and_limits, table_maintenance
from lake_assets.iceberg.upkeep.table_maintenance import MOST_PARTS, TableMaintenance
from lake_assets.rounds.maintenance import maintain_silver
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.small_table import NEVER
from lake_assets_tests.helpers.processes.faults import Killed, killed

pytestmark = pytest.mark.spark
TABLE = "public.items"
COMMAND = "`lake-assets maintain --source shop --table public.items`"


def config(*partition_by: str) -> dict[str, Any]:
    columns = {"id": "long not null", "at": "timestamptz", "name": "string"}
    return {TABLE: {"columns": columns, "primary_key": ["id"], "partition_by": list(partition_by)}}


class Life:
    """A table with a row for each of some days."""

    def __init__(self, folder: Path, *partition_by: str, **sections: Any) -> None:
        self.bench, self.clock = Bench(folder, config(*partition_by), sections=sections), Clock()
        self.bench.put(load_file(TABLE, [self.row(key) for key in range(1, 8)]))
        self.bench.apply()

    def row(self, key: int, name: str = "old") -> dict[str, Any]:
        return {"id": key, "at": datetime(2026, 2, key % 100, 12, tzinfo=UTC), "name": name}

    def change(self, op: str, *keys: int) -> None:
        self.clock.now += timedelta(minutes=1)
        changes = [self.clock.change(op, self.row(key, "new")) for key in keys]
        self.bench.put(cdc_file(TABLE, self.clock.now, changes))
        self.bench.apply()

    def note(self) -> str | None:
        (line,) = status(self.bench.lake)
        assert line.state == "up to date"
        assert [line.reason] if line.reason else check(self.bench.lake).warnings == []
        return line.reason

    def maintain(self) -> None:
        (target,) = self.bench.lake.targets
        done = maintain_silver(self.bench.lake.runtime, (), target)
        if done.error is not None:
            raise done.error

    def partitions(self) -> Sequence[str]:
        return partitions_of(self.bench.table())


def test_they_are_changed_by_maintenance_and_said_until_then(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(tmp_path)
    assert life.note() is None
    life.bench.edit(config("day(at)", "bucket(4,id)"))
    life.change("U", 1)
    assert life.partitions() == ()
    assert life.note() == (
        "silver_shop.items is partitioned by nothing, and lake.yaml says day(at), bucket(4,id): run "
        f"{COMMAND}, which rewrites its files."
    )
    life.maintain()
    assert (life.note(), life.partitions()) == (None, ("day(at)", "bucket(4, id)"))
    assert not has_former_partitions(life.bench.table())
    assert life.bench.rows() == life.bench.truth()
    life.change("D", 2)
    life.change("U", 3)
    assert life.bench.rows() == life.bench.truth()
    life.bench.edit(config("bucket(4, id)"))
    life.maintain()
    assert (life.note(), life.partitions()) == (None, ("bucket(4, id)",))
    life.change("I", 9)
    life.bench.edit(config())
    life.maintain()
    life.change("D", 9)
    assert (life.note(), life.partitions()) == (None, ())
    assert life.bench.rows() == life.bench.truth()


def test_one_that_was_killed_before_it_had_moved_the_files_is_made_good(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path)
    life.bench.edit(config("day(at)"))
    with monkeypatch.context() as patched:
        patched.setattr(TableMaintenance, "compact", killed)
        with pytest.raises(Killed):
            life.maintain()
    assert life.partitions() == ("day(at)",)
    assert "has files from before it was partitioned by day(at)" in (life.note() or "")
    life.change("U", 4)
    life.maintain()
    assert life.note() is None
    assert life.bench.rows() == life.bench.truth()


def test_maintenance_leaves_right_partitions_alone(spark: SparkSession, tmp_path: Path) -> None:
    life = Life(tmp_path, "day(at)", "truncate(2, name)")
    before = life.bench.table().metadata.default_spec_id
    life.maintain()
    assert life.bench.table().metadata.default_spec_id == before
    assert life.note() is None


@pytest.mark.parametrize(
    ("part", "parts", "files"), [(1 << 30, 1, ["4"]), (1, MOST_PARTS, ["1"] * 4)], ids=["small", "large"]
)
def test_the_files_of_a_small_table_are_rewritten_in_one_commit(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    part: int,
    parts: int,
    files: list[str],
) -> None:
    rule = table_maintenance._parts

    def as_if_so_large(table: Table | None) -> int:
        with monkeypatch.context() as patched:
            patched.setattr(table_maintenance, "BYTES_OF_PART", part)
            found = rule(table)
        assert found == parts
        return found

    monkeypatch.setattr(table_maintenance, "_parts", as_if_so_large)
    for module in (parts_and_limits, table_maintenance):
        monkeypatch.setattr(module, "MIN_SMALL_FILES", 2)
    life = Life(tmp_path, "day(at)", **NEVER)
    life.change("I", 101, 102, 103, 104)
    life.maintain()
    found = [summary(snapshot) for snapshot in life.bench.table().snapshots()]
    assert [each["added-data-files"] for each in found if "deleted-data-files" in each] == files
    assert life.bench.summary()["total-data-files"] == "7"
    assert life.bench.rows() == life.bench.truth()

"""A process that dies between the publish of a batch and the table's word that its columns have come to the contract.

Here: what must not be done a second time once there are rows of the new contract. Not here: the steps up to the
publish, which may be repeated (`test_alter_columns.py`), every step of the main job
(`silver/apply/test_kill_points.py`).
"""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.processes.faults import POINTS, Killed, armed, drop_branch_once, killed

pytestmark = pytest.mark.spark
TABLE = "public.items"


def config(*columns: str, **more: Any) -> dict[str, Any]:
    return {
        TABLE: {
            "columns": {"id": "int not null", **dict.fromkeys(columns, "int")},
            "primary_key": ["id"],
            **more,
        }
    }


class Life:
    """A table that changes its columns and is killed on the way."""

    def __init__(self, folder: Path, tables: Mapping[str, Any], **row: Any) -> None:
        self.clock = Clock()
        self.bench = Bench(folder, tables)
        self.bench.put(load_file(TABLE, [{"id": 1, **row}]))
        self.bench.apply()

    def insert(self, key: int, **row: Any) -> None:
        self.clock.now += timedelta(minutes=1)
        self.bench.put(cdc_file(TABLE, self.clock.now, [self.clock.change("I", {"id": key, **row})]))

    def killed_at(self, point: str) -> None:
        with armed(POINTS[point], killed), pytest.raises(Killed):
            self.bench.apply()

    def values(self, column: str) -> dict[int, Any]:
        return self.bench.stored_by_id(column)


def test_rows_that_say_null_do_not_get_the_default(spark: SparkSession, tmp_path: Path) -> None:
    """It is for rows from before the column."""
    life = Life(tmp_path, config("a"), a=1)
    life.bench.edit(config("a", "stock", defaults={"stock": 7}))
    life.insert(2, a=2, stock=None)
    life.killed_at("evolve, published")
    life.insert(3, a=3, stock=3)
    life.bench.apply()
    assert life.values("stock") == {1: 7, 2: None, 3: 3}


def test_rows_get_the_default_although_the_branch_was_dropped_meanwhile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maintenance takes the branch for a dead attempt's, and Iceberg creates it again at main."""
    life = Life(tmp_path, config("a"), a=1)
    life.bench.edit(config("a", "stock", defaults={"stock": 7}))
    life.insert(2, a=2, stock=2)
    dropped = drop_branch_once(monkeypatch, life.bench)
    life.bench.apply()
    assert len(dropped) == 1
    assert life.values("stock") == {1: 7, 2: 2}


@pytest.mark.long
def test_a_column_that_came_again_keeps_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Dropped and added before a batch: the old column goes, once."""
    policies = {"schema_changes": {"dropped": "drop"}}
    life = Life(tmp_path, config("a", "b", **policies), a=1, b=1)
    life.bench.edit(config("a", **policies))
    life.insert(2, a=2)
    life.killed_at("read, begun")
    life.bench.edit(config("a", "b", **policies))
    life.insert(3, a=3, b=3)
    life.killed_at("evolve, published")
    life.insert(4, a=4, b=4)
    life.bench.apply()
    assert life.values("b") == {1: None, 2: None, 3: 3, 4: 4}


@pytest.mark.long
def test_a_drop_that_was_not_reached_is_made_good(spark: SparkSession, tmp_path: Path) -> None:
    policies = {"schema_changes": {"dropped": "drop"}}
    life = Life(tmp_path, config("a", "b", **policies), a=1, b=1)
    life.bench.edit(config("a", **policies))
    life.insert(2, a=2)
    life.killed_at("evolve, published")
    life.insert(3, a=3)
    life.bench.apply()
    assert life.bench.table().schema().column_names == ["id", "a"]

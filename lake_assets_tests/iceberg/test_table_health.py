"""When a table is due for maintenance, by its own metadata: each limit on either side, on tables of PyIceberg.

Here: limits that need no deleted rows. Not here: deleted rows, and that maintenance ends what is due
(`rounds/test_due_maintenance.py`), which snapshots may expire (`test_retention.py`).
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from lake_assets.config import MaintenanceConfig
from lake_assets.iceberg.upkeep import table_health
from lake_assets.iceberg.upkeep.table_health import Health, health
from lake_assets.iceberg.upkeep.table_maintenance import Part
from lake_assets.silver.table.position import SILVER

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", LongType()))
PARTITIONS = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    found = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/tables")
    found.create_namespace("silver_shop")
    return found


def table_of(catalog: Catalog, *commits: Sequence[int], partitioned: bool = False) -> Table:
    """A table with a commit for each list of partitions, each with a row of each of them."""
    spec = PARTITIONS if partitioned else PartitionSpec()
    table = catalog.create_table("silver_shop.items", SCHEMA, partition_spec=spec)
    for parts in commits:
        table.append(pa.table({"id": pa.array(parts, pa.int64()), "part": pa.array(parts, pa.int64())}))
    return table


def now_of(table: Table, *, after: timedelta = timedelta(0)) -> Health:
    return health(table, MaintenanceConfig(), datetime.now(UTC) + after, SILVER)


@pytest.fixture(autouse=True)
def low(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, value in (("SMALL_FILES", 4), ("MANIFESTS", 6), ("SNAPSHOTS", 3)):
        monkeypatch.setattr(table_health, limit, value)


def test_a_new_table_is_not_due(catalog: Catalog) -> None:
    found = now_of(catalog.create_table("silver_shop.items", SCHEMA))
    assert (found.files, found.snapshots, found.due) == (0, 0, {})


def test_small_files(catalog: Catalog) -> None:
    table = table_of(catalog, *[[1]] * 3)
    assert now_of(table).due == {}
    table.append(pa.table({"id": [4], "part": [1]}))
    found = now_of(table)
    assert found.due == {Part.FILES: "4 small files"}
    sizes = [task.file.file_size_in_bytes for task in table.scan().plan_files()]
    assert found.bytes == sum(sizes)
    assert found.rewritten_bytes == 0, "Iceberg takes five files of a partition, or more"


def test_small_files_count_by_partition(catalog: Catalog) -> None:
    """Six files, three of each partition: no reader of one partition gains by a rewrite."""
    table = table_of(catalog, *[[1, 2]] * 3, partitioned=True)
    found = now_of(table)
    assert (found.files, found.small, found.mergeable, found.due) == (6, 6, 0, {})
    for _ in range(3):
        table.append(pa.table({"id": [4], "part": [1]}))
    found = now_of(table)
    assert (found.mergeable, found.due[Part.FILES]) == (6, "6 small files, 6 manifests")
    ours = [task.file for task in table.scan("part = 1").plan_files()]
    assert found.rewritten_bytes == sum(file.file_size_in_bytes for file in ours)


def test_large_files_are_left_as_they_are(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(catalog, *[[1]] * 5)
    sizes = [task.file.file_size_in_bytes for task in table.scan().plan_files()]
    monkeypatch.setattr(table_health, "FILE_SIZE", min(sizes) * 4 // 3)
    assert now_of(table).small == 0
    monkeypatch.setattr(table_health, "FILE_SIZE", max(sizes) * 4 // 3 + 2)
    assert now_of(table).small == 5


def test_manifests(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_health, "SMALL_FILES", 100)
    table = table_of(catalog, *[[1]] * 5)
    assert now_of(table).due == {}
    table.append(pa.table({"id": [6], "part": [1]}))
    assert now_of(table).due == {Part.FILES: "6 manifests"}


def test_snapshots_that_nothing_needs(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were replaced longer ago than `keep_snapshots`."""
    monkeypatch.setattr(table_health, "SMALL_FILES", 100)
    table = table_of(catalog, [1], [2], [3])
    late = MaintenanceConfig().keep_snapshots + timedelta(minutes=1)
    assert now_of(table).expirable == 0
    assert (now_of(table, after=late).expirable, now_of(table, after=late).due) == (2, {})
    table.append(pa.table({"id": [4], "part": [1]}))
    assert now_of(table, after=late).due == {Part.SNAPSHOTS: "3 snapshots that nothing needs"}

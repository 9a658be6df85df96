"""When a table is due for maintenance, by its own metadata: each limit on either side, on tables of PyIceberg.

Here: limits that need no deleted rows. Not here: deleted rows, and that maintenance ends what is due
(`rounds/test_due_maintenance.py`), which snapshots may expire (`test_retention.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from lake_assets.config import MaintenanceConfig
from lake_assets.iceberg.file_io.pyiceberg_private import files_of_manifest
from lake_assets.iceberg.table_io import ORPHANS_REMOVED_AT
from lake_assets.iceberg.upkeep import parts_and_limits, table_health
from lake_assets.iceberg.upkeep.orphan_files import is_search_due
from lake_assets.iceberg.upkeep.parts_and_limits import Part
from lake_assets.iceberg.upkeep.table_health import BEHIND, Files, Health, health
from lake_assets.rounds.due_maintenance import TableUpkeep
from lake_assets.rounds.maintenance import maintain_silver
from lake_assets.silver.table.position import SILVER

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", LongType()))
SETTINGS = MaintenanceConfig(remove_orphan_files_after=None)
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
    return health(table, SETTINGS, datetime.now(UTC) + after, SILVER)


@pytest.fixture(autouse=True)
def low(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, value in (("SMALL_FILES", 4), ("MANIFESTS", 6), ("SNAPSHOTS", 3)):
        monkeypatch.setattr(table_health, limit, value)
    monkeypatch.setattr(table_health, "_known", {})


def test_a_new_table_is_not_due(catalog: Catalog) -> None:
    found = now_of(catalog.create_table("silver_shop.items", SCHEMA))
    assert (found.files.number, found.snapshots, found.due()) == (0, 0, {})


def test_small_files(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_health, "SMALL_FILES", 6)
    monkeypatch.setattr(table_health, "MANIFESTS", 100)
    table = table_of(catalog, *[[1]] * 4)
    assert now_of(table).due() == {}
    table.append(pa.table({"id": [4], "part": [1]}))
    assert now_of(table).due() == {}
    table.append(pa.table({"id": [4], "part": [1]}))
    found = now_of(table)
    assert found.due() == {Part.FILES: "6 small files"}
    sizes = [task.file.file_size_in_bytes for task in table.scan().plan_files()]
    assert found.files.bytes == found.rewritten_bytes == sum(sizes)


def test_small_files_count_by_partition(catalog: Catalog) -> None:
    """Six files, three of each partition: no reader of one partition gains by a rewrite."""
    table = table_of(catalog, *[[1, 2]] * 3, partitioned=True)
    found = now_of(table)
    assert (found.files.number, found.files.crowded, found.files.mergeable, found.due()) == (6, 0, 0, {})
    for _ in range(3):
        table.append(pa.table({"id": [4], "part": [1]}))
    found = now_of(table)
    assert (found.files.crowded, found.due()[Part.FILES]) == (6, "6 small files, 6 manifests")
    ours = [task.file for task in table.scan("part = 1").plan_files()]
    assert found.rewritten_bytes == sum(file.file_size_in_bytes for file in ours)


def test_large_files_are_left_as_they_are(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(catalog, *[[1]] * 5)
    sizes = [task.file.file_size_in_bytes for task in table.scan().plan_files()]
    for module in (parts_and_limits, table_health):
        monkeypatch.setattr(module, "LARGE", min(sizes))
    table_health._known.clear()
    assert now_of(table).files.small == 0
    monkeypatch.setattr(parts_and_limits, "LARGE", max(sizes) + 1)
    table_health._known.clear()
    assert now_of(table).files.small == 5


def test_few_large_files_are_not_small(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(catalog, *[[1]] * 2)
    sizes = [task.file.file_size_in_bytes for task in table.scan().plan_files()]
    for module in (parts_and_limits, table_health):
        monkeypatch.setattr(module, "LARGE", min(sizes))
    assert (now_of(table).files.number, now_of(table).files.small) == (2, 0)


def test_manifests(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_health, "SMALL_FILES", 100)
    table = table_of(catalog, *[[1]] * 5)
    assert now_of(table).due() == {}
    table.append(pa.table({"id": [6], "part": [1]}))
    assert now_of(table).due() == {Part.FILES: "6 manifests"}


def test_snapshots_that_nothing_needs(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were replaced longer ago than `keep_snapshots`."""
    monkeypatch.setattr(table_health, "SMALL_FILES", 100)
    table = table_of(catalog, [1], [2], [3])
    late = MaintenanceConfig().keep_snapshots + timedelta(minutes=1)
    assert now_of(table).expirable == 0
    assert (now_of(table, after=late).expirable, now_of(table, after=late).due()) == (2, {})
    table.append(pa.table({"id": [4], "part": [1]}))
    assert now_of(table, after=late).due() == {Part.SNAPSHOTS: "3 snapshots that nothing needs"}


def test_snapshots_that_are_few_of_many() -> None:
    """An expiry reads those that stay, so it waits for a tenth of all."""

    def is_due(number: int, expirable: int, times: int = 1) -> bool:
        return Part.SNAPSHOTS in Health(Files(), snapshots=number, expirable=expirable).due(times)

    assert [is_due(1000, expirable) for expirable in (99, 100)] == [False, True]
    assert [is_due(1000, expirable, 2) for expirable in (199, 200)] == [False, True]
    assert [is_due(20, expirable) for expirable in (2, 3)] == [False, True]


def test_an_expiry_rewrites_no_bytes() -> None:
    """`sync` leaves large rewrites alone, but not the expiry of a table with many bytes of small files."""
    files = Files(number=3, crowded=3, rewritten_bytes=1 << 30)

    def bytes_of(crowded: int) -> int:
        found = Health(replace(files, crowded=crowded), snapshots=9, expirable=9)
        return TableUpkeep("silver_shop.items", (), found, maintain_silver, list).rewritten_bytes

    assert (bytes_of(3), bytes_of(4)) == (0, 1 << 30)


def test_small_files_that_are_scattered(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """No partition has many, but all together do. Of partitions with fewer than five, none is merged."""
    monkeypatch.setattr(table_health, "SMALL_FILES", 6)
    monkeypatch.setattr(table_health, "MANIFESTS", 100)
    monkeypatch.setattr(table_health, "SCATTERED_FILES", 10)
    table = table_of(catalog, *[[1, 2]] * 4, partitioned=True)
    assert now_of(table).due() == {}
    table.append(pa.table({"id": [4], "part": [1]}))
    assert (now_of(table).files.mergeable, now_of(table).due()) == (5, {})
    table.append(pa.table({"id": [4], "part": [2]}))
    assert now_of(table).due() == {Part.FILES: "10 small files"}


def test_manifests_that_a_table_needs(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewrite would leave as many."""
    monkeypatch.setattr(table_health, "SMALL_FILES", 100)
    table = table_of(catalog, *[[1]] * 8)
    assert now_of(table).due() == {Part.FILES: "8 manifests"}
    monkeypatch.setattr(table_health, "MANIFEST_SIZE", 1000)
    assert now_of(table).due() == {}


def test_a_table_that_a_continuous_run_maintains_too(catalog: Catalog) -> None:
    table = table_of(catalog, *[[1]] * 7)
    assert now_of(table).due()
    assert now_of(table).due(2) == {}
    table.append(pa.table({"id": [4], "part": [1]}))
    assert now_of(table).due(2) == {Part.FILES: "8 small files"}


def test_a_table_is_behind_at_twice_the_limits(catalog: Catalog) -> None:
    """Snapshots are nothing to a reader: only small files, deleted rows and manifests count."""
    table = table_of(catalog, *[[1]] * 7)
    late = MaintenanceConfig().keep_snapshots + timedelta(minutes=1)
    assert {*now_of(table, after=late).due(2)} == {Part.SNAPSHOTS}
    assert now_of(table, after=late).behind == ""
    table.append(pa.table({"id": [4], "part": [1]}))
    assert now_of(table, after=late).behind == "8 small files"
    assert now_of(table).scans.startswith(
        "A full scan opens 8 data files, 8 of them small, and takes about 1.1 times"
    )


def test_a_full_scan_is_compared_with_that_of_a_fresh_copy() -> None:
    """The estimate by the constants, for a table of one size: few files and many, deleted rows, partitions."""
    whole = Files(number=1, bytes=100 << 20, rows=1000, partitions=1)
    assert whole.scan_ratio == 1.0
    one = table_health.SCAN_SECONDS + table_health.FILE_SECONDS + 100 * table_health.MB_SECONDS
    many = replace(whole, number=101)
    assert many.scan_ratio == pytest.approx((one + 100 * table_health.FILE_SECONDS) / one)
    assert replace(many, partitions=101).scan_ratio == 1.0, "a fresh copy has a file a partition at least"
    marked = replace(whole, deleted_rows=500, delete_files=1)
    assert marked.deleted_share == 0.5
    assert marked.scan_ratio == pytest.approx(
        (one + table_health.VECTOR_SECONDS) / (one - 50 * table_health.MB_SECONDS)
    )
    assert Files().scan_ratio == 1.0
    large = replace(whole, number=9, bytes=1 << 30)
    assert large.scan_ratio < replace(large, number=10).scan_ratio, "a fresh copy has eight files"


def test_few_files_of_a_table_with_partitions_count_as_a_file_each(catalog: Catalog) -> None:
    """Their manifests are not read."""
    assert now_of(table_of(catalog, *[[1, 2]] * 1, partitioned=True)).files.partitions == 2
    catalog.drop_table("silver_shop.items")
    assert now_of(table_of(catalog, *[[1, 2]] * 3, partitioned=True)).files.partitions == 2


def test_partitions_that_have_changed(catalog: Catalog) -> None:
    """The rewrite takes all files."""
    table = table_of(catalog, *[[1]] * 4)
    found = health(table, SETTINGS, datetime.now(UTC), SILVER, (), ["part"])
    assert found.rewritten_bytes == found.files.bytes > now_of(table).rewritten_bytes


def test_a_head_whose_files_are_gone(catalog: Catalog) -> None:
    table = table_of(catalog, [1], [2])
    head = table.current_snapshot()
    assert head is not None
    Path(head.manifest_list.removeprefix("file:")).unlink()
    found = now_of(table)
    assert found.due() == {Part.FILES: "a newest commit whose files are gone"}
    assert (found.scans, found.figures()) == ("A full scan fails.", {})


def test_a_look_at_many_files_reads_their_manifests_once(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, read = table_of(catalog, *[[1]] * 5), list[str]()

    def noted(manifest: ManifestFile, io: FileIO) -> list[tuple[DataFile, str | None]]:
        read.append(manifest.manifest_path)
        return files_of_manifest(manifest, io)

    monkeypatch.setattr(table_health, "files_of_manifest", noted)
    assert now_of(table) == now_of(catalog.load_table("silver_shop.items"))
    assert len(read) == 5
    monkeypatch.setattr(table_health, "SMALL_FILES", 100)
    table_health._known.clear()
    assert now_of(table).files.number == 5
    assert len(read) == 5, "few files without deleted rows are not worth a look"


AGE = timedelta(days=3)
MINUTE = timedelta(minutes=1)


def searched(table: Table, at: datetime) -> Table:
    with table.transaction() as change:
        change.set_properties({ORPHANS_REMOVED_AT: at.isoformat()})
    return table


def test_a_search_for_orphan_files_is_due_once_in_their_age(catalog: Catalog) -> None:
    table = table_of(catalog, [1])
    now = datetime.now(UTC)
    assert is_search_due(table, AGE, now), "a table of a former release"
    assert not is_search_due(table, None, now)
    searched(table, now)
    assert not is_search_due(table, AGE, now + AGE - MINUTE)
    assert is_search_due(table, AGE, now + AGE)
    settings = MaintenanceConfig(keep_snapshots=timedelta(days=30))
    for after, due in ((AGE - MINUTE, {}), (AGE, {Part.ORPHANS: "files that may be orphans"})):
        assert health(table, settings, now + after, SILVER).due() == due
        assert health(table, settings, now + after, SILVER).due(BEHIND) == due


def test_a_quiet_table_is_searched_until_its_last_orphans_are_old(catalog: Catalog) -> None:
    table = table_of(catalog, [1])
    newest = table.current_snapshot()
    assert newest is not None
    quiet = datetime.fromtimestamp(newest.timestamp_ms / 1000, UTC)
    later = quiet + timedelta(days=60)
    assert is_search_due(searched(table, quiet + AGE - MINUTE), AGE, later)
    assert not is_search_due(searched(table, quiet + AGE + MINUTE), AGE, later)


def test_no_search_where_it_may_remove_nothing(catalog: Catalog) -> None:
    table = table_of(catalog, [1])
    with table.transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    assert not is_search_due(table, AGE, datetime.now(UTC))
    empty = catalog.create_table("silver_shop.empty", SCHEMA)
    assert not is_search_due(searched(empty, datetime.now(UTC) - 2 * AGE), AGE, datetime.now(UTC))

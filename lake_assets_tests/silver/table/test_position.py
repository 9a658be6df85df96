"""A silver table's position: written into a commit, read back from it or from its nearest ancestor that has one."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from lake_assets.commands.show.status import status
from lake_assets.errors import LakeError
from lake_assets.iceberg.catalog import ensure_namespace
from lake_assets.silver.table.position import Position, read_position
from lake_assets_tests.helpers.lakes.small_lakes import small_lake

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
HERE = Position(
    log_offset=7,
    epoch=2,
    max_sequence="2026030112000000" + "7" * 19,
    max_commit_ts=datetime(2026, 3, 1, 12, tzinfo=UTC),
)


def snapshot_id(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("silver_shop")
    return catalog


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("silver_shop.items", ROWS.schema)


def test_a_table_that_is_not_there_or_empty_is_at_the_beginning(table: Table) -> None:
    assert read_position(None) == read_position(table) == Position()


def test_what_was_written_is_read(table: Table) -> None:
    table.append(ROWS, snapshot_properties=HERE.properties())
    found = read_position(table)
    assert found == Position(
        HERE.log_offset,
        HERE.epoch,
        HERE.max_sequence,
        HERE.max_commit_ts,
        snapshot_id(table),
        rows=2,
    )


def test_without_changes_there_is_no_newest_commit(table: Table) -> None:
    table.append(ROWS.slice(0, 0), snapshot_properties=Position(log_offset=1).properties())
    assert read_position(table).max_commit_ts is None
    assert read_position(table).max_sequence == ""


def test_commits_without_a_position_are_looked_through(table: Table) -> None:
    """Maintenance rewrites files in commits of its own; the next batch is planned from the last of them."""
    table.append(ROWS, snapshot_properties=HERE.properties())
    for _ in range(3):
        table.append(ROWS)
    found = read_position(table)
    assert (found.log_offset, found.epoch) == (7, 2)
    assert (found.snapshot_id, found.rows) == (snapshot_id(table), 8)


def test_the_newest_position_counts(table: Table) -> None:
    table.append(ROWS, snapshot_properties=HERE.properties())
    table.append(ROWS, snapshot_properties=Position(log_offset=9, epoch=3).properties())
    assert (read_position(table).log_offset, read_position(table).epoch) == (9, 3)


def test_rows_without_any_position_are_refused(table: Table) -> None:
    table.append(ROWS)
    with pytest.raises(
        LakeError, match=r"silver_shop\.items has 2 rows, and none of its snapshots has lake\.log-offset"
    ):
        read_position(table)


def test_a_history_that_was_expired_is_refused(table: Table) -> None:
    table.append(ROWS, snapshot_properties=HERE.properties())
    first = snapshot_id(table)
    table.append(ROWS)
    table.maintenance.expire_snapshots().by_id(first).commit()
    with pytest.raises(LakeError, match="another tool expired its snapshots"):
        read_position(table.refresh())


def test_a_table_emptied_by_hand_starts_again(table: Table) -> None:
    table.append(ROWS)
    table.delete("id > 0")
    assert read_position(table) == Position(snapshot_id=snapshot_id(table))


def test_status_says_what_is_wrong_with_a_table(tmp_path: Path) -> None:
    lake = small_lake(tmp_path)
    ensure_namespace(lake.runtime.catalog, "silver_shop")
    lake.runtime.catalog.create_table("silver_shop.items", ROWS.schema).append(ROWS)
    (line,) = status(lake)
    assert line.state == "stopped"
    assert "none of its snapshots has" in (line.reason or "")

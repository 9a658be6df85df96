"""How far a reader is behind, on tables that PyIceberg writes."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from lake_assets.outputs.behind import lacking_since, lacks_commit

ROWS = pa.table({"id": [1]})


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    found = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    found.create_namespace("silver")
    yield found
    found.close()


def made(catalog: Catalog, **properties: str) -> Table:
    return catalog.create_table("silver.orders", ROWS.schema, properties=properties)


def newest_commit(table: Table) -> datetime:
    return datetime.fromtimestamp(table.metadata.snapshot_log[-1].timestamp_ms / 1000, UTC)


def lacks(table: Table, read: Table) -> bool:
    """Whether who has read the one state of a table lacks a commit of the other."""
    return lacks_commit(table, read.metadata_location, read.metadata)


def copy(table: Table) -> Table:
    """The table as it is now."""
    return table.catalog.load_table(table.name())


def test_who_has_read_the_newest_file_lacks_nothing(catalog: Catalog) -> None:
    table = made(catalog)
    table.append(ROWS)
    assert not lacks(table, table)
    # Another spelling of the address.
    assert not lacks_commit(table, table.metadata_location.replace("file://", "s3a://bucket/"), None)


def test_who_has_read_nothing_lacks_all_commits(catalog: Catalog) -> None:
    table = made(catalog)
    table.append(ROWS)
    first = newest_commit(table)
    table.append(ROWS)
    assert lacking_since(table, None) == first


def test_the_first_commit_that_is_lacking_counts(catalog: Catalog) -> None:
    table = made(catalog)
    table.append(ROWS)
    read = copy(table)
    table.append(ROWS)
    lacking = newest_commit(table)
    table.append(ROWS)
    assert lacks(table, read)
    assert lacking_since(table, read.metadata) == lacking


def test_metadata_without_a_new_state_is_not_lacking(catalog: Catalog) -> None:
    table = made(catalog)
    table.append(ROWS)
    read = copy(table)
    with table.manage_snapshots() as changes:
        changes.create_branch(table.metadata.current_snapshot_id or 0, "apply_1")
    assert table.metadata_location != read.metadata_location
    assert not lacks(table, read)


def test_a_commit_to_a_branch_is_lacking_once_it_is_published(catalog: Catalog) -> None:
    table = made(catalog)
    table.append(ROWS)
    with table.manage_snapshots() as changes:
        changes.create_branch(table.metadata.current_snapshot_id or 0, "apply_1")
    read = copy(table)
    table.append(ROWS, branch="apply_1")
    assert not lacks(table, read)
    with table.manage_snapshots() as changes:
        changes.set_current_snapshot(ref_name="apply_1")
    assert lacks(table, read)
    assert lacking_since(table, read.metadata) == newest_commit(table)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_commit_below_many_files_without_one_is_lacking(catalog: Catalog, is_there: bool) -> None:
    """Of which the table lists the newest alone; the file that was read may be gone."""
    table = made(catalog, **{"write.metadata.previous-versions-max": "1"})
    table.append(ROWS)
    read = copy(table)
    table.append(ROWS)
    for number in range(5):
        with table.transaction() as change:
            change.set_properties({"n": str(number)})
    assert lacks_commit(table, read.metadata_location, read.metadata if is_there else None)


def test_a_file_that_is_newer_than_the_table_as_it_was_loaded(catalog: Catalog) -> None:
    table = made(catalog)
    table.append(ROWS)
    loaded = copy(table)
    table.append(ROWS)
    assert not lacks(loaded, table)


def test_a_table_that_was_made_again_is_lacking(catalog: Catalog) -> None:
    table = made(catalog)
    for _ in range(3):
        table.append(ROWS)
    catalog.drop_table("silver.orders")
    again = made(catalog)
    again.append(ROWS)
    assert lacks(again, table)


def test_a_table_goes_back_to_a_former_state(catalog: Catalog) -> None:
    table = made(catalog)
    table.append(ROWS)
    first = table.metadata.current_snapshot_id or 0
    table.append(ROWS)
    read = copy(table)
    with table.manage_snapshots() as changes:
        changes.set_current_snapshot(snapshot_id=first)
    assert lacks(table, read)

"""How far a reader is behind, on tables that PyIceberg writes."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from lake_assets.outputs.behind import behind_since

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


def test_a_table_without_a_commit_has_nothing_to_read(catalog: Catalog) -> None:
    assert behind_since(made(catalog), None) is None


def test_who_has_read_nothing_lacks_the_first_commit(catalog: Catalog) -> None:
    table = made(catalog)
    table.append(ROWS)
    first = newest_commit(table)
    table.append(ROWS)
    assert behind_since(table, None) == first


def test_who_has_read_the_newest_file_lacks_nothing(catalog: Catalog) -> None:
    table = made(catalog)
    table.append(ROWS)
    read = table.metadata_location
    assert behind_since(table, read) is None
    # Another spelling of the address.
    assert behind_since(table, read.replace("file://", "s3a://bucket/")) is None


def test_the_first_commit_that_is_lacking_counts(catalog: Catalog) -> None:
    table = made(catalog)
    table.append(ROWS)
    read = table.metadata_location
    table.append(ROWS)
    lacking = newest_commit(table)
    table.append(ROWS)
    assert behind_since(table, read) == lacking


def test_metadata_without_a_new_state_is_not_lacking(catalog: Catalog) -> None:
    table = made(catalog)
    table.append(ROWS)
    read = table.metadata_location
    with table.manage_snapshots() as changes:
        changes.create_branch(table.metadata.current_snapshot_id or 0, "apply_1")
    assert table.metadata_location != read
    assert behind_since(table, read) is None


def test_a_commit_to_a_branch_is_lacking_once_it_is_published(catalog: Catalog) -> None:
    table = made(catalog)
    table.append(ROWS)
    with table.manage_snapshots() as changes:
        changes.create_branch(table.metadata.current_snapshot_id or 0, "apply_1")
    read = table.metadata_location
    table.append(ROWS, branch="apply_1")
    assert behind_since(table, read) is None
    with table.manage_snapshots() as changes:
        changes.set_current_snapshot(ref_name="apply_1")
    assert behind_since(table, read) == newest_commit(table)


def test_a_file_that_is_not_listed_any_more_is_old(catalog: Catalog) -> None:
    table = made(catalog, **{"write.metadata.previous-versions-max": "1"})
    table.append(ROWS)
    read = table.metadata_location
    for _ in range(3):
        table.append(ROWS)
    assert behind_since(table, read) is not None

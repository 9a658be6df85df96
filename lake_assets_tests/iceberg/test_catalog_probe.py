"""Catalogs that keep their word, and catalogs that do not."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import SetSnapshotRefUpdate, TableRequirement, TableUpdate

from lake_assets.config import CatalogConfig
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.iceberg.catalog_probe import CatalogUnfit, catalog_faults
from lake_assets.iceberg.ops_table import NAMESPACE
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS_HEADER, small_lake, write_file
from lake_assets_tests.helpers.servers.glue import empty_glue, glue_server, tables_in_glue
from lake_assets_tests.helpers.servers.s3 import client, s3_server
from lake_assets_tests.helpers.servers.seaweedfs import seaweedfs

LOSES = r"it confirmed \d+ commits and has \d+, because it takes commits upon a former state"


def opened(section: dict[str, Any]) -> Catalog:
    return open_catalog(CatalogConfig.model_validate(section))


def in_sqlite(folder: Path) -> Catalog:
    return opened({"name": "lake", "uri": str(folder / "catalog.db"), "warehouse": str(folder / "tables")})


def in_glue(endpoint: str) -> dict[str, str]:
    empty_glue()
    client("s3", endpoint).create_bucket(Bucket="lake")
    return tables_in_glue(endpoint, "s3://lake/tables")


def test_sqlite(tmp_path: Path) -> None:
    catalog = in_sqlite(tmp_path)
    assert list(catalog_faults(catalog, vectors=True)) == []
    assert catalog.list_tables(NAMESPACE) == []


def test_postgresql(tmp_path: Path, new_database: Callable[[str], str]) -> None:
    section = {"name": "lake", "type": "jdbc", "uri": new_database(""), "warehouse": str(tmp_path)}
    assert list(catalog_faults(opened(section), vectors=True)) == []


def test_glue() -> None:
    with glue_server() as endpoint:
        assert list(catalog_faults(opened(in_glue(endpoint)), vectors=True)) == []


def test_a_glue_that_takes_stale_commits() -> None:
    with s3_server() as endpoint:
        catalog = opened(in_glue(endpoint))
        (fault,) = catalog_faults(catalog, vectors=True)
        assert re.fullmatch(LOSES, fault)
        assert catalog.list_tables(NAMESPACE) == []


def test_a_rest_catalog_whose_store_refuses_deletion_vectors(tmp_path: Path) -> None:
    with seaweedfs(tmp_path) as server:
        catalog = opened(server.tables())
        (fault,) = catalog_faults(catalog, vectors=True)
        assert fault.startswith("its store refuses deletion vectors (")
        assert "format_version: 2" in fault
        assert list(catalog_faults(catalog, vectors=False)) == []
        assert catalog.list_tables(NAMESPACE) == []


Commit = Callable[[Table, tuple[TableRequirement, ...], tuple[TableUpdate, ...]], CommitTableResponse]


def without_requirements(commit: Commit) -> Commit:
    """As Nessie, which does not look at the state that a branch follows."""

    def needed(given: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]) -> tuple[Any, ...]:
        return () if all(isinstance(update, SetSnapshotRefUpdate) for update in updates) else given

    return lambda table, given, updates: commit(table, needed(given, updates), updates)


def without_refs(commit: Commit) -> Commit:
    """As Nessie, which confirms branches and tags, and keeps none."""

    def kept(update: TableUpdate) -> bool:
        return not isinstance(update, SetSnapshotRefUpdate) or update.ref_name == "main"

    return lambda table, requirements, updates: commit(table, requirements, tuple(filter(kept, updates)))


@pytest.mark.parametrize(
    ("changed", "faults"),
    [
        (
            without_refs,
            ["it accepts a branch and does not keep it", "it accepts a tag and does not keep it"],
        ),
        (
            without_requirements,
            ["it publishes a branch although the table has changed since the branch began"],
        ),
    ],
)
def test_a_catalog_that_forgets(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changed: Callable[[Commit], Commit],
    faults: list[str],
) -> None:
    catalog = in_sqlite(tmp_path)
    monkeypatch.setattr(catalog, "commit_table", changed(catalog.commit_table))
    found = list(catalog_faults(catalog, vectors=False))
    assert faults == [fault for fault in found if not re.fullmatch(LOSES, fault)]


def test_nothing_is_written_to_an_unfit_catalog(tmp_path: Path) -> None:
    write_file(tmp_path, "public/items/LOAD00000001.csv", [ITEMS_HEADER])
    with s3_server() as endpoint:
        lake = small_lake(tmp_path, catalog=in_glue(endpoint))
        with pytest.raises(CatalogUnfit, match=f"of the type glue, cannot hold a lake: {LOSES}. Choose"):
            _ = lake.runtime.file_log
        assert lake.runtime.catalog.list_tables(NAMESPACE) == []


def test_validate_tries_it_where_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command_lake(tmp_path, ["public.items"])
    monkeypatch.setattr("lake_assets.iceberg.catalog_probe.catalog_faults", lambda *_, **__: ["it sleeps"])
    assert call(tmp_path, "validate") == 0
    assert call(tmp_path, "validate", "--online") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "The catalog of lake.yaml, of the type sqlite, cannot hold a lake: it sleeps." in said

"""What of a table's metadata is read once."""

import sys
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyiceberg.table
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import InputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import TableUpdate, update_table_metadata

from lake_assets.config import CatalogConfig
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.iceberg.file_io import metadata_cache
from lake_assets.iceberg.file_io.metadata_cache import MetadataCache
from lake_assets.iceberg.file_io.pyiceberg_private import append_rows
from lake_assets.iceberg.table_io import current_snapshot, summary

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def config(tmp_path: Path) -> CatalogConfig:
    return CatalogConfig.model_validate(
        {"uri": str(tmp_path / "catalog.db"), "warehouse": str(tmp_path / "warehouse")}
    )


def test_a_file_is_read_once_and_the_next_one_in_its_stead(config: CatalogConfig) -> None:
    catalog = open_catalog(config)
    catalog.create_namespace("ns")
    names = ("a", "b", "c")
    tables = {name: catalog.create_table(f"ns.{name}", SCHEMA) for name in names}
    first = {name: tables[name].metadata_location for name in names}
    tables["a"].append(pa.table({"id": [1]}))
    read: list[str] = []

    def reading(file: InputFile, encoding: str) -> TableMetadata:
        read.append(file.location)
        return FromInputFile.table_metadata(file, encoding)

    cache = MetadataCache(reading, most=2)

    def of(location: str) -> TableMetadata:
        return cache(PyArrowFileIO().new_input(location))

    assert of(first["a"]) is of(first["a"])
    assert len(of(tables["a"].metadata_location).snapshots) == 1
    of(first["b"])
    assert len(of(tables["a"].metadata_location).snapshots) == 1
    assert read == [first["a"], tables["a"].metadata_location, first["b"]]
    of(first["c"])
    of(first["b"])
    assert read[3:] == [first["c"], first["b"]], "only two are kept: the one looked at longest ago is not"


def test_a_catalog_sees_what_another_has_committed(config: CatalogConfig) -> None:
    ours, theirs = open_catalog(config), open_catalog(config)
    ours.create_namespace("ns")
    ours.create_table("ns.t", SCHEMA)
    for rows in range(3):
        assert len(ours.load_table("ns.t").metadata.snapshots) == rows
        theirs.load_table("ns.t").append(pa.table({"id": [rows]}))
    assert ours.load_table("ns.t").metadata is ours.load_table("ns.t").metadata
    theirs.drop_table("ns.t")
    theirs.create_table("ns.t", SCHEMA)
    assert ours.load_table("ns.t").metadata.snapshots == []


def test_what_is_written_is_not_read_again(config: CatalogConfig) -> None:
    catalog = open_catalog(config)
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", SCHEMA)
    table.append(pa.table({"id": [1]}))
    table.append(pa.table({"id": [2]}))
    kept = catalog.load_table("ns.t")
    written = Path(kept.metadata_location.removeprefix("file://"))
    assert kept.metadata == TableMetadataUtil.parse_raw(written.read_text())
    written.rename(written.with_suffix(".gone"))
    assert catalog.load_table("ns.t").metadata is kept.metadata


def test_a_catalog_of_others_keeps_nothing(config: CatalogConfig, tmp_path: Path) -> None:
    lakes = open_catalog(config)
    uri = f"sqlite:///{tmp_path}/other.db"
    other = SqlCatalog("other", uri=uri, warehouse=f"file://{tmp_path}/other")
    other.create_namespace("ns")
    other.create_table("ns.t", SCHEMA).append(pa.table({"id": [1]}))
    loaded = other.load_table("ns.t")
    assert loaded.metadata is not other.load_table("ns.t").metadata
    file = Path(loaded.metadata_location.removeprefix("file://"))
    file.write_text(file.read_text().replace(str(loaded.metadata.table_uuid), str(UUID(int=7))))
    assert other.load_table("ns.t").metadata.table_uuid == UUID(int=7)
    lakes.create_namespace("ns")
    lakes.create_table("ns.t", SCHEMA)
    kept = lakes.load_table("ns.t").metadata
    assert lakes.load_table("ns.t").metadata is kept

    address = lakes.properties["uri"]
    same = SqlCatalog(lakes.name, uri=address, warehouse=lakes.properties["warehouse"]).load_table("ns.t")
    assert same.metadata == kept
    assert same.metadata is not kept, "the lake's tables in a catalog of others"
    same.append(pa.table({"id": [1]}))
    assert lakes.load_table("ns.t").metadata == same.metadata
    assert lakes.load_table("ns.t").metadata is not same.metadata


def test_another_pyiceberg_reads_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metadata_cache, "_installed", [])
    monkeypatch.setitem(sys.modules, "pyiceberg.serializers", None)
    metadata_cache.keep_parsed_metadata()
    metadata_cache.keep_parsed_metadata()
    assert metadata_cache._installed == [False]
    assert caplog.text.count("each load reads it again") == 1


def test_an_append_computes_metadata_once_for_each_change(
    config: CatalogConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = open_catalog(config)
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", SCHEMA)
    computed: list[object] = []

    def counting(base: TableMetadata, updates: tuple[TableUpdate, ...]) -> TableMetadata:
        computed.append(updates)
        return update_table_metadata(base, updates)

    monkeypatch.setattr(pyiceberg.table, "update_table_metadata", counting)
    append_rows(table, pa.table({"id": [1]}))
    append_rows(table, pa.table({"id": [2]}))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2]
    assert [len(table.metadata.snapshots), summary(current_snapshot(table))["total-records"]] == [2, "2"]
    assert len(computed) == 4

"""How PyIceberg's files come into a bucket."""

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import S3FileSystem
from pyiceberg.io import PY_IO_IMPL
from pyiceberg.io.pyarrow import PyArrowFileIO

from lake_assets.config import CatalogConfig, S3Config
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.iceberg.file_io import kept_content, s3_io
from lake_assets.iceberg.file_io.s3_io import S3Files, _kept
from lake_assets_tests.helpers.servers.s3 import files_in_s3, resource
from lake_assets_tests.helpers.servers.troubled_proxy import troubled_proxy

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
PLAIN = {PY_IO_IMPL: f"{PyArrowFileIO.__module__}.{PyArrowFileIO.__name__}"}


@pytest.fixture
def given(tmp_path: Any, s3: S3Config, new_bucket: Callable[[], Any]) -> dict[str, str]:
    assert s3.endpoint is not None
    warehouse = f"s3://{new_bucket().name}/warehouse"
    return {"uri": str(tmp_path / "catalog.db"), "warehouse": warehouse, **files_in_s3(s3.endpoint)}


@pytest.fixture
def config(given: dict[str, str]) -> CatalogConfig:
    return CatalogConfig.model_validate(given)


def test_another_catalog_reads_what_was_written(config: CatalogConfig, given: dict[str, str]) -> None:
    catalog = open_catalog(config)
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", SCHEMA)
    long = "x" * 12_000_000  # more than is written at once
    for rows in ([{"id": 1, "text": "a"}], [{"id": 2, "text": long}]):
        table.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    plain = open_catalog(CatalogConfig.model_validate(given | PLAIN))
    assert not isinstance(plain.load_table("ns.t").io, S3Files)
    for other in (open_catalog(config), plain):
        found = other.load_table("ns.t").scan().to_arrow().to_pylist()
        assert sorted(row["id"] for row in found) == [1, 2]


def test_a_busy_s3_is_asked_again(given: dict[str, str], s3: S3Config) -> None:
    """By PyArrow's default, one of four of these appends fails."""
    assert s3.endpoint is not None
    with troubled_proxy(s3.endpoint, seconds=0, refused=0.3) as (address, counted):
        catalog = open_catalog(CatalogConfig.model_validate(given | {"s3.endpoint": address}))
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", SCHEMA)
        for number in range(8):
            table.append(pa.Table.from_pylist([{"id": number, "text": "a"}], schema=SCHEMA))
        assert table.scan().to_arrow().num_rows == 8
    assert counted["refused"] > 10


def test_a_small_file_is_one_request_by_a_shared_client(config: CatalogConfig) -> None:
    catalog = open_catalog(config)
    catalog.create_namespace("ns")
    catalog.create_table("ns.t", SCHEMA)
    files = [catalog.load_table("ns.t").io for _ in range(2)]
    systems = [io.fs_by_scheme("s3", "bucket") for io in files if isinstance(io, S3Files)]
    assert systems[0] is systems[1]
    assert isinstance(systems[0], S3FileSystem)
    _, (options,) = systems[0].__reduce__()
    assert options["allow_delayed_open"]


def test_manifests_are_read_once(config: CatalogConfig, s3: S3Config) -> None:
    catalog = open_catalog(config)
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", SCHEMA)
    table.append(pa.Table.from_pylist([{"id": 1, "text": "a"}], schema=SCHEMA))
    bucket = resource("s3", s3.endpoint).Bucket(str(config.warehouse).split("/")[2])
    gone = [found for found in bucket.objects.all() if found.key.endswith(".avro")]
    assert len(gone) == 2, "a manifest and its list"
    for found in gone:
        found.delete()
    table.append(pa.Table.from_pylist([{"id": 2, "text": "b"}], schema=SCHEMA))
    assert sorted(catalog.load_table("ns.t").scan().to_arrow()["id"].to_pylist()) == [1, 2]
    _kept.cache_clear()
    with pytest.raises(FileNotFoundError):
        open_catalog(config).load_table("ns.t").scan().to_arrow()


def test_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_content, "MOST_BYTES", 10)
    kept = kept_content.KeptContent()
    for number in range(4):
        kept.keep(str(number), b"x" * 4)
    assert [kept.get(str(number)) is not None for number in range(4)] == [False, False, True, True]
    monkeypatch.setattr(kept_content, "MOST_BYTES_OF_A_FILE", 3)
    kept.keep("large", b"x" * 4)
    assert kept.get("large") is None


def test_old_metadata_is_deleted_after_a_commit(config: CatalogConfig, s3: S3Config) -> None:
    catalog = open_catalog(config)
    catalog.create_namespace("ns")
    kept = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    table = catalog.create_table("ns.t", SCHEMA, properties=kept)
    for number in range(4):
        table.append(pa.Table.from_pylist([{"id": number, "text": "a"}], schema=SCHEMA))
    for thread in threading.enumerate():
        if thread.name == s3_io.DELETES:
            thread.join()
    bucket = resource("s3", s3.endpoint).Bucket(str(config.warehouse).split("/")[2])
    left = [found for found in bucket.objects.all() if found.key.endswith(".metadata.json")]
    assert len(left) == 2, "the present one and the one before"


def test_nothing_is_written_where_the_bucket_is_missing(config: CatalogConfig) -> None:
    """The error comes with the upload, at the end."""
    output = S3Files(open_catalog(config).properties).new_output("s3://no-such-bucket/file")
    with pytest.raises(OSError, match="no-such-bucket"), output.create() as stream:
        stream.write(b"bytes")

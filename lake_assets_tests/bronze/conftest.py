"""Shared by the tests of bronze: catalogs in a temporary folder, log entries, an S3 server.

Not here: DMS files with real content (`lake_assets_tests/dms_files.py`).
"""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog

from lake_assets.bronze.file_log import NewFile
from lake_assets.bronze.keys import FileKind
from lake_assets.config import S3Config

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def open_catalog(tmp_path: Path) -> Callable[[], Catalog]:
    """Opens the same embedded catalog again and again, each time as another process would."""
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db?timeout=30", f"file://{tmp_path}/warehouse"

    def open_again() -> Catalog:
        return SqlCatalog("lake", uri=uri, warehouse=warehouse)

    open_again()  # creating SQLite's tables is the one thing that two cannot do at once
    return open_again


@pytest.fixture
def load() -> Callable[..., NewFile]:
    """A full-load file, `load(1, "v1")`; `minutes` after noon is its time of modification."""

    def build(
        number: int, version: str = "v1", *, minutes: int = 0, table: str = "trips", **changes: Any
    ) -> NewFile:
        values: dict[str, Any] = {
            "schema": "public",
            "table": table,
            "key": f"public/{table}/LOAD{number:08X}.csv",
            "version": version,
            "kind": FileKind.LOAD,
            "format": "csv",
            "compression": "none",
            "size": 100,
            "last_modified": NOON + timedelta(minutes=minutes),
            "flush_time": None,
            "capture_date": date(2024, 5, 1),
            "rows": 10,
            "columns": ("Op", "trip_id"),
            "first_commit_ts": NOON,
        }
        return NewFile(**values | changes)

    return build


@pytest.fixture
def cdc(load: Callable[..., NewFile]) -> Callable[..., NewFile]:
    """A CDC file flushed `second` seconds after noon."""

    def build(second: int, version: str = "v1", *, table: str = "trips", **changes: Any) -> NewFile:
        flushed = NOON + timedelta(seconds=second)
        key = f"public/{table}/{flushed:%Y%m%d-%H%M%S}000.csv"
        return load(
            0, version, **{"table": table, "key": key, "kind": FileKind.CDC, "flush_time": flushed} | changes
        )

    return build


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Config]:
    """A local S3 server, and how to reach it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield S3Config(
        region="us-east-1",
        endpoint=f"http://{host}:{port}",
        access_key_id="an-access-key",
        secret_access_key="a-secret",
        path_style=True,
    )
    server.stop()


@pytest.fixture(scope="session")
def new_bucket(s3: S3Config) -> Callable[[], Any]:
    """Makes empty boto3 buckets."""
    import boto3

    assert s3.access_key_id is not None
    assert s3.secret_access_key is not None
    resource = boto3.resource(
        "s3",
        region_name=s3.region,
        endpoint_url=s3.endpoint,
        aws_access_key_id=s3.access_key_id.get_secret_value(),
        aws_secret_access_key=s3.secret_access_key.get_secret_value(),
    )
    numbers = count()

    def create() -> Any:
        bucket = resource.Bucket(f"bucket-{next(numbers)}")
        bucket.create()
        return bucket

    return create

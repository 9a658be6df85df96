"""Reading a warehouse in a folder as PyIceberg reads it, but without its slow imports."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.types import LongType

from lake_assets.config import CatalogConfig
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.iceberg.file_io.local_io import LocalFirstIO, local_path
from lake_assets.iceberg.file_io.table_rows import rows, values

SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("names", pa.list_(pa.string()))])
ROWS = [
    {"id": 1, "at": datetime(2026, 3, 1, 12, 0, 0, 1, tzinfo=UTC), "names": ["a", "b"]},
    {"id": 2, "at": None, "names": None},
]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    place = tmp_path / "a b"
    settings = {"name": "l", "type": "sqlite", "uri": str(place / "c.db"), "warehouse": str(place / "w")}
    return open_catalog(CatalogConfig.model_validate(settings))


def test_rows_are_those_of_pyiceberg(catalog: Catalog) -> None:
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", SCHEMA)
    assert isinstance(table.io, LocalFirstIO)
    assert rows(table.scan()).num_rows == 0
    table.append(pa.Table.from_pylist(ROWS, SCHEMA))
    with table.update_schema() as update:
        update.add_column("later", LongType())
    later = pa.Table.from_pylist([{"id": 3, "later": 4}], SCHEMA.append(pa.field("later", pa.int64())))
    table.append(later)
    found, expected = rows(table.scan()), table.scan().to_arrow()
    assert set(found.column_names) == set(expected.column_names)
    for name in found.column_names:
        pairs = zip(found["id"].to_pylist(), values(found[name]), strict=True)
        assert dict(pairs) == dict(zip(expected["id"].to_pylist(), expected[name].to_pylist(), strict=True))


def test_a_missing_file_is_the_error_of_pyiceberg(tmp_path: Path) -> None:
    address = f"file://{tmp_path}/none"
    told = []
    for io in (LocalFirstIO(), PyArrowFileIO()):
        assert not io.new_input(address).exists()
        with pytest.raises(FileNotFoundError) as raised:
            io.new_input(address).open()
        told.append(str(raised.value))
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("file:///a/b%20c", "/a/b%20c"),
        ("file:/a", "/a"),
        ("s3://bucket/a", None),
        ("/a", None),
        ("file:///a#b", None),
    ],
)
def test_local_path(location: str, path: str | None) -> None:
    assert local_path(location) == path
    if path is not None:
        assert PyArrowFileIO.parse_location(location)[2] == path

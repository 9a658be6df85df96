"""Keys below a location that are not the source's: its warehouse, its catalog, other sources."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lake_assets.config import S3Config
from lake_assets.storage.object_store import open_store
from lake_assets_tests.helpers.files.dms_files import put
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS_HEADER, small_lake, write_file

KEYS = [
    "a/1",
    "catalog.db",
    "catalog.db-wal",
    "catalog/x",
    "ware",
    "warehouse",
    "warehouse/t/1",
    "warehouse/t/2",
    "warehouse2/1",
    "z",
]
OUT = ("catalog.db", "warehouse/")


@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_they_are_not_listed(place: str, tmp_path: Path, new_bucket: Callable[[], Any], s3: S3Config) -> None:
    keys = [key for key in KEYS if key != "warehouse"] if place == "folder" else KEYS
    location = str(tmp_path)
    if place == "bucket":
        bucket = new_bucket()
        location = f"s3://{bucket.name}/in"
        for key in keys:
            bucket.put_object(Key=f"in/{key}", Body=b"x")
    else:
        for key in keys:
            put(tmp_path, key, b"x")
    store = open_store(location, s3, without=OUT)
    expected = [key for key in keys if not key.startswith(OUT)]
    assert [obj.key for obj in store.list()] == expected
    assert [obj.key for obj in store.list(start_after="catalog/x")] == expected[2:]
    assert [obj.key for obj in store.list("ware")] == [key for key in expected if key.startswith("ware")]
    assert list(store.list("warehouse/")) == []


def test_a_lake_inside_of_its_source_has_no_strays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder source that is the project's folder, with the catalog, the warehouse and Dagster's folder in it."""
    from lake_assets.rounds.arrivals import log_arrivals

    home = tmp_path / "bronze" / "dagster_home"
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    put(home, "storage/runs.db", b"x")
    catalog = {
        "name": "lake_inside",
        "uri": str(tmp_path / "bronze" / "catalog.db"),
        "warehouse": str(tmp_path / "bronze" / "warehouse"),
    }
    (tmp_path / "bronze").mkdir(exist_ok=True)
    lake = small_lake(tmp_path, catalog=catalog)
    write_file(tmp_path, "public/items/LOAD00000001.csv", [ITEMS_HEADER])
    log_arrivals(lake.runtime, "shop")
    found = log_arrivals(lake.runtime, "shop")
    assert (tmp_path / "bronze" / "warehouse").is_dir()
    assert found.strays == {}
    assert [file.key for file in lake.runtime.file_log.files("shop")] == ["public/items/LOAD00000001.csv"]

"""Orphan files are removed, and never a file that any state of any table needs.

Here: which files, with all of them older than the age unless a test says otherwise. Not here: when a search is due
(`iceberg/test_table_health.py`), files of a stream's location (`bronze/stream/test_orphans.py`).
"""

import os
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from lake_assets.errors import LakeError
from lake_assets.iceberg.metadata_files import metadata_files, point_to
from lake_assets.iceberg.publish import attempt
from lake_assets.iceberg.table_io import ORPHANS_REMOVED_AT
from lake_assets.iceberg.upkeep import table_maintenance
from lake_assets.iceberg.upkeep.orphan_files import OrphanFile, orphan_files
from lake_assets.iceberg.upkeep.parts_and_limits import Part
from lake_assets.iceberg.upkeep.table_maintenance import Maintained
from lake_assets.rounds.maintenance import maintain_silver
from lake_assets_tests.helpers.lakes.keyed_shop import MaintainedShop, maintained_shop

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("keep_little")]
AGE = timedelta(days=3)


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> MaintainedShop:
    found = maintained_shop(tmp_path)
    found.change()
    found.bench.apply()
    return found


def folder_of(table: Table) -> Path:
    return Path(table.location().removeprefix("file://"))


def files_of(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def made_older(folder: Path, by: timedelta = timedelta(days=30)) -> None:
    at = time.time() - by.total_seconds()
    for path in folder.rglob("*"):
        os.utime(path, (at, at))


def left_behind(folder: Path) -> Iterator[str]:
    """Files as killed writers leave them."""
    names = (
        f"data/00003-7-{uuid4()}-0-00001.parquet",
        f"data/00003-0-{uuid4()}.parquet",
        f"data/at_day=2026-03-01/00000-12-{uuid4()}-00001-deletes.puffin",
        f"metadata/{uuid4()}-m0.avro",
        f"metadata/optimized-m-{uuid4()}.avro",
        f"metadata/snap-5823024058600490571-1-{uuid4()}.avro",
    )
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"unfinished")
        yield name


def removed(shop: MaintainedShop) -> int:
    done = maintained(shop)
    assert done.error is None
    return done.orphans_removed


def maintained(shop: MaintainedShop) -> Maintained:
    return maintain_silver(shop.bench.lake.runtime, (), shop.items, parts=[Part.ORPHANS])


def test_what_killed_writers_have_left(shop: MaintainedShop) -> None:
    """Once it is older than the age; nothing else in the folder."""
    folder = folder_of(shop.bench.table())
    others = (
        "data/notes.csv", "data/LOAD00000001.parquet", "data/20260301-120000000.csv", f"data/{uuid4()}.parquet",
        f"data/part-00000-{uuid4()}-c000.snappy.parquet", f"metadata/{uuid4()}.stats", f"{uuid4()}-m0.avro",
        f"metadata/00001-{uuid4()}.metadata.json.bak",
    )  # fmt: skip
    for name in others:
        (folder / name).write_bytes(b"somebody else's")
    before, left = files_of(folder), set(left_behind(folder))
    made_older(folder, AGE - timedelta(minutes=5))
    assert removed(shop) == 0
    made_older(folder, AGE + timedelta(minutes=5))
    found = orphan_files(shop.bench.table(), AGE, datetime.now(UTC))
    assert {one.address for one in found} == {f"{shop.bench.table().location()}/{name}" for name in left}
    assert {one.bytes for one in found} == {len(b"unfinished")}
    assert removed(shop) == len(left)
    now = files_of(folder)
    assert {name for name in before ^ now if not name.endswith(".json")} == set()
    shop.check()


def test_a_search_is_noted_in_the_table(shop: MaintainedShop) -> None:
    first = shop.bench.table().properties[ORPHANS_REMOVED_AT]
    assert removed(shop) == 0
    assert datetime.fromisoformat(first) < datetime.fromisoformat(
        shop.bench.table().properties[ORPHANS_REMOVED_AT]
    )
    shop.check()


def test_a_catalog_that_was_restored(shop: MaintainedShop, tmp_path: Path) -> None:
    """The files of the commits that it does not know are there when somebody goes back to them."""
    catalog = shop.bench.lake.runtime.catalog
    older = shop.bench.table().metadata_location
    for _ in range(2):
        shop.change()
        shop.bench.apply()
    newest, rows = shop.bench.table(), shop.bench.rows()
    point_to(catalog, "silver_shop.items", older)
    folder = folder_of(newest)
    left = set(left_behind(folder))
    made_older(folder)
    assert removed(shop) == len(left)
    point_to(catalog, "silver_shop.items", newest.metadata_location)
    assert shop.bench.rows() == rows
    shop.check()


def test_two_tables_in_one_folder(shop: MaintainedShop) -> None:
    """As after `detach`: one is renamed, and the other one gets its name and its folder."""
    catalog = shop.bench.lake.runtime.catalog
    table, rows = shop.bench.table(), shop.bench.rows()
    catalog.rename_table("silver_shop.items", "silver_shop.items_of_goods")
    shop.bench.apply()
    shop.change()
    shop.bench.apply()
    assert shop.bench.table().location() == table.location()
    assert shop.bench.table().metadata.table_uuid != table.metadata.table_uuid
    left = set(left_behind(folder_of(table)))
    made_older(folder_of(table))
    assert removed(shop) == len(left)
    detached = catalog.load_table("silver_shop.items_of_goods")
    assert detached.scan().to_arrow().num_rows == len(rows)
    shop.check()


def test_a_table_in_the_folder_of_another_one(shop: MaintainedShop) -> None:
    folder = folder_of(shop.bench.table())
    name = shop.bench.lake.config.catalog.name
    shop.sql(
        f"CREATE TABLE {name}.silver_shop.inner USING iceberg LOCATION '{folder}/data/inner' AS SELECT 1 AS id"
    )
    made_older(folder)
    assert removed(shop) == 0
    inner = shop.bench.lake.runtime.catalog.load_table("silver_shop.inner")
    assert inner.scan().to_arrow().num_rows == 1


def test_an_attempt_under_way(shop: MaintainedShop) -> None:
    """What its branch has is of the table, however long it takes."""
    session, catalog = shop.bench.lake.runtime.sessions.root(), shop.bench.lake.config.catalog.name
    head = shop.bench.table().metadata.current_snapshot_id
    with attempt(session, catalog, "silver_shop.items", head) as current:
        session.sql(f"INSERT INTO {current.address} VALUES (77, 'unpublished')")
        made_older(folder_of(shop.bench.table()))
        assert removed(shop) == 0
        rows = session.sql(f"SELECT id FROM {current.address}").collect()
        assert 77 in {row["id"] for row in rows}


def test_the_metadata_of_lost_commits(shop: MaintainedShop) -> None:
    """It stays as long as somebody could go back to it, and if it is another table's."""
    folder = folder_of(shop.bench.table())
    lost = folder / "metadata" / f"00001-{uuid4()}.metadata.json"
    shutil.copy(folder / "metadata" / Path(shop.bench.table().metadata_location).name, lost)
    other = lost.with_name(f"00001-{uuid4()}.metadata.json")
    other.write_text(lost.read_text().replace(str(shop.bench.table().metadata.table_uuid), str(uuid4())))
    made_older(folder)
    assert removed(shop) == 0
    shop.change()
    shop.bench.apply()
    shop.maintain()  # expires the snapshot at which it is
    made_older(folder)
    removed(shop)
    assert (lost.exists(), other.exists()) == (False, True)
    shop.check()


def test_metadata_that_cannot_be_read(shop: MaintainedShop) -> None:
    folder = folder_of(shop.bench.table())
    left = set(left_behind(folder))
    (folder / "metadata" / f"00009-{uuid4()}.metadata.json").write_text("{")
    made_older(folder)
    assert isinstance(maintained(shop).error, LakeError)
    assert left <= files_of(folder)


def test_tables_whose_files_are_not_their_own_alone(shop: MaintainedShop) -> None:
    folder = folder_of(shop.bench.table())
    left = set(left_behind(folder))
    made_older(folder)
    shop.sql("ALTER TABLE {table} SET TBLPROPERTIES ('gc.enabled' = 'false')")
    assert removed(shop) == 0
    shop.sql("ALTER TABLE {table} UNSET TBLPROPERTIES ('gc.enabled')")
    elsewhere = folder.parent / "elsewhere"
    shop.sql(f"ALTER TABLE {{table}} SET TBLPROPERTIES ('write.metadata.path' = '{elsewhere}')")
    assert removed(shop) == 0
    assert left <= files_of(folder)
    shop.sql("ALTER TABLE {table} UNSET TBLPROPERTIES ('write.metadata.path')")
    assert removed(shop) == len(left)
    shop.check()


def test_both_searches_have_to_agree(shop: MaintainedShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Iceberg looks again whether the table needs the files, before it deletes them."""
    table = shop.bench.table()
    folder = folder_of(table)
    left = set(left_behind(folder))
    made_older(folder)
    long_ago = datetime.now(UTC) - timedelta(days=30)
    every = [OrphanFile(f"{table.location()}/{name}", long_ago, 1) for name in files_of(folder)]
    monkeypatch.setattr(table_maintenance, "orphan_files", lambda *given: every)
    assert removed(shop) == len(left)
    shop.check()


def test_the_newest_metadata_is_found_after_it(shop: MaintainedShop) -> None:
    """`recover` reads metadata files: all of those that it could go to are still there."""
    catalog, table = shop.bench.lake.runtime.catalog, shop.bench.table()
    before = [address for address, _ in metadata_files(catalog, table.location())]
    made_older(folder_of(table))
    removed(shop)
    after = [address for address, _ in metadata_files(catalog, table.location())]
    assert set(before) <= set(after)

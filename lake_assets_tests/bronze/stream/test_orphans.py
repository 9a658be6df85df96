"""Files of a stream that no record of the log names."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyiceberg.catalog import Catalog

from lake_assets.bronze.stream.orphans import KEPT_FOR, remove_orphans, replaced_keys
from lake_assets.storage.local_store import LocalStore
from lake_assets_tests.bronze.stream.test_landing import Shop
from lake_assets_tests.helpers.files.dms_messages import control, message


def test_what_a_killed_reader_left_behind_is_removed(
    tmp_path: Path, open_catalog: Callable[[], Catalog]
) -> None:
    """A week later, and nothing that the log names or that somebody else has put there."""
    shop = Shop(tmp_path, open_catalog)
    shop.stream.put("a", message("insert", {"id": 1}, transaction=1), control("create-table", {}))
    shop.reader().land(0)
    logged = {file.key for file in shop.log.files("shop")}
    orphan = "public/items/20260301-120001000-0123456789ab.csv.gz"
    (shop.folder / orphan).write_bytes(b"")
    (shop.folder / "public/items/notes.csv.gz").write_bytes(b"")
    store, now = LocalStore(shop.folder), datetime.now(UTC)
    assert remove_orphans(store, logged, now + KEPT_FOR - timedelta(minutes=1)) == 0
    assert remove_orphans(store, logged, now + KEPT_FOR + timedelta(minutes=1)) == 1
    assert {obj.key for obj in store.list()} == {*logged, "public/items/notes.csv.gz"}


def test_a_file_that_was_replaced_stays_for_a_week(
    tmp_path: Path, open_catalog: Callable[[], Catalog]
) -> None:
    """However old it is: another process may be reading it, and a log that is restored names it again."""
    shop = Shop(tmp_path, open_catalog)
    shop.stream.put("a", message("insert", {"id": 1}, transaction=1))
    shop.reader().land(0)
    store, now, merged = LocalStore(shop.folder), datetime.now(UTC), "public/items/of-many.csv.gz"
    (former,) = (file.key for file in shop.log.files("shop"))
    year_ago = (now - timedelta(days=365)).timestamp()
    os.utime(shop.folder / former, (year_ago, year_ago))
    replaced_keys(store, [former], now)
    assert remove_orphans(store, {merged}, now + timedelta(days=6)) == 0
    assert remove_orphans(store, set(), now + timedelta(days=8)) == 0, (
        "this catalog has no record of the source"
    )
    assert remove_orphans(store, {merged}, now + timedelta(days=8)) == 2
    assert [*store.list()] == []

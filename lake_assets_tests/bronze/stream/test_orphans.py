"""Files of a stream that no record of the log names."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyiceberg.catalog import Catalog

from lake_assets.bronze.stream.orphans import KEPT_FOR, remove_orphans
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

"""The file log, the contracts or the catalog are lost: tables stop, and `lake-assets recover` mends them.

Here: each case once, with real files, Spark and tables. Not here: random mixtures of them (`outside`), the decisions on
single cases (`bronze/log/test_copies.py`, `test_ambiguous_parts.py`).
"""

import shutil
from collections.abc import Callable
from datetime import timedelta
from random import Random

import pytest
from pyiceberg.serializers import FromInputFile

from lake_assets.commands.mend.recover import recover
from lake_assets.errors import LakeError
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import (
    HOUR,
    ITEMS,
    back_up_of_gone_metadata,
    changed,
    loaded,
    metadata_in,
    more,
    path_of,
    reason,
    recovered,
    reopen,
    status_text,
    values,
)
from lake_assets_tests.outside import actions
from lake_assets_tests.outside.actions import Place

pytestmark = [pytest.mark.spark, pytest.mark.slow]


# --- the file log and the contracts are lost


def purge_log(shop: Bench) -> None:
    assert actions.purge_log(Place(shop.lake, shop.folder, Random(1)))


def drop_log(shop: Bench) -> None:
    assert actions.drop_log(Place(shop.lake, shop.folder, Random(1)))


def roll_back_log(shop: Bench) -> None:
    """To before the first file."""
    table = shop.lake.runtime.catalog.load_table("lake_ops.bronze_files")
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()


@pytest.mark.parametrize(
    "lose", [purge_log, *(pytest.param(lose, marks=pytest.mark.long) for lose in (roll_back_log, drop_log))]
)
def test_a_log_that_is_lost_stops_the_table_and_is_recovered(
    new_bench: Callable[..., Bench], lose: Callable[[Bench], None]
) -> None:
    found, clock = new_bench(), Clock()
    found.put(loaded({1: "a", 2: "b", 3: "c"}))
    found.look()
    found.put(changed(clock, ("U", 1, "changed"), ("D", 2, "b"), ("I", 4, "new")))
    found.apply()
    lose(found)
    reopen(found)
    # It comes late, and so takes the offset that another file had.
    expected = more(found, NOON + timedelta(minutes=2))
    assert "lake-assets recover" in reason(found)
    assert values(found) == {1: "changed", 3: "c", 4: "new"}
    assert recovered(found)
    (batch,) = found.apply()["items"]
    assert values(found) == expected
    assert (batch.kind, batch.files) == ("cdc", 1), "nothing was applied twice"
    assert list(recover(found.lake)) == []


def test_a_purged_log_is_recovered_though_old_files_have_expired(shop: Bench) -> None:
    assert shop.location is not None
    for path in shop.location.rglob("LOAD*"):
        path.unlink()
    purge_log(shop)
    reopen(shop)
    expected = more(shop)
    assert "lake-assets recover" in reason(shop)
    recovered(shop)
    (batch,) = shop.apply()["items"]
    assert (batch.kind, batch.files) == ("cdc", 1)
    assert values(shop) == expected
    with pytest.raises(LakeError, match="gone from the bucket"):
        rebuild(shop.lake.runtime, shop.lake.targets[0])


@pytest.mark.parametrize("purged", [True, pytest.param(False, marks=pytest.mark.long)])
def test_contracts_that_are_lost(shop: Bench, purged: bool) -> None:
    catalog = shop.lake.runtime.catalog
    folder = path_of(catalog.load_table("lake_ops.contracts").location())
    catalog.drop_table("lake_ops.contracts")
    if purged:
        shutil.rmtree(folder)
    reopen(shop)
    expected = more(shop)
    assert "lake_ops.contracts" in reason(shop)
    recovered(shop)
    shop.apply()
    assert values(shop) == expected


@pytest.mark.parametrize("table", ["silver_shop.items", "lake_ops.bronze_files"])
def test_a_catalog_that_was_restored_names_metadata_that_is_gone(
    shop: Bench, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = more(shop)
    shop.apply()
    back_up_of_gone_metadata(shop, table)
    # Another process has not read it before.
    monkeypatch.setattr(FromInputFile, "table_metadata", staticmethod(metadata_in))
    lake = open_lake(shop.lake.config, LakeRuntime(shop.lake.config), marts=())
    assert "lake-assets recover" in status_text(lake)
    list(recover(open_lake(shop.lake.config, LakeRuntime(shop.lake.config), marts=())))
    shop.lake = open_lake(shop.lake.config, LakeRuntime(shop.lake.config), marts=())
    assert shop.apply() == {"items": []}
    assert values(shop) == expected


def test_a_reload_that_was_pending_when_the_log_was_lost_is_applied(shop: Bench) -> None:
    shop.put(loaded({1: "reloaded", 7: "new"}, at=NOON + HOUR))
    purge_log(shop)
    reopen(shop)
    assert "lake-assets recover" in reason(shop)
    recovered(shop)
    shop.apply()
    assert values(shop) == {1: "reloaded", 7: "new"}


def test_a_table_that_is_behind_others_keeps_what_is_pending(new_bench: Callable[..., Bench]) -> None:
    """Its old files have expired, so that the checksum proves nothing; other tables are further."""
    found, clock = new_bench({"public.items": ITEMS, "public.goods": ITEMS}), Clock()
    found.put(loaded({1: "a"}), load_file("public.goods", [{"id": 1, "v": "good"}]))
    found.put(changed(clock, ("U", 1, "changed")))
    found.apply()
    clock.now += HOUR
    found.put(changed(clock, ("I", 2, "pending")))
    found.put(cdc_file("public.goods", clock.now + 2 * HOUR, [clock.change("U", {"id": 1, "v": "ahead"})]))
    found.apply(only=["goods"])
    assert found.location is not None
    (found.location / "public/items/LOAD00000001.csv").unlink()
    purge_log(found)
    reopen(found)
    assert "lake-assets recover" in reason(found)
    recovered(found)
    found.apply()
    assert (values(found), values(found, "goods")) == ({1: "changed", 2: "pending"}, {1: "ahead"})

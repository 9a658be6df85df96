"""Drills of the table "The catalog and the lake's own tables".

Here: these. Not here: the lakes (`practice.py`), what a row demands (`drill.py`).
"""

import shutil
from random import Random

from lake_assets_tests.drills.drill import Lakes, drill
from lake_assets_tests.drills.practice import Practice
from lake_assets_tests.helpers.files.dms_files import NOON
from lake_assets_tests.helpers.lakes.changed_shop import HOUR, SHOP, back_up_of_gone_metadata, loaded, more
from lake_assets_tests.outside import actions
from lake_assets_tests.outside.actions import Action, Place

NOT_THERE = {2: "stale"}


@drill("`lake_ops.bronze_files` was dropped, rolled back or restored")
def lost_log(lakes: Lakes) -> None:
    for action in (actions.drop_log, actions.roll_back_log):
        _recovered(lakes, action)


@drill("the log was purged")
def purged_log(lakes: Lakes) -> None:
    _recovered(lakes, actions.purge_log)


def _recovered(lakes: Lakes, action: Action) -> None:
    shop = lakes.shop()
    # A further commit of the log, to which it can be rolled back.
    expected = more(shop.bench)
    shop.sync()
    shop.equals(expected)
    shop.act(action)
    shop.sync()
    shop.equals(expected)
    shop.run("recover")
    shop.bench.put(loaded({1: "reloaded"}, at=NOON + 2 * HOUR))
    shop.sync()
    shop.equals({1: "reloaded"})


@drill("the same, before a table was applied for the first time")
def log_lost_before_the_first_batch(lakes: Lakes) -> None:
    for is_removed in (False, True):
        practice = lakes.lake()
        practice.bench.put(loaded({1: "a"}), loaded(NOT_THERE, part=2))
        practice.bench.look()
        practice.bench.put(loaded({1: "reloaded"}, at=NOON + HOUR))
        practice.bench.look()
        practice.bench.lake.runtime.catalog.drop_table(actions.LOG)
        if is_removed:
            (practice.location / "public/items/LOAD00000002.csv").unlink()
        practice.sync()
        practice.equals({1: "reloaded"} if is_removed else {1: "reloaded"} | NOT_THERE)
        if not is_removed:
            practice.seen.append("parts of two loads are taken for one load")


@drill("`lake_ops.contracts` was dropped or rolled back")
def lost_contracts(lakes: Lakes) -> None:
    for seed in (0, 1):  # of the first, the files stay; of the second, they go
        shop = lakes.shop()
        expected = more(shop.bench)
        assert actions.drop_contracts(Place(shop.bench.lake, shop.folder, Random(seed)))
        shop.sync()
        shop.equals(SHOP)
        shop.run("recover")
        shop.sync()
        shop.equals(expected)


@drill("the catalog was restored, and names metadata files that are gone")
def metadata_is_gone(lakes: Lakes) -> None:
    for table in ("silver_shop.items", actions.LOG):
        shop = lakes.shop()
        back_up_of_gone_metadata(shop.bench, table)
        shop.sync(apart=True)
        shop.run("recover", apart=True)
        expected = more(shop.bench)
        shop.sync()
        shop.equals(expected)


@drill("the catalog was restored to a state that is whole")
def catalog_goes_back(lakes: Lakes) -> None:
    shop = lakes.shop()
    catalog = shop.folder / "catalog.db"
    backup = shutil.copy(catalog, shop.folder / "backup.db")
    expected = more(shop.bench)
    shop.sync()
    shutil.copy(backup, catalog)
    shop.equals(SHOP)
    shop.sync()
    shop.equals(expected)


@drill("a silver table was rolled back")
def silver_goes_back(lakes: Lakes) -> None:
    shop = lakes.shop()
    expected = more(shop.bench)
    shop.sync()
    shop.act(actions.roll_back_silver)
    _is_loaded_again(shop, expected)


@drill("a silver table was dropped")
def silver_is_dropped(lakes: Lakes) -> None:
    shop = lakes.shop()
    shop.bench.lake.runtime.catalog.drop_table("silver_shop.items")
    _is_loaded_again(shop, SHOP)


def _is_loaded_again(shop: Practice, expected: dict[int, str]) -> None:
    shop.sync()
    shop.equals(expected)

"""Drills of the table "Silver": other writers, and other tools.

Here: these. Not here: the lakes (`practice.py`), what a row demands (`drill.py`).
"""

from lake_assets_tests.drills.drill import Lakes, drill
from lake_assets_tests.helpers.files.dms_files import Clock
from lake_assets_tests.helpers.lakes.changed_shop import HOUR, ITEMS, SHOP, changed, loaded, more, sql
from lake_assets_tests.helpers.reconcile.outside_writer import rewrite
from lake_assets_tests.outside import actions

TABLE = "silver_shop.items"


@drill("another job or a person committed rows")
def foreign_commit(lakes: Lakes) -> None:
    for command, action in (
        ("restore", actions.insert),
        ("restore", actions.delete),
        ("rebuild", actions.delete),
    ):
        shop = lakes.shop()
        shop.act(action)
        expected = more(shop.bench)
        shop.sync()
        shop.run(command, TABLE)
        shop.sync()
        shop.equals(expected)


@drill("other writers are allowed to write to the table")
def tolerated_commit(lakes: Lakes) -> None:
    shop = lakes.shop()
    sql(shop.bench, "INSERT INTO {table} VALUES (9, 'theirs')")
    expected = more(shop.bench)
    shop.sync()
    shop.equals(SHOP | {9: "theirs"})
    setting = {"foreign_commits": "tolerate"}
    shop.edit({"public.items": ITEMS | setting}, setting)
    shop.sync()
    shop.equals(expected | {9: "theirs"})


@drill("a data file was exchanged")
def copied_properties(lakes: Lakes) -> None:
    shop = lakes.shop()
    rewrite(shop.bench.lake, TABLE, "id = 3", v="'theirs'")
    expected = more(shop.bench) | {3: "later"}
    shop.sync()
    rewrite(shop.bench.lake, TABLE, "id = 4", v="'theirs'")
    shop.sync()
    shop.equals(expected | {4: "theirs"})
    shop.seen.append(shop.run("rebuild", TABLE, "--check", "--slice", "all", refused=True))
    assert "1 row differs" in shop.seen[-1], shop.seen[-1]
    shop.run("replay", TABLE, "--slice", "different")
    shop.equals(expected)


@drill("another tool compacted it or expired its snapshots")
def other_tool(lakes: Lakes) -> None:
    for action in (actions.compact, actions.expire):
        shop = lakes.shop()
        shop.act(action)
        expected = more(shop.bench)
        shop.sync()
        shop.equals(expected)


@drill("another tool expired the snapshot that has the position")
def position_expired(lakes: Lakes) -> None:
    shop = lakes.shop()
    shop.act(actions.compact_and_expire)
    expected = more(shop.bench)
    shop.sync()
    shop.equals(SHOP)
    shop.run("rebuild", TABLE)
    shop.sync()
    shop.equals(expected)


@drill("the same, and the table's full load")
def position_and_files_expired(lakes: Lakes) -> None:
    practice, clock = lakes.lake(), Clock()
    load = loaded({1: "a", 2: "b"})
    practice.bench.put(load, changed(clock, ("U", 1, "changed"), ("I", 3, "new")))
    practice.sync()
    before = {1: "changed", 2: "b", 3: "new"}
    practice.equals(before)
    practice.act(actions.compact_and_expire)
    practice.bench.lake.runtime.catalog.drop_table(actions.LOG)
    (practice.location / load.key).unlink()
    practice.sync()
    practice.run("rebuild", TABLE, refused=True)
    practice.equals(before)
    sql(practice.bench, "ALTER TABLE {table} RENAME TO silver_shop.items_before")
    clock.now += HOUR
    practice.bench.put(changed(clock, ("U", 1, "later")))
    practice.sync()
    practice.equals(before, "items_before")
    practice.equals({1: "later", 3: "new"})

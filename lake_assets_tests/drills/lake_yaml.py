"""Drills of the table "lake.yaml": names, modes, partitions, columns.

Here: these. Not here: the lakes (`practice.py`), what a row demands (`drill.py`).
"""

from lake_assets_tests.drills.drill import Lakes, drill
from lake_assets_tests.helpers.files.dms_files import NOON, load_file
from lake_assets_tests.helpers.lakes.changed_shop import HOUR, ITEMS, SHOP, more
from lake_assets_tests.helpers.lakes.small_lakes import sequence

TABLE = "silver_shop.items"


@drill("two tables have exchanged their `name:`")
def exchanged_names(lakes: Lakes) -> None:
    plain = {"public.items": ITEMS, "public.goods": ITEMS}
    exchanged = {"public.items": ITEMS | {"name": "goods"}, "public.goods": ITEMS | {"name": "items"}}
    for way in ("set back", "detach"):
        shop = lakes.shop(plain)
        shop.bench.put(load_file("public.goods", [{"id": 1, "v": "good"}]))
        shop.sync()
        shop.edit(exchanged, {"name": "goods"})
        shop.sync()
        shop.equals(SHOP)
        shop.equals({1: "good"}, "goods")
        if way == "set back":
            shop.edit(plain, {"name": "items"})
            expected = more(shop.bench)
            shop.sync()
            shop.equals(expected)
            shop.equals({1: "good"}, "goods")
        else:
            for name in ("items", "goods"):
                shop.run("detach", f"silver_shop.{name}")
            shop.sync()
            shop.equals(SHOP, "goods")
            shop.equals({1: "good"})


@drill("`mode:` was changed")
def changed_mode(lakes: Lakes) -> None:
    setting = {"mode": "soft_delete"}
    for way in ("rebuild", "set back"):
        shop = lakes.shop()
        shop.edit({"public.items": ITEMS | setting}, setting)
        shop.sync()
        if way == "rebuild":
            shop.run("rebuild", TABLE)
            shop.sync()
            shop.equals({1: "changed", 2: "b", 3: "c", 4: "new"})
            (gone,) = (row for row in shop.bench.stored() if row["_is_deleted"])
            assert gone["id"] == 2
        else:
            shop.edit({"public.items": ITEMS}, {"mode": "current"})
            expected = more(shop.bench)
            shop.sync()
            shop.equals(expected)


@drill("`partition_by:` was changed")
def changed_partitions(lakes: Lakes) -> None:
    setting = {"partition_by": ["bucket(2, id)"]}
    shop = lakes.shop()
    shop.edit({"public.items": ITEMS | setting}, setting)
    shop.sync()
    shop.seen.append(str(shop.status()["reason"]))
    assert "maintain" in shop.seen[-1], "`status` says so"
    shop.run("maintain", "--table", TABLE)
    assert shop.status()["reason"] is None
    assert not shop.bench.table().spec().is_unpartitioned()
    expected = more(shop.bench)
    shop.sync()
    shop.equals(expected)


@drill("a column cannot be a column of silver, by its name")
def forbidden_name(lakes: Lakes) -> None:
    renamed = {
        "renamed_from": {"v_2": "V"},
        "columns": {"id": "long not null", "v": "string", "v_2": "string"},
    }
    for setting in (renamed, {"ignore": ["V"]}):
        shop = lakes.shop()
        at = f"{NOON + HOUR:%F %T}"
        header = "Op,commit_ts,id,v,V,change_seq,BI_id"
        shop.bench.put_text(
            "public/items/20260301-130100000.csv", header, f"U,{at},3,later,other,{sequence(9, 2)},"
        )
        assert any("V" in reason for reason in shop.sync()), "the reason names the column"
        shop.equals(SHOP)
        shop.edit({"public.items": ITEMS | setting}, setting)
        shop.sync()
        shop.equals(SHOP | {3: "later"})

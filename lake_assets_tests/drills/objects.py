"""Drills of the table "Objects": files that are copied, written again, moved or gone.

Here: these. Not here: the lakes (`practice.py`), what a row demands (`drill.py`).
"""

import os
from datetime import timedelta
from random import Random

from lake_assets.commands.run.maintain import maintain
from lake_assets_tests.drills.drill import Lakes, drill
from lake_assets_tests.drills.practice import Practice
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, load_file
from lake_assets_tests.helpers.files.written_again import ITEMS as EVERY_SHAPE_ITEMS
from lake_assets_tests.helpers.files.written_again import TABLES
from lake_assets_tests.helpers.files.written_again import Lake as Written
from lake_assets_tests.helpers.lakes.changed_shop import (
    HOUR,
    ITEMS,
    SHOP,
    UNTIMED,
    UNTIMED_PARTS,
    applied_shop,
    changed,
    loaded,
    more,
    untimed_part,
    untimed_shop,
    without_digests,
)
from lake_assets_tests.outside import actions

LOGGED = {"public.items": ITEMS | {"also": ["change_log"]}}
TASK_START = {"use_task_start_time_for_full_load_timestamp": True}


@drill("an object was encrypted again")
def copied_or_moved(lakes: Lakes) -> None:
    for action in (actions.touch, actions.compress, actions.rename):
        shop = lakes.shop()
        shop.act(action)
        expected = more(shop.bench)
        shop.sync()
        shop.equals(expected)
        shop.run("rebuild", "silver_shop.items", "--check")
    shop = lakes.shop()
    moved = shop.location.replace(shop.folder / "another_bucket")
    shop.bench.location = moved
    shop.edit_source({"location": "another_bucket"}, location=str(moved))
    expected = more(shop.bench)
    shop.sync()
    shop.equals(expected)


@drill("a file changed its name and bytes several times")
def names_and_bytes(lakes: Lakes) -> None:
    tables = {EVERY_SHAPE_ITEMS: TABLES[EVERY_SHAPE_ITEMS] | {"also": ["change_log"]}}
    practice = lakes.lake(tables)
    written = Written(practice.folder, tables, given=practice.bench)
    written.load()
    written.changes(("U", 1, "new"), ("I", 7, "i"), ("D", 4, "loaded"))
    practice.sync()
    before = written.rows()
    written.there_and_back(Random(1), practice.sync)
    assert written.rows() == before
    written.changes(("U", 2, "new"), ("I", 8, "i"))
    practice.sync()
    practice.equals_oracle(EVERY_SHAPE_ITEMS)


@drill("a full-load file was transferred again by DMS")
def reloaded(lakes: Lakes) -> None:
    shop = lakes.shop()
    shop.bench.put(loaded({1: "reloaded", 9: "new"}, at=NOON + HOUR))
    shop.sync()
    shop.equals({1: "reloaded", 9: "new"})


@drill("a full-load file of a source without a timestamp column")
def untimed_same_rows(lakes: Lakes) -> None:
    practice = _untimed(lakes)
    for quoted in (False, True):
        untimed_part(practice.bench, reversed(UNTIMED_PARTS[0].items()), quoted=quoted)
        practice.sync()
        practice.equals(SHOP)


@drill("the same with other rows, in a table that has changes")
def untimed_other_rows(lakes: Lakes) -> None:
    for answer in ("--same-load", "--reload"):
        practice = _untimed(lakes)
        corrected = {3: "corrected"}
        untimed_part(practice.bench, corrected.items(), 2)
        practice.sync()
        practice.equals(SHOP)
        if answer == "--reload":
            untimed_part(practice.bench, {9: "z"}.items())
        practice.run("full-load", "public.items", answer)
        practice.sync()
        practice.equals(SHOP | corrected if answer == "--same-load" else {9: "z"} | corrected)


@drill("the same with other rows, in a table without changes")
def untimed_without_changes(lakes: Lakes) -> None:
    practice = lakes.lake(dms=UNTIMED)
    for rows in (UNTIMED_PARTS[0], {1: "next", 5: "e"}):
        untimed_part(practice.bench, rows.items())
        practice.sync()
        practice.equals(rows)


@drill("a value in a full-load file was corrected in place")
def corrected_value(lakes: Lakes) -> None:
    shop = lakes.shop()
    shop.bench.put(loaded({1: "a", 2: "b", 3: "corrected"}))
    shop.sync()
    shop.equals(SHOP | {3: "corrected"})


@drill("the same, and some of those changes are gone")
def corrected_without_changes(lakes: Lakes) -> None:
    for way in ("put back", "reloaded"):
        shop = lakes.shop()
        (changes,) = shop.location.rglob("2*.csv")
        content = changes.read_bytes()
        changes.unlink()
        shop.bench.put(loaded({1: "a", 2: "b", 3: "corrected"}))
        shop.sync()
        shop.equals(SHOP)
        if way == "put back":
            changes.write_bytes(content)
        else:
            shop.bench.put(loaded({1: "reloaded"}, at=NOON + HOUR))
        shop.sync()
        shop.equals(SHOP | {3: "corrected"} if way == "put back" else {1: "reloaded"})


@drill("a full-load file has other rows, and its timestamps do not show")
def stamps_say_nothing(lakes: Lakes) -> None:
    for answer in ("--same-load", "--reload"):
        practice = lakes.lake(dms=TASK_START)
        practice.bench.put(loaded({1: "a", 2: "b"}), changed(Clock(), ("U", 1, "changed")))
        practice.sync()
        practice.bench.put(loaded({1: "again"}))
        practice.sync()
        practice.equals({1: "changed", 2: "b"})
        if answer == "--reload":
            practice.run("full-load", "public.items", answer, refused=True)
            practice.run("full-load", "public.items", answer, "--began", f"{NOON + 2 * HOUR:%FT%T}")
        else:
            practice.run("full-load", "public.items", answer)
        practice.sync()
        practice.equals({1: "again"} if answer == "--reload" else {1: "changed"})


@drill("parts of two full loads lie beside each other")
def two_loads(lakes: Lakes) -> None:
    for answer, expected in (("--reload", {1: "new"}), ("--same-load", {1: "new", 2: "stale"})):
        practice = lakes.lake()
        practice.bench.put(loaded({2: "stale"}, part=2), loaded({1: "new"}, at=NOON + 72 * HOUR))
        practice.sync()
        practice.run("full-load", "public.items", answer)
        practice.sync()
        practice.equals(expected)


@drill("a part of a former load is touched or copied")
def stale_part(lakes: Lakes) -> None:
    practice = lakes.lake()
    practice.bench.put(loaded({1: "a"}), loaded({2: "stale"}, part=2))
    practice.sync()
    practice.bench.put(loaded({1: "reloaded"}, at=NOON + HOUR))
    practice.sync()
    practice.equals({1: "reloaded"})
    os.utime(practice.location / "public/items/LOAD00000002.csv")
    practice.sync()
    practice.equals({1: "reloaded"})
    practice.act(actions.copy)
    practice.sync()
    practice.equals({1: "reloaded"})


@drill("a file that maintenance deleted")
def superseded_and_put_back(lakes: Lakes) -> None:
    practice = lakes.lake()
    practice.bench.put(loaded({1: "a"}), loaded({2: "former"}, part=2))
    practice.sync()
    practice.bench.put(loaded({1: "reloaded"}, at=NOON + 72 * HOUR))
    practice.sync()
    part = practice.location / "public/items/LOAD00000002.csv"
    content, lake = part.read_bytes(), practice.bench.lake
    for setting in ("keep_snapshots", "keep_superseded_files"):
        # As if its time were over.
        object.__setattr__(lake.config.maintenance, setting, timedelta(0))
    assert [done.error for done in maintain(lake) if done.error is not None] == []
    assert not part.exists()
    copy = part.parent / "p2" / part.name
    copy.parent.mkdir()
    for place in (part, copy):
        place.write_bytes(content)
        practice.sync()
        practice.equals({1: "reloaded"})


@drill("an object is there twice")
def there_twice(lakes: Lakes) -> None:
    shop = lakes.shop()
    (load,) = shop.location.rglob("LOAD*.csv")
    copies = [load.with_name(f"{load.name}.gz"), load.parent / "p2" / load.name]
    shop.act(actions.copy)
    copies[1].parent.mkdir()
    copies[1].write_bytes(load.read_bytes())
    shop.sync()
    shop.equals(SHOP)
    load.unlink()
    expected = more(shop.bench)
    shop.sync()
    shop.equals(expected)
    shop.run("rebuild", "silver_shop.items", "--check")


@drill("a table without a key gets a part in another folder")
def equal_parts(lakes: Lakes) -> None:
    for is_removed in (False, True):
        practice = lakes.lake({"public.items": {"columns": ITEMS["columns"], "mode": "full_row"}})
        load = DmsFile("public/items/LOAD00000001.csv", ({"Op": "I", "commit_ts": NOON, "id": 1, "v": "a"},))
        practice.bench.put(load)
        copy = practice.location / "public/items/p2/LOAD00000001.csv"
        copy.parent.mkdir()
        copy.write_bytes((practice.location / load.key).read_bytes())
        if is_removed:
            copy.unlink()
            practice.sync()
            practice.equals({1: "a"})
            continue
        practice.sync()
        practice.compared += 1
        assert [row["v"] for row in practice.bench.stored()] == ["a", "a"]
        practice.seen.append("two parts")


@drill("a full-load file without timestamps that is too large")
def too_large_to_compare(lakes: Lakes) -> None:
    again = {1: "n", 2: "b"}
    for answer, expected in (("--reload", again), ("--same-load", SHOP)):
        with without_digests():
            practice = _untimed(lakes)
            # The size is the same: nothing says whether it was only encrypted again.
            untimed_part(practice.bench, again.items())
            practice.sync()
            practice.equals(SHOP)
            practice.run("full-load", "public.items", answer)
            practice.sync()
            practice.equals(expected)


@drill("a CDC file was written again with the same rows")
def same_changes(lakes: Lakes) -> None:
    practice = lakes.lake(LOGGED)
    written = Written(practice.folder, LOGGED, given=practice.bench)
    written.load()
    file = written.changes(("U", 1, "new"), ("D", 4, "loaded"))["public.items"]
    practice.sync()
    before = written.rows()
    written.encode(file)
    practice.sync()
    assert written.rows() == before
    practice.equals_oracle("public.items")


@drill("a CDC file was written again with other rows")
def other_changes(lakes: Lakes) -> None:
    for answer in ("retry", "discard"):
        practice = lakes.lake(LOGGED)
        clock = Clock()
        file = changed(clock, ("U", 1, "new"), ("I", 2, "b"))
        practice.bench.put(loaded({1: "a"}), file)
        practice.sync()
        first, second = file.rows
        practice.bench.put(DmsFile(file.key, (first, {**second, "v": "other"})))
        practice.sync()
        held = practice.quarantined()
        assert len(held) == 1, "of the log"
        practice.run("quarantine", "show", *held)
        practice.run("quarantine", answer, *held)
        practice.bench.put(changed(clock, ("I", 3, "goes on")))
        practice.sync()
        practice.equals_oracle("public.items")
        assert not practice.quarantined()
        logged = [row["v"] for row in practice.bench.stored("items_changes")]
        assert ("other" in logged) is (answer == "retry")
        assert {"b", "goes on"} <= set(logged), "the log has lost nothing"


@drill("files of the next batch were deleted")
def next_batch_is_gone(lakes: Lakes) -> None:
    for way in ("put back", "reloaded"):
        shop = lakes.shop()
        expected = more(shop.bench)
        shop.bench.look()
        (newest,) = shop.location.rglob("20260301-130*.csv")
        content = newest.read_bytes()
        newest.unlink()
        shop.sync()
        shop.equals(SHOP)
        if way == "put back":
            newest.write_bytes(content)
        else:
            shop.bench.put(loaded({1: "reloaded"}, at=NOON + 2 * HOUR))
            expected = {1: "reloaded"}
        shop.sync()
        shop.equals(expected)


@drill("files that were applied long ago have expired")
def applied_files_expired(lakes: Lakes) -> None:
    practice = lakes.lake()
    old, clock = changed(Clock(), ("U", 1, "old")), Clock(NOON + HOUR)
    practice.bench.put(loaded({1: "a", 2: "b"}), old)
    practice.sync()
    practice.bench.put(changed(clock, ("U", 1, "newest")))
    practice.sync()
    gone = practice.location / old.key
    content = gone.read_bytes()
    gone.unlink()
    practice.sync()
    practice.equals({1: "newest", 2: "b"})
    late = Clock(NOON + timedelta(minutes=2))
    practice.bench.put(changed(late, ("U", 2, "late")))
    practice.sync()
    held = practice.quarantined()
    assert len(held) == 1, "the late file"
    gone.write_bytes(content)
    practice.run("quarantine", "retry", *held)
    practice.sync()
    practice.equals({1: "newest", 2: "late"})


@drill("all files of a table are gone")
def all_gone(lakes: Lakes) -> None:
    older = load_file("public.goods", [{"id": 1, "v": "good"}])
    for policy, expected in (("keep", SHOP), ("truncate", {})):
        shop = lakes.lake({"public.items": ITEMS | {"on_vanished": policy}, "public.goods": ITEMS})
        shop.bench.put(older)
        applied_shop(shop.bench, shop.sync)
        for path in (shop.location / "public/items").rglob("*.csv"):
            path.unlink()
        shop.sync()
        shop.equals(expected)
        shop.seen.append(str(shop.status()["reason"]))
        assert policy in shop.seen[-1], "`status` reports the deletion"


@drill("a table has no full load")
def no_full_load(lakes: Lakes) -> None:
    for way in ("loaded", "cdc_only"):
        practice, clock = lakes.lake(), Clock()
        practice.bench.put(changed(clock, ("I", 1, "a"), ("U", 2, "b"), ("D", 3, "c")))
        practice.sync()
        practice.equals({1: "a", 2: "b"})
        shown = practice.status()
        practice.seen.append(shown["reason"])
        assert shown["unknown_rows"] == 2
        if way == "loaded":
            practice.bench.put(loaded({1: "a", 2: "b", 3: "c", 5: "e"}, at=NOON + HOUR))
            practice.sync()
            practice.equals({1: "a", 2: "b", 3: "c", 5: "e"})
        else:
            practice.edit({"public.items": ITEMS | {"cdc_only": True}}, {"cdc_only": True})
            practice.sync()
            practice.equals({1: "a", 2: "b"})
        assert practice.status()["reason"] is None


def _untimed(lakes: Lakes) -> Practice:
    practice = lakes.lake(dms=UNTIMED)
    untimed_shop(practice.bench, practice.sync)
    practice.equals(SHOP)
    return practice

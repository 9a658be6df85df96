"""Something outside changes the lake: the table stays right, or it stops with a reason and a command that mends it.

Here: each case once, with real files, Spark and tables. Not here: random mixtures of them (`outside`), the decisions on
single cases (`bronze/log/test_copies.py`, `test_ambiguous_parts.py`).
"""

import gzip
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.commands.mend.detach import detach
from lake_assets.commands.mend.full_load_decision import decide
from lake_assets.commands.mend.restore import restore
from lake_assets.commands.show.status import status
from lake_assets.errors import LakeError, TableStopped
from lake_assets.rounds.maintenance import maintain_silver
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import (
    HOUR,
    ITEMS,
    UNTIMED,
    changed,
    loaded,
    more,
    reason,
    reopen,
    sql,
    untimed_part,
    untimed_shop,
    values,
    without_digests,
)
from lake_assets_tests.outside.actions import Place, compact, compact_and_expire

pytestmark = [pytest.mark.spark, pytest.mark.slow]


# --- objects are copied, corrected, put back


def test_a_load_that_was_compressed_or_touched_changes_nothing(shop: Bench) -> None:
    assert shop.location is not None
    (load,) = shop.location.rglob("LOAD*.csv")
    load.with_name(f"{load.name}.gz").write_bytes(gzip.compress(load.read_bytes()))
    load.unlink()
    for path in shop.location.rglob("*.csv*"):
        os.utime(path)
    assert shop.apply() == {"items": []}
    assert values(shop) == {1: "changed", 3: "c", 4: "new"}
    target = shop.lake.targets[0]
    assert rebuild(shop.lake.runtime, target, publish=False).equal, "the copy is read where it is now"


def test_a_value_that_was_corrected_in_a_load_keeps_the_changes(shop: Bench) -> None:
    shop.put(loaded({1: "a", 2: "b", 3: "corrected"}))
    shop.apply()
    assert values(shop) == {1: "changed", 3: "corrected", 4: "new"}


def test_a_corrected_load_needs_all_changes(shop: Bench) -> None:
    assert shop.location is not None
    (changes,) = shop.location.rglob("2*.csv")
    content = changes.read_bytes()
    changes.unlink()
    shop.put(loaded({1: "a", 2: "b", 3: "corrected"}))
    assert "gone from the bucket" in reason(shop)
    assert values(shop) == {1: "changed", 3: "c", 4: "new"}, "nothing was guessed"
    changes.write_bytes(content)
    shop.apply()
    assert values(shop) == {1: "changed", 3: "corrected", 4: "new"}


@pytest.mark.parametrize("reload", [True, pytest.param(False, marks=pytest.mark.long)])
def test_under_the_tasks_start_other_content_is_asked_about(
    new_bench: Callable[..., Bench], reload: bool
) -> None:
    found = new_bench(dms={"use_task_start_time_for_full_load_timestamp": True})
    found.put(loaded({1: "a", 2: "b"}))
    found.put(changed(Clock(), ("U", 1, "changed")))
    found.apply()
    found.put(loaded({1: "again"}))
    assert "lake-assets full-load" in reason(found)
    assert values(found) == {1: "changed", 2: "b"}
    if reload:
        with pytest.raises(LakeError, match="--began"):
            decide(found.lake, "public.items", None, reload=True)
        decide(found.lake, "public.items", None, reload=True, began=NOON + 2 * HOUR)
    else:
        decide(found.lake, "public.items", None, reload=False)
    found.apply()
    assert values(found) == ({1: "again"} if reload else {1: "changed"})


def test_a_tasks_start_that_lake_yaml_does_not_mention_is_seen_in_the_rows(shop: Bench) -> None:
    """DMS reloads the table within its task, and stamps all rows with that task's start again."""
    assert shop.location is not None
    shop.apply()
    for again in ("reloaded", "reloaded once more"):
        rows = [{"Op": "I", "commit_ts": NOON, "id": n, "v": again} for n in (1, 2)]
        shop.put(DmsFile("public/items/LOAD00000001.csv", tuple(rows)))
        assert "lake-assets full-load" in reason(shop)
        decide(shop.lake, "public.items", None, reload=True, began=NOON + 2 * HOUR)
        shop.apply()
        assert values(shop) == {1: again, 2: again}


def test_a_stale_part_that_is_touched_does_not_join_the_reload(new_bench: Callable[..., Bench]) -> None:
    found = new_bench()
    found.put(loaded({1: "a"}), loaded({2: "stale"}, part=2, at=NOON))
    found.apply()
    found.put(loaded({1: "reloaded"}, at=NOON + HOUR))
    found.apply()
    assert values(found) == {1: "reloaded"}
    assert found.location is not None
    os.utime(found.location / "public/items/LOAD00000002.csv")
    found.apply()
    assert values(found) == {1: "reloaded"}


@pytest.mark.parametrize("reload", [False, pytest.param(True, marks=pytest.mark.long)])
def test_two_loads_days_apart_are_asked_about(new_bench: Callable[..., Bench], reload: bool) -> None:
    found = new_bench()
    found.put(loaded({2: "stale"}, part=2), loaded({1: "new"}, at=NOON + 72 * HOUR))
    assert "may belong to two loads" in reason(found)
    decide(found.lake, "public.items", None, reload=reload)
    found.apply()
    assert values(found) == ({1: "new"} if reload else {1: "new", 2: "stale"})


# --- somebody else writes to silver, or names are exchanged


STRANGERS = {
    "insert": "INSERT INTO {table} VALUES (9, 'stray')",
    "update": "UPDATE {table} SET v = 'stray'",
    "delete": "DELETE FROM {table}",
}


@pytest.mark.parametrize(
    ("statement", "mend"),
    [
        ("insert", "restore"),
        ("delete", "rebuild"),
        pytest.param("update", "rebuild", marks=pytest.mark.long),
        pytest.param("insert", "rebuild", marks=pytest.mark.long),
        pytest.param("update", "restore", marks=pytest.mark.long),
        pytest.param("delete", "restore", marks=pytest.mark.long),
    ],
)
def test_a_commit_of_somebody_else_stops_the_table(shop: Bench, statement: str, mend: str) -> None:
    sql(shop, STRANGERS[statement])
    expected = more(shop)
    said = reason(shop)
    assert "not by lake_assets" in said
    assert f"lake-assets {mend} silver_shop.items" in said
    target = shop.lake.targets[0]
    one = maintain_silver(shop.lake.runtime, (), target)
    assert one.error is not None, "maintenance does not cover it with a commit of its own"
    if mend == "restore":
        assert restore(shop.lake.runtime, target) == 1
    else:
        rebuild(shop.lake.runtime, target)
    shop.apply()
    assert values(shop) == expected


def test_a_commit_of_somebody_else_may_be_tolerated(new_bench: Callable[..., Bench]) -> None:
    found = new_bench({"public.items": ITEMS | {"foreign_commits": "tolerate"}})
    found.put(loaded({1: "a"}))
    found.apply()
    sql(found, STRANGERS["insert"])
    found.put(changed(Clock(), ("I", 2, "b")))
    found.apply()
    assert values(found) == {1: "a", 2: "b", 9: "stray"}


def test_compaction_by_another_tool_is_no_strangers_commit(shop: Bench) -> None:
    assert compact(Place(shop.lake, shop.folder, Random(1)))
    expected = more(shop)
    shop.apply()
    assert values(shop) == expected


def lose_position(shop: Bench) -> None:
    """As another tool that compacts the table and expires all other snapshots."""
    assert compact_and_expire(Place(shop.lake, shop.folder, Random(1)))


def test_a_position_that_another_tool_has_expired_is_found_again_by_a_rebuild(shop: Bench) -> None:
    lose_position(shop)
    expected = more(shop)
    assert "lake-assets rebuild" in reason(shop)
    rebuild(shop.lake.runtime, shop.lake.targets[0])
    shop.apply()
    assert values(shop) == expected


@pytest.mark.parametrize("cdc_only", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_rebuild_does_not_drop_the_rows_of_a_full_load_that_is_gone(
    new_bench: Callable[..., Bench], cdc_only: bool
) -> None:
    found = new_bench({"public.items": ITEMS | {"cdc_only": cdc_only}})
    load = loaded({1: "a", 2: "b"})
    found.put(load)
    found.look()
    found.put(changed(Clock(), ("U", 1, "changed"), ("I", 3, "new")))
    found.apply()
    before = values(found)
    lose_position(found)
    # The file log is lost, and the full load has expired.
    found.lake.runtime.catalog.drop_table("lake_ops.bronze_files")
    (Path(str(found.location)) / load.key).unlink()
    reopen(found)
    assert "lake-assets rebuild" in reason(found)
    if cdc_only:
        rebuild(found.lake.runtime, found.lake.targets[0])
        assert values(found) == {1: "changed", 3: "new"}
        return
    with pytest.raises(TableStopped, match=r"rows of a full load.*1 row is in no file any more"):
        rebuild(found.lake.runtime, found.lake.targets[0])
    assert values(found) == before


def test_names_that_are_exchanged_do_not_mix_two_tables(new_bench: Callable[..., Bench]) -> None:
    found = new_bench({"public.items": ITEMS, "public.goods": ITEMS})
    found.put(loaded({1: "item"}), load_file("public.goods", [{"id": 1, "v": "good"}]))
    found.apply()
    found.edit({"public.items": ITEMS | {"name": "goods"}, "public.goods": ITEMS | {"name": "items"}})
    assert "lake-assets detach" in reason(found, "goods")
    assert (values(found, "items"), values(found, "goods")) == ({1: "item"}, {1: "good"})
    for target in found.lake.targets:
        assert detach(found.lake.runtime, target).startswith(f"silver_shop.{target.name}_of_")
    reopen(found)
    found.apply()
    assert (values(found, "items"), values(found, "goods")) == ({1: "good"}, {1: "item"})
    assert values(found, "items_of_public_items") == {1: "item"}


def test_orphans_of_a_table_are_no_files_of_a_detached_one(new_bench: Callable[..., Bench]) -> None:
    """Both have the same folder."""
    maintenance = {"maintenance": {"remove_orphan_files_after": "1d"}}
    found = new_bench({"public.items": ITEMS, "public.goods": ITEMS}, sections=maintenance)
    found.put(loaded({1: "item"}), load_file("public.goods", [{"id": 1, "v": "good"}]))
    found.apply()
    found.edit({"public.goods": ITEMS | {"name": "items"}})
    (target,) = found.lake.targets
    detached = detach(found.lake.runtime, target).partition(".")[2]
    reopen(found)
    found.apply()
    for path in (found.folder / "warehouse").rglob("*"):
        os.utime(path, (0, 0))
    done = maintain_silver(found.lake.runtime, (), found.lake.targets[0])
    assert (done.error, done.orphans_removed) == (None, 0)
    assert (values(found, detached), values(found, "items")) == ({1: "item"}, {1: "good"})


# --- a table of which only changes are there


def test_changes_of_rows_that_the_table_never_had_are_counted(new_bench: Callable[..., Bench]) -> None:
    found, clock = new_bench(), Clock()
    found.put(changed(clock, ("I", 1, "a"), ("U", 2, "b"), ("D", 3, "c")))
    found.apply()
    found.put(changed(clock, ("D", 4, "d"), ("U", 1, "known")))
    found.apply()
    (line,) = status(found.lake)
    assert line.unknown_rows == 3
    assert line.reason is not None
    assert "3 rows" in line.reason
    found.edit({"public.items": ITEMS | {"cdc_only": True}})
    (line,) = status(found.lake)
    assert (line.unknown_rows, line.reason) == (3, None)


def test_files_of_other_tables_do_not_move_a_position(shop: Bench) -> None:
    """The record at a position is the table's own: that is how a log of another lake is told."""
    log = shop.lake.runtime.file_log.files("shop", "public.items")
    offset = int(shop.summary()["lake.log-offset"])
    (at,) = [file for file in log if file.offset == offset]
    assert isinstance(at, LoggedFile)
    assert shop.summary()["lake.log-file"] == at.key
    assert datetime.fromisoformat(shop.summary()["lake.logged-at"]).astimezone(UTC) == at.logged_at


@pytest.mark.parametrize("reload", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_load_without_timestamps_that_cannot_be_compared_is_asked_about(
    new_bench: Callable[..., Bench], reload: bool
) -> None:
    found = new_bench(dms=UNTIMED)
    with without_digests():
        before = untimed_shop(found, found.apply)
        assert values(found) == before
        # The size is the same: nothing says whether it was only encrypted again.
        untimed_part(found, {1: "n", 2: "b"}.items())
        assert "lake-assets full-load" in reason(found)
        assert values(found) == before
        decide(found.lake, "public.items", None, reload=reload)
        found.apply()
    assert values(found) == ({1: "n", 2: "b"} if reload else before)


def test_a_corrected_load_is_not_appended_to_a_change_log_again(new_bench: Callable[..., Bench]) -> None:
    found = new_bench({"public.items": ITEMS | {"also": ["change_log"]}})
    found.put(loaded({1: "a", 2: "b"}))
    found.put(changed(Clock(), ("U", 1, "changed")))
    found.apply()
    before = found.rows("items_changes")
    found.put(loaded({1: "a", 2: "corrected"}))
    found.turn()
    assert values(found) == {1: "changed", 2: "corrected"}
    assert [row for row in found.rows("items_changes") if "corrected" not in row] == before


def test_a_corrected_reload_keeps_the_beginning_that_was_given(new_bench: Callable[..., Bench]) -> None:
    found = new_bench(dms={"use_task_start_time_for_full_load_timestamp": True})
    found.put(loaded({1: "a", 2: "b"}))
    found.put(changed(Clock(), ("U", 1, "old change")))
    found.apply()
    for value, reload in (("reloaded", True), ("corrected", False)):
        found.put(loaded({1: value}))
        assert "lake-assets full-load" in reason(found)
        decide(found.lake, "public.items", None, reload=reload, began=NOON + HOUR if reload else None)
        found.apply()
        assert values(found) == {1: value}

"""Superseded files are deleted after their time, and nothing that reads files afterwards notices.

Here: real lakes. Not here: which files a load has superseded (`silver/plan/test_superseded.py`), histories by chance
(`silver/test_superseded_histories.py`), Dagster's run (`orchestration/runs/test_maintenance_job.py`).
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.files.keys import FileKind
from lake_assets.commands.mend.recover import recover
from lake_assets.commands.run.maintain import maintain
from lake_assets.iceberg.erasure_log import ErasureLog
from lake_assets.iceberg.upkeep.table_maintenance import Maintained
from lake_assets.rounds.superseded_files import FormerFiles, due_sources, former_files
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets.silver.table.pause import pause
from lake_assets.storage.local_store import LocalStore
from lake_assets.storage.stored_object import StoredObject
from lake_assets_tests.helpers.files.dms_files import (
    NOON,
    Clock,
    cdc_file,
    load_file,
    transaction_file,
)
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, sql
from lake_assets_tests.helpers.lakes.transaction_tables import TRANSACTIONS
from lake_assets_tests.helpers.processes.faults import Killed

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("keep_little")]
DAY = timedelta(days=1)
WINDOW = 30 * DAY
SETTINGS = {"maintenance": {"keep_superseded_files": "30d", "keep_snapshots": "0s"}}
FORMER = ["public/items/LOAD00000002.csv", "public/items/20260301-140001700.csv"]
"""Files of the first load without the oldest changes, which stay."""
FORMER_TRANSACTIONS = ["cdc/CDC_TXN-20260301140001700.csv"]


class Story:
    """Items: a load of two parts, two files of changes, a file for each day; three days later a load of one part."""

    def __init__(
        self,
        folder: Path,
        tables: dict[str, Any] | None = None,
        dms: dict[str, Any] | None = None,
        **sections: Any,
    ) -> None:
        self.bench = Bench(folder, tables or {"public.items": ITEMS}, dms or {}, SETTINGS | sections)
        self.clock = Clock(NOON)
        for table in self.bench.tables:
            self.bench.put(
                load_file(table, [{"id": n, "v": "a"} for n in (1, 2)]),
                load_file(
                    table, [{"id": n, "v": "a"} for n in (3, 4)], part=2, at=NOON + timedelta(minutes=1)
                ),
            )
        self.bench.apply()
        self.change(timedelta(hours=1), 1)
        self.change(timedelta(hours=2), 3)

    def change(self, after: timedelta, key: int) -> None:
        """An update of a key so long after the first load, in each table."""
        self.clock.now = NOON + after
        rows = [self.clock.change("U", {"id": key, "v": f"{after}"})]
        if self.bench.dms.get("preserve_transactions"):
            changes = [(table, row) for table in self.bench.tables for row in rows]
            self.bench.put(transaction_file(self.clock.now, changes))
        else:
            self.bench.put(*(cdc_file(table, self.clock.now, rows) for table in self.bench.tables))
        self.bench.apply()

    def reload(self, after: timedelta = 3 * DAY) -> None:
        rows = [{"id": n, "v": f"load of {after}"} for n in (1, 2, 3)]
        self.bench.put(*(load_file(table, rows, at=NOON + after) for table in self.bench.tables))
        for table in self.bench.tables:
            self.forget(table)
        self.bench.apply()
        self.change(after + timedelta(hours=1), 2)

    def forget(self, table: str) -> None:
        """The oracle knows one load of a table: the second part was of the first one."""
        self.bench.bucket.pop(load_file(table, [], part=2).key, None)

    def former(self, after: timedelta = WINDOW) -> FormerFiles:
        """What can go of items, so long from now."""
        found = former_files(
            self.bench.lake.runtime, "shop", datetime.now(UTC) + after + timedelta(minutes=1)
        )
        return next(each for each in found if each.table == "public.items")

    def going(self) -> list[str]:
        return [each.file.path for each in self.former().files]

    def maintain(self) -> dict[str, Maintained]:
        """Maintenance in which nothing may fail, when the window is over."""
        settings = self.bench.lake.config.maintenance
        object.__setattr__(settings, "keep_superseded_files", timedelta(0))
        done = {one.table: one for one in maintain(self.bench.lake)}
        object.__setattr__(settings, "keep_superseded_files", WINDOW)
        assert [one.error for one in done.values() if one.error is not None] == []
        return done

    def objects(self) -> list[str]:
        assert self.bench.location is not None
        return [obj.key for obj in LocalStore(str(self.bench.location)).list()]

    def check(self) -> None:
        """Silver is what all files say that ever were there, and so says a rebuild."""
        for target in self.bench.lake.targets:
            truth = self.bench.truth(target.table, target.mode.value)
            assert self.bench.rows(target.name) == truth, target.name
            assert rebuild(self.bench.lake.runtime, target, publish=False).equal, target.name


@pytest.fixture
def story(spark: SparkSession, tmp_path: Path) -> Story:
    found = Story(tmp_path)
    found.reload()
    return found


def test_files_go_and_nothing_notices(story: Story) -> None:
    runtime = story.bench.lake.runtime
    assert story.former().kept == "it has commits from before its newest full load"
    before = story.objects()
    assert due_sources(runtime, datetime.now(UTC)) == []
    done = story.maintain()["files of shop/public.items"]
    gone = set(before) - set(story.objects())
    assert gone == {*FORMER}
    assert (done.files_before, done.files_after) == (len(gone), 0)
    assert done.bytes_removed > 0
    assert "files of shop/public.items" not in story.maintain(), "nothing is left to do"
    assert due_sources(runtime, datetime.now(UTC) + 2 * WINDOW) == []

    story.bench.turn()
    records = runtime.file_log.records("shop")
    assert [record for record in records if record.kind is FileKind.VANISHED] == []
    story.check()
    # A late file of the present load, and one of the former.
    story.bench.put(
        cdc_file(
            "public.items",
            NOON + 3 * DAY + timedelta(minutes=30),
            [Clock(NOON + 3 * DAY + timedelta(minutes=20)).change("U", {"id": 1, "v": "late"})],
        )
    )
    story.bench.apply()
    assert story.bench.stored_by_id("v")[1] == "late"
    story.change(timedelta(hours=3), 1)
    story.check()
    # And the table itself.
    runtime.catalog.drop_table("silver_shop.items")
    story.bench.apply()
    story.check()
    story.reload(9 * DAY)
    story.check()


@pytest.mark.parametrize(("window", "going"), [(-timedelta(minutes=2), 0), (timedelta(0), 2)])
def test_the_window(story: Story, window: timedelta, going: int) -> None:
    for _ in maintain(story.bench.lake):
        pass
    assert len(story.former(WINDOW + window).files) == going
    assert ("superseded within" in story.former(WINDOW + window).kept) is (not going)


def test_it_is_off_by_default(spark: SparkSession, tmp_path: Path) -> None:
    found = Story(tmp_path, maintenance={"keep_snapshots": "0s"})
    found.reload()
    assert former_files(found.bench.lake.runtime, "shop", datetime.now(UTC) + 100 * WINDOW) == []
    before = found.objects()
    assert not any("files of" in one.table for one in maintain(found.bench.lake))
    assert found.objects() == before


def test_a_tag_keeps_the_files_that_its_commit_would_need(spark: SparkSession, tmp_path: Path) -> None:
    found = Story(tmp_path)
    sql(found.bench, "ALTER TABLE {table} CREATE TAG audit")
    found.reload()
    found.maintain()
    assert found.former().kept == "it has commits from before its newest full load"
    assert {*FORMER} < {*found.objects()}
    sql(found.bench, "ALTER TABLE {table} DROP TAG audit")
    found.maintain()
    assert not {*FORMER} & {*found.objects()}


@pytest.mark.parametrize("mode", ["change_log", "history"])
def test_a_table_that_keeps_the_past_keeps_its_files(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    found = Story(tmp_path, {"public.items": ITEMS | {"also": [mode]}, "public.others": ITEMS})
    found.reload()
    found.maintain()
    assert {*FORMER} < {*found.objects()}
    assert not {key.replace("items", "others") for key in FORMER} & {*found.objects()}
    assert f"has mode {mode}, and may need the files of every full load" in found.former().kept
    # So does a table of a shape that lake.yaml does not name any more.
    found.bench.edit({"public.items": ITEMS, "public.others": ITEMS})
    found.maintain()
    assert {*FORMER} < {*found.objects()}
    assert "has its rows, too" in found.former().kept


def test_a_history_that_is_added_later_begins_with_the_newest_load(story: Story) -> None:
    story.change(3 * DAY + timedelta(hours=2), 1)
    story.maintain()
    assert not {*FORMER} & {*story.objects()}
    story.bench.edit({"public.items": ITEMS | {"also": ["history"]}})
    story.bench.apply()
    rows = story.bench.stored("items_history")
    assert {row["id"]: row["v"] for row in rows if row["_is_current"]} == story.bench.stored_by_id("v")
    assert min(row["_valid_from"] for row in rows) >= NOON + 3 * DAY
    target = next(target for target in story.bench.lake.targets if target.name == "items_history")
    assert rebuild(story.bench.lake.runtime, target, publish=False).equal


def test_what_waits_keeps_its_files(story: Story) -> None:
    """A pause with pending files, an erasure that is not finished, a row in the quarantine."""
    for _ in maintain(story.bench.lake):
        pass
    runtime, (target,) = story.bench.lake.runtime, story.bench.lake.targets
    assert {*FORMER} <= {*story.going()}
    erasure = ErasureLog(runtime.catalog).begin("shop", "public.items", [("1",)], None)
    assert (story.going(), story.former().kept) == ([], "an erasure is not finished")
    ErasureLog(runtime.catalog).note(
        type(erasure)(
            **{name: getattr(erasure, name) for name in erasure.__slots__} | {"finished": datetime.now(UTC)}
        )
    )
    assert {*FORMER} <= {*story.going()}
    pause(runtime, target, "")
    story.bench.put(cdc_file("public.items", NOON + 4 * DAY, [story.clock.change("D", {"id": 2, "v": None})]))
    story.bench.look()
    assert (story.going(), story.former().kept) == ([], "silver_shop.items is waiting")


def test_a_file_that_was_written_again_stays(story: Story) -> None:
    """DMS may write the part of a former load again before the next scan."""
    for _ in maintain(story.bench.lake):
        pass
    key = FORMER[-1]
    assert story.bench.location is not None
    path = story.bench.location / key
    path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")
    story.maintain()
    assert FORMER[0] not in story.objects()
    assert key in story.objects()


def test_files_of_whole_transactions_have_rows_of_many_tables(spark: SparkSession, tmp_path: Path) -> None:
    """One goes when all tables that have rows in it have been loaded again."""
    found = Story(tmp_path, {"public.items": ITEMS, "public.others": ITEMS}, TRANSACTIONS)
    rows = [{"id": n, "v": "again"} for n in (1, 2)]
    for table in ("public.items", "public.others"):
        assert {*FORMER_TRANSACTIONS} <= {*found.objects()}
        found.bench.put(load_file(table, rows, at=NOON + 3 * DAY))
        found.forget(table)
        found.bench.apply()
        found.change(3 * DAY + timedelta(hours=len(rows)), 2)
        rows.append({"id": 3, "v": "again"})
        done = found.maintain()
    assert not {*FORMER_TRANSACTIONS} & {*found.objects()}
    removed = {name: one.files_before for name, one in done.items() if name.startswith("files of")}
    assert removed == {"files of shop/public.items": 1, "files of shop/public.others": 1}, "each once"
    found.check()


@pytest.mark.parametrize("deleted", [0, 1])
def test_a_kill_between_two_deletions(story: Story, deleted: int) -> None:
    """What was deleted first is what proves nothing any more: a log that is made again is right, too."""
    story.change(3 * DAY + timedelta(hours=2), 1)
    remove, left = LocalStore.remove_same, [deleted]

    def dying(self: LocalStore, obj: StoredObject) -> bool:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return remove(self, obj)

    before = story.objects()
    with patch.object(LocalStore, "remove_same", dying), pytest.raises(Killed):
        story.maintain()
    object.__setattr__(story.bench.lake.config.maintenance, "keep_superseded_files", WINDOW)
    assert len(before) - len(story.objects()) == deleted
    assert due_sources(story.bench.lake.runtime, datetime.now(UTC) + 2 * WINDOW) == ["shop"]
    story.bench.apply()
    story.check()
    if deleted:
        story.bench.lake.runtime.catalog.purge_table("lake_ops.bronze_files")
        story.bench.lake = story.bench.reopened()
        assert list(recover(story.bench.lake))
        story.bench.lake = story.bench.reopened()
        story.bench.apply()
        story.check()
    else:
        assert story.maintain()["files of shop/public.items"].files_before == 2


def test_recover_makes_the_same_log_without_them(story: Story) -> None:
    story.maintain()
    runtime = story.bench.lake.runtime
    runtime.catalog.purge_table("lake_ops.bronze_files")
    story.bench.lake = story.bench.reopened()
    lines = list(recover(story.bench.lake))
    assert any("a new file log" in line for line in lines), lines
    assert not any("gone" in line for line in lines), lines
    story.bench.lake = story.bench.reopened()
    story.change(5 * DAY, 3)
    story.check()


def test_another_tables_truncate_is_still_recognised(spark: SparkSession, tmp_path: Path) -> None:
    """By files as old as its own: those of the tables that were loaded again are among them."""
    found = Story(tmp_path, {"public.items": ITEMS, "public.others": ITEMS | {"on_vanished": "truncate"}})
    rows = [{"id": n, "v": "again"} for n in (1, 2)]
    found.bench.put(load_file("public.items", rows, at=NOON + 3 * DAY))
    found.forget("public.items")
    found.bench.apply()
    found.maintain()
    assert not {*FORMER} & {*found.objects()}
    assert found.bench.location is not None
    for key in found.objects():
        if key.startswith("public/others/"):
            (found.bench.location / key).unlink()
    found.bench.apply()
    assert found.bench.rows("others") == []

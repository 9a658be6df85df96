"""Versions and changes of long ago are removed, and the table stays a function of its files and of that time.

`LAKE_HISTORIES=100:40` runs forty other random histories, from seed 100 on. Here: real tables beside the oracles.
"""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock, patch

import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.history.time_travel import commits, go_back
from lake_assets.config import Mode
from lake_assets.errors import ApplyConflict
from lake_assets.iceberg.table_io import HISTORY_TRIMMED_TO, summary
from lake_assets.rounds.due_maintenance import due_upkeep, upkeep
from lake_assets.rounds.maintenance import MAINTAIN_AFTER, MaintenanceSchedule, maintain_silver
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets.silver.apply.trim_history import is_trim_due, trim_history
from lake_assets.silver.table.pause import resume
from lake_assets.silver.table.position import HISTORY_FROM, TOUCHED_DAYS, read_position
from lake_assets.silver.table.targets import Target, Tracked
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS
from lake_assets_tests.helpers.oracles import oracle, oracle_shapes

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FIRST, COUNT = (int(number) for number in os.environ.get("LAKE_HISTORIES", "0:4").split(":"))
SEEDS = [pytest.param(n, marks=[pytest.mark.long] if n > FIRST else []) for n in range(FIRST, FIRST + COUNT)]
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
WINDOW = 30 * DAY
TABLE = "public.items"
KEPT: dict[str, Any] = ITEMS | {"also": ["history", "change_log"], "keep_history": "30d"}


class Story:
    """A table with its history and its log; the clock is that of the source."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(folder, {TABLE: KEPT})
        self.clock = Clock(NOON + HOUR)
        self.stages: list[list[DmsFile]] = []

    def load(self, ids: list[int], at: datetime) -> None:
        if self.bench.bucket:
            self.stages.append(self.bench.files(TABLE))
        self.bench.put(load_file(TABLE, [{"id": n, "v": f"{at:%d}"} for n in ids], at=at))
        self.bench.apply()

    def change(self, *changes: tuple[str, int, str | None], after: timedelta = HOUR) -> None:
        self.clock.now += after
        rows = [self.clock.change(op, {"id": key, "v": v}) for op, key, v in changes]
        self.bench.put(cdc_file(TABLE, self.clock.now, rows))
        self.bench.apply()

    def target(self, mode: Mode) -> Target:
        return next(target for target in self.bench.lake.targets if target.mode is mode)

    def trim(self, now: datetime) -> dict[Mode, int]:
        """Removes what ended a window before now; returns how many rows of each table."""
        return {
            target.mode: trim_history(self.bench.lake.runtime, target, now)
            for target in self.bench.lake.targets
        }

    def check(self, step: str = "") -> None:
        files, columns = self.bench.files(TABLE), self.bench.columns(TABLE)
        versions = oracle_shapes.history([*self.stages, files], columns, ["id"])
        changes = self.logged()
        expected = {
            "items": self.bench.truth(),
            "items_history": self.bench.as_silver(TABLE, self.since("items_history", versions, "_valid_to")),
            "items_changes": self.bench.as_silver(TABLE, self.since("items_changes", changes, "_commit_ts")),
        }
        for name, rows in expected.items():
            assert self.bench.rows(name) == rows, f"{step}: {name}"
        for mode in (Mode.HISTORY, Mode.CURRENT):
            assert rebuild(self.bench.lake.runtime, self.target(mode), publish=False).equal, f"{step}: {mode}"

    def logged(self) -> list[dict[str, Any]]:
        """All changes that a log has had, those of overwritten full loads included."""
        seen = {file.key: file for stage in self.stages for file in stage if not file.is_load}
        now = {file.key: file for file in self.bench.files(TABLE)}
        former = [
            file for stage in self.stages for file in stage if file.is_load and file != now.get(file.key)
        ]
        distinct = {(file.key, file.rows[0]["commit_ts"]): file for file in former}
        return oracle.change_log([*{**seen, **now}.values(), *distinct.values()], self.bench.columns(TABLE))

    def since(self, name: str, rows: list[dict[str, Any]], column: str) -> list[dict[str, Any]]:
        ends = read_position(self.bench.table(name)).history_from
        return [row for row in rows if ends is None or row[column] is None or row[column] >= ends]


@pytest.fixture
def story(spark: SparkSession, tmp_path: Path) -> Story:
    found = Story(tmp_path)
    found.load([1, 2, 3], NOON)
    found.change(("U", 1, "b"), ("D", 2, None))
    found.change(("U", 1, "c"), ("I", 4, "a"))
    return found


def test_the_window_on_either_side(story: Story) -> None:
    """A version that ended, or a change that was made, exactly a window ago stays; and so does what lasts."""
    rows = story.bench.stored("items_history")
    ended = sorted(row["_valid_to"] for row in rows if row["_valid_to"] is not None)
    assert len(ended) == 3
    assert story.trim(ended[0] + WINDOW)[Mode.HISTORY] == 0
    removed = story.trim(ended[1] + WINDOW)
    assert removed[Mode.HISTORY] == 1
    assert removed[Mode.CURRENT] == 0
    story.check("trimmed")
    assert story.trim(ended[0] + WINDOW)[Mode.HISTORY] == 0, "the time never goes back"
    assert story.trim(ended[2] + WINDOW + HOUR)[Mode.HISTORY] == 2
    story.check("trimmed again")
    assert {row["id"] for row in story.bench.stored("items_history")} == {1, 3, 4}
    assert all(row["_is_current"] for row in story.bench.stored("items_history"))


def test_marts_are_asked_to_follow(story: Story) -> None:
    """The commit names the days of the removed rows, in the columns that marts follow, and is maintenance's own."""
    target = replace(story.target(Mode.CHANGE_LOG), tracked=Tracked(days=("_commit_ts",)))
    story.change(("U", 1, "d"), after=2 * DAY)
    before = len(story.bench.rows("items_changes"))
    with patch("lake_assets.rounds.maintenance.datetime", Mock(now=lambda zone: NOON + DAY + WINDOW)):
        done = maintain_silver(story.bench.lake.runtime, (), target)
    assert done.error is None
    assert (done.rows_removed, len(story.bench.rows("items_changes"))) == (before - 1, 1)
    commits = (summary(snapshot) for snapshot in story.bench.table("items_changes").snapshots())
    touched = [
        own[name] for own in commits if HISTORY_FROM in own for name in own if name.startswith(TOUCHED_DAYS)
    ]
    assert touched == ["2026-03-01"]
    story.check("trimmed")


def test_maintenance_looks_once_a_day(story: Story) -> None:
    """However few files the tables have, and whether or not it finds rows to remove."""
    found: list[list[tuple[str, int]]] = []
    for at in (NOON, NOON + DAY - HOUR, NOON + DAY, NOON + 2 * DAY + WINDOW, NOON + 3 * DAY + WINDOW):
        clock = Mock(now=lambda zone, at=at: at, fromisoformat=datetime.fromisoformat)
        with (
            patch("lake_assets.rounds.maintenance.datetime", clock),
            patch("lake_assets.rounds.due_maintenance.datetime", clock),
        ):
            due = due_upkeep(story.bench.lake)
            assert all(each.reason == "rows that keep_history may no longer keep" for each in due)
            found.append(sorted((each.table, each.run().rows_removed) for each in due))
            assert due_upkeep(story.bench.lake) == []
    both = "silver_shop.items_changes", "silver_shop.items_history"
    nothing = [(table, 0) for table in both]
    assert found == [nothing, [], nothing, list(zip(both, (7, 3), strict=True)), nothing]
    story.check("trimmed")


def test_when_a_look_is_due(story: Story) -> None:
    """A day after the last one; after twice as long where a continuous run looks, too; at once for a shorter window."""
    target, now = story.target(Mode.HISTORY), NOON + DAY + WINDOW
    assert is_trim_due(target, story.bench.table("items_history"), now)
    assert story.trim(now)[Mode.HISTORY] == 3
    after = story.bench.table("items_history")
    due = [is_trim_due(target, after, now + later, times) for later in (DAY, 2 * DAY) for times in (1, 2)]
    assert due == [True, False, True, True]
    assert not is_trim_due(target, after, now + DAY - HOUR)
    story.bench.edit({TABLE: KEPT | {"keep_history": "29d"}})
    assert is_trim_due(story.target(Mode.HISTORY), after, now)
    story.bench.edit({TABLE: KEPT | {"keep_history": "31d"}})
    assert not is_trim_due(story.target(Mode.HISTORY), after, now + DAY)


def test_a_continuous_run_looks_before_it_rewrites_files(story: Story) -> None:
    """The sensor's run would race it."""
    target, runtime = story.target(Mode.HISTORY), story.bench.lake.runtime
    schedule = MaintenanceSchedule(runtime, [target], (), keep=5)
    schedule.committed(target.identifier, MAINTAIN_AFTER)
    now = datetime.now(UTC)
    assert schedule.maintain_next() is None, "too soon after the start"
    done = schedule.maintain_next()
    assert done is not None
    assert (done.error, done.rows_removed) == (None, 3)
    (left,) = (
        each
        for each in upkeep(story.bench.lake, shared=[target.identifier])
        if each.table == target.identifier
    )
    assert not left.health.history_due
    noted = story.bench.table("items_history").properties[HISTORY_TRIMMED_TO]
    assert now - WINDOW <= datetime.fromisoformat(noted) <= datetime.now(UTC) - WINDOW
    story.check("trimmed")


def test_a_failed_look_keeps_nothing_else_from_its_maintenance(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(*_: object) -> int:
        raise ApplyConflict("other commits came first")

    monkeypatch.setattr("lake_assets.rounds.maintenance.trim_history", failed)
    target = story.target(Mode.HISTORY)
    before = len(story.bench.table("items_history").snapshots())
    done = maintain_silver(story.bench.lake.runtime, (), target, keep_commits=1)
    assert "other commits came first" in str(done.error)
    assert (done.snapshots_before, done.snapshots_after < before) == (before, True)


@pytest.mark.parametrize(
    "edited", [{"columns": {**KEPT["columns"], "note": "string"}}, {"mask": {"v": "redact"}}]
)
def test_an_edited_table_waits_for_its_batch_or_rebuild(story: Story, edited: dict[str, Any]) -> None:
    """The commit would say that the columns, or the masks, had been applied."""
    before = read_position(story.bench.table("items_history"))
    story.bench.edit({TABLE: KEPT | edited})
    assert set(story.trim(story.clock.now + WINDOW + HOUR).values()) == {0}
    assert read_position(story.bench.table("items_history")) == before


def test_it_is_off_by_default(spark: SparkSession, tmp_path: Path) -> None:
    found = Story(tmp_path)
    found.bench.edit({TABLE: ITEMS | {"also": ["history"]}})
    found.load([1], NOON)
    found.change(("U", 1, "b"))
    assert set(found.trim(NOON + 1000 * DAY).values()) == {0}


def test_late_changes_of_removed_versions(story: Story) -> None:
    """The table has lost when key 2 was gone: a late batch reads it from the files of the epoch."""
    at = NOON + HOUR / 2
    story.change(("I", 2, "again"), after=40 * DAY)
    story.trim(story.clock.now + 2 * HOUR)
    story.check("trimmed")
    late = Clock(at)
    rows = [late.change("U", {"id": 2, "v": "late"}), late.change("U", {"id": 3, "v": "late"})]
    story.bench.put(cdc_file(TABLE, at + HOUR / 4, rows))
    story.bench.apply()
    story.check("late")
    for name in ("items_history", "items_changes"):
        story.bench.lake.runtime.catalog.drop_table(f"silver_shop.{name}")
    story.bench.apply()
    assert read_position(story.bench.table("items_history")).history_from is None
    story.check("loaded again: the files have all versions")


@pytest.mark.parametrize("seed", SEEDS)
def test_histories_by_chance(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    random, story = Random(seed), Story(tmp_path)
    story.load([1, 2, 3], NOON)
    removed = 0
    for number in range(12):
        step = random.choice(["change", "change", "late", "trim", "trim", "reload", "restore"])
        named = f"seed {seed}, step {number}, {step}"
        print(named)
        if step == "change":
            ops = [(random.choice("IUD"), random.randint(1, 5), f"{number}") for _ in range(2)]
            story.change(*(settled(story, op) for op in ops), after=random.choice([1, 20]) * DAY)
        elif step == "late":
            at = (
                story.clock.now
                - random.choice([2, 30]) * DAY
                + timedelta(milliseconds=random.randint(1, 10**7))
            )
            begun = max(file.rows[0]["commit_ts"] for file in story.bench.files(TABLE) if file.is_load)
            if at < begun + HOUR:
                continue
            late = Clock(at)
            rows = [late.change("U", {"id": random.randint(1, 5), "v": f"late {number}"})]
            story.bench.put(cdc_file(TABLE, at + HOUR / 4, rows))
            story.bench.apply()
        elif step == "trim":
            removed += sum(story.trim(story.clock.now + random.choice([5, 25]) * DAY).values())
        elif step == "reload":
            story.clock.now += 5 * DAY
            story.load(sorted(random.sample(range(1, 6), 3)), story.clock.now)
        else:
            target = story.target(random.choice([Mode.HISTORY, Mode.CHANGE_LOG]))
            found = [c for c in commits(story.bench.lake.runtime, target) if c.position is not None]
            go_back(story.bench.lake.runtime, target, random.choice(found[:2]))
            assert resume(story.bench.lake.runtime, target)
            story.bench.apply()
        story.check(named)
    story.trim(story.clock.now + 100 * DAY)
    story.check("last")


def settled(story: Story, change: tuple[str, int, str]) -> tuple[str, int, str | None]:
    op, key, value = change
    return op, key, None if op == "D" else value

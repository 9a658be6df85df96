"""Histories by chance, in which superseded files are deleted again and again: silver stays what all files say that ever
were there, no table stops, and a rebuild agrees.

`LAKE_HISTORIES=100:40` runs forty others, from seed 100 on. Here: reloads, late files, tags, restores and erasures
beside deletions. Not here: each of these alone (`rounds/test_superseded_files.py`).
"""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.erase.erase import Followers, erase
from lake_assets.commands.erase.erasure_plan import erasure_plan
from lake_assets.commands.history.time_travel import commits, go_back
from lake_assets.commands.run.maintain import maintain
from lake_assets.config import Mode
from lake_assets.rounds.superseded_files import former_files
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets.silver.table.pause import resume
from lake_assets.storage.local_store import LocalStore
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, sql

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("keep_little")]
FIRST, COUNT = (int(number) for number in os.environ.get("LAKE_HISTORIES", "0:4").split(":"))
SEEDS = [
    pytest.param(seed, marks=[pytest.mark.long] if seed > FIRST else [])
    for seed in range(FIRST, FIRST + COUNT)
]
STEPS = 14
TABLES: dict[str, dict[str, Any]] = {"public.items": ITEMS, "public.kept": ITEMS | {"also": ["change_log"]}}
"""The files of the second are all needed by its change log."""


class Story:
    """Two tables with the same changes."""

    def __init__(self, folder: Path, random: Random) -> None:
        settings = {"keep_superseded_files": "30d", "keep_snapshots": "0s"}
        self.bench = Bench(folder, TABLES, sections={"maintenance": settings})
        self.random, self.clock = random, Clock(NOON)
        self.alive: set[int] = set()
        self.next_key = 1
        self.loaded_at = NOON
        self.tags = self.deleted = self.reloads = self.values = 0

    def put(self, *files: Callable[[str], DmsFile]) -> None:
        self.bench.put(*(file(table) for table in TABLES for file in files))

    def reload(self) -> None:
        """Of one to three parts; the oracle knows the newest load only."""
        self.clock.now += timedelta(hours=self.random.choice([3, 30, 100]))
        self.loaded_at, self.reloads = self.clock.now, self.reloads + 1
        for key in [file.key for file in self.bench.bucket.values() if file.is_load]:
            del self.bench.bucket[key]
        parts = self.random.randint(1, 3)
        rows = [{"id": key, "v": f"L{self.reloads}"} for key in sorted(self.alive)]
        for part in range(1, parts + 1):
            own, at = rows[part - 1 :: parts], self.loaded_at + timedelta(seconds=part)
            self.put(lambda table, own=own, part=part, at=at: load_file(table, own, part=part, at=at))  # type: ignore[misc]
        self.clock.now += timedelta(hours=1)
        self.change()

    def change(self) -> None:
        self.clock.now += timedelta(hours=self.random.choice([1, 9]))
        rows = []
        for _ in range(self.random.randint(1, 3)):
            if self.alive and self.random.random() < 0.6:
                op, key = self.random.choice("UUD"), self.random.choice(sorted(self.alive))
            else:
                op, key, self.next_key = "I", self.next_key, self.next_key + 1
            (self.alive.discard if op == "D" else self.alive.add)(key)
            rows.append(self.clock.change(op, {"id": key, "v": None if op == "D" else self.value()}))
        self.put(lambda table: cdc_file(table, self.clock.now, rows))

    def value(self) -> str:
        """Short, because an erasure would find a longer one in the other table, too."""
        self.values += 1
        return f"{self.values}"

    def late(self) -> None:
        """A file of now or before the load, with a change that the source had then and has undone since."""
        at = self.random.choice([self.loaded_at + timedelta(minutes=30), self.loaded_at - timedelta(hours=8)])
        at += timedelta(milliseconds=self.random.randint(1, 99_999))
        clock, key = Clock(at - timedelta(minutes=1)), 100_000 + self.next_key
        self.next_key += 1
        rows = [clock.change("I", {"id": key, "v": "x"}), clock.change("D", {"id": key, "v": None})]
        self.put(lambda table: cdc_file(table, at, rows))

    def tag(self) -> None:
        self.tags += 1
        sql(self.bench, f"ALTER TABLE {{table}} CREATE TAG t{self.tags}")

    def untag(self) -> None:
        for name in [name for name in self.bench.table().metadata.refs if name.startswith("t")]:
            sql(self.bench, f"ALTER TABLE {{table}} DROP TAG {name}")

    def restore(self) -> None:
        runtime, target = self.bench.lake.runtime, self.bench.lake.targets[0]
        found = [commit for commit in commits(runtime, target) if commit.position is not None]
        go_back(runtime, target, self.random.choice(found))
        assert resume(runtime, target)

    def erase(self) -> None:
        """A key that the source has deleted, and its rows in all files that are there."""
        if not self.alive:
            return
        key = min(self.alive)
        self.alive.discard(key)
        self.clock.now += timedelta(hours=1)
        self.put(
            lambda table: cdc_file(table, self.clock.now, [self.clock.change("D", {"id": key, "v": None})])
        )
        self.bench.apply()
        target = self.bench.lake.targets[0]
        plan = erasure_plan(self.bench.lake, [target], [str(key)])
        assert erase(self.bench.lake, plan, Followers()).left == []
        for name, file in self.bench.bucket.items():
            if name.startswith("public/items/"):
                self.bench.bucket[name] = DmsFile(name, tuple(row for row in file.rows if row["id"] != key))

    def maintain(self) -> None:
        before, settings = self.objects(), self.bench.lake.config.maintenance
        object.__setattr__(settings, "keep_superseded_files", timedelta(0))
        errors = [one.error for one in maintain(self.bench.lake) if one.error is not None]
        assert errors == []
        due = former_files(self.bench.lake.runtime, "shop", datetime.now(UTC))
        assert not {each.file.path for one in due for each in one.files} & self.objects()
        object.__setattr__(settings, "keep_superseded_files", timedelta(days=30))
        gone = before - self.objects()
        assert not any(key.startswith("public/kept/") for key in gone)
        self.deleted += len(gone)

    def objects(self) -> set[str]:
        assert self.bench.location is not None
        return {obj.key for obj in LocalStore(str(self.bench.location)).list()}

    def check(self, step: str) -> None:
        self.bench.apply()
        for target in self.bench.lake.targets:
            if target.mode is Mode.CURRENT:
                assert self.bench.rows(target.name) == self.bench.truth(target.table), step

    def check_rebuilt(self, step: str) -> None:
        for target in self.bench.lake.targets:
            found = rebuild(self.bench.lake.runtime, target, publish=False)
            # The log alone has the rows of parts that a reload has overwritten.
            lost = 0 if target.mode is Mode.CURRENT else found.rows_only_before
            assert (found.rows_only_before, found.rows_only_after) == (lost, 0), f"{step}: {target.name}"


@pytest.mark.parametrize("seed", SEEDS)
def test_deletions_change_no_table(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    story = Story(tmp_path, random)
    story.alive = {1, 2, 3}
    story.next_key = 4
    story.reload()
    story.check("first load")
    steps = [
        *[story.change] * 3,
        *[story.reload] * 3,
        *[story.maintain] * 4,
        *[story.late] * 2,
        story.tag,
        story.untag,
        *[story.restore] * 2,
        story.erase,
    ]
    for number in range(STEPS):
        step = random.choice(steps)
        named = f"seed {seed}, step {number}, {step.__name__}"
        print(named)
        step()
        story.check(named)
        if step == story.maintain:
            story.check_rebuilt(named)
    story.untag()
    story.reload()
    story.check("last load")
    story.maintain()
    story.check("last maintenance")
    story.check_rebuilt("last maintenance")
    assert story.deleted, "otherwise it proves nothing"
    story.bench.lake.runtime.catalog.drop_table("silver_shop.items")
    story.check("loaded again")

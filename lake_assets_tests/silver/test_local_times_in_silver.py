"""Rows with local times that the clocks show twice or skip: quarantined, released by the setting, equal to the oracle.

Here: the whole engine, with such times as keys, before images and commit times. Not here: reading them
(`bronze/reader/test_clocks.py`).
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake_assets.commands.mend.quarantine_commands import chosen, retry
from lake_assets.config import Column
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets.silver.reduce.compare_rewritten import rows_of_commits
from lake_assets_tests.helpers.files.dms_files import (
    Clock,
    DmsFile,
    Row,
    cdc_file,
    load_file,
    transaction_file,
)
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.oracles import clocks

pytestmark = pytest.mark.spark
TABLE, ZONE = "public.items", "Europe/Berlin"
MIDNIGHT = datetime(2026, 10, 24, 22, tzinfo=UTC)
CONFIG = {
    "columns": {"at": "timestamptz not null", "v": "string"},
    "primary_key": ["at"],
    "also": ["change_log"],
    "quarantine": {"max_rows": 1000, "max_share": 1.0},
}
SKIPPED = "2026-03-29 02:30:00"


def changes_around(random: Random, clock: Clock, number: int, setting: str) -> list[Row]:
    """Changes of rows whose keys are instants of the night in which the clocks are set back, but not of the hour that
    the setting leaves out; committed at any time of that night."""
    left_out = MIDNIGHT + timedelta(hours=3 if setting == "earlier" else 2)
    night = [MIDNIGHT + timedelta(minutes=10 * n) for n in range(36)]
    keys = [at for at in night if not left_out <= at < left_out + timedelta(hours=1)]
    alive: list[datetime] = []
    found: list[Row] = []
    for version in range(number):
        clock.now += timedelta(minutes=random.randrange(1, 9))
        if alive and random.random() < 0.6:
            old = random.choice(alive)
            if random.random() < 0.3:
                alive.remove(old)
                found.append(clock.change("D", {"at": old, "v": None}))
                continue
            new = random.choice([old, random.choice(keys)])
            if new == old or new not in alive:
                alive[alive.index(old)] = new
                found.append(clock.change("U", {"at": new, "v": f"v{version}"}, {"at": old}))
                continue
        new = random.choice(keys)
        if new not in alive:
            alive.append(new)
            found.append(clock.change("I", {"at": new, "v": f"v{version}"}))
    return found


def seen(row: Row, setting: str | None) -> dict[str, Any] | None:
    """The row as it can be known from its local times; None if one of them is ambiguous and nothing decides it."""
    found = dict(row)
    for name in ("at", "BI_at", "commit_ts"):
        if not isinstance(value := row.get(name), datetime):
            continue
        local = value.astimezone(ZoneInfo(ZONE)).replace(tzinfo=None, fold=0)
        read = clocks.instants(ZONE, local)
        if len(read) > 1 and setting is None:
            return None
        found[name] = read[-1 if setting == "later" else 0]
    return found


def known(files: Mapping[str, DmsFile], setting: str | None) -> dict[str, DmsFile]:
    """What the oracle may know of the files."""
    rows = {key: tuple(seen(row, setting) for row in file.rows) for key, file in files.items()}
    return {key: DmsFile(key, tuple(row for row in of if row is not None)) for key, of in rows.items()}


def equal(bench: Bench, setting: str | None) -> None:
    real, bench.bucket = bench.bucket, known(bench.bucket, setting)
    assert bench.rows() == bench.truth()
    assert bench.rows("items_changes") == bench.truth(shape="change_log")
    bench.bucket = real


@pytest.mark.parametrize("parts", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_night_with_an_hour_twice(spark: SparkSession, tmp_path: Path, parts: int) -> None:
    """In so many batches; then the table says which hour, and the rows come back."""
    bench = Bench(tmp_path, {TABLE: CONFIG}, {"timestamp_zone": ZONE})
    clock = Clock(MIDNIGHT)
    bench.put(load_file(TABLE, [{"at": MIDNIGHT - timedelta(hours=1), "v": "loaded"}], at=MIDNIGHT))
    changes = changes_around(Random(45), clock, 40, "later")
    for n in range(parts):
        part = changes[n * len(changes) // parts : (n + 1) * len(changes) // parts]
        bench.put(cdc_file(TABLE, part[-1]["commit_ts"] + timedelta(minutes=1), part))
        bench.apply()
    doubled = [row for row in changes if seen(row, None) is None]
    assert len(doubled) > 10, "the night has them"
    held = bench.lake.runtime.quarantine.open("silver_shop.items")
    assert len(held) == len(doubled)
    assert all(
        "that the clocks of Europe/Berlin show twice: set ambiguous_times of the table" in h.reason
        for h in held
    )
    equal(bench, None)
    for target in bench.lake.targets[:parts]:
        assert rebuild(bench.lake.runtime, target, publish=False).equal, target.name
    bench.edit({TABLE: CONFIG | {"ambiguous_times": "later"}})
    retry(bench.lake.runtime, chosen(bench.lake.runtime, TABLE, []))
    bench.apply()
    assert bench.lake.runtime.quarantine.open("silver_shop.items") == []
    equal(bench, "later")


@pytest.mark.parametrize("setting", ["earlier", pytest.param("later", marks=pytest.mark.long)])
def test_whole_transactions(spark: SparkSession, tmp_path: Path, setting: str) -> None:
    config = CONFIG | {"ambiguous_times": setting}
    bench = Bench(
        tmp_path,
        {TABLE: config},
        {"timestamp_zone": ZONE, "preserve_transactions": True, "cdc_path": "cdc", "add_column_name": False},
    )
    clock = Clock(MIDNIGHT)
    bench.put(load_file(TABLE, [{"at": MIDNIGHT - timedelta(hours=1), "v": "loaded"}], at=MIDNIGHT))
    changes = changes_around(Random(46), clock, 40, setting)
    skipped = {"Op": "I", "commit_ts": clock.now, "at": SKIPPED, "v": "x", "change_seq": "9" * 35}
    rows = [(TABLE, row) for row in changes]
    bench.put(transaction_file(clock.now + timedelta(minutes=1), [*rows, (TABLE, skipped)]))
    bench.apply()
    (held,) = bench.lake.runtime.quarantine.open("silver_shop.items")
    assert held.reason == (
        f"at is a time that the clocks of {ZONE} skip (is timestamp_zone the source's?): '{SKIPPED}'"
    )
    (file,) = (file for file in bench.bucket.values() if file.has_transactions)
    bench.bucket[file.key] = DmsFile(file.key, file.rows[:-1])
    equal(bench, setting)


def test_the_machines_own_clock_has_no_say(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change log finds the rows of commits of an hour that the machine's clock shows twice."""
    hours = [int((MIDNIGHT + timedelta(hours=n)).timestamp()) for n in (2, 3)]
    rows = spark.createDataFrame([(hour,) for hour in hours], "hour long").select(
        F.timestamp_seconds("hour").alias("_commit_ts"),
        "hour",
        *(F.lit("").alias(n) for n in ("_op", "_sequence")),
    )
    target = SimpleNamespace(image_columns=[Column(name="hour", type="long")])
    with monkeypatch.context() as patched:
        patched.setenv("TZ", ZONE)
        time.tzset()
        found = rows_of_commits(cast(Any, SimpleNamespace(main=rows, target=target)), rows)
    time.tzset()
    assert sorted(row["_image"]["hour"] for row in found.select("_image").collect()) == hours

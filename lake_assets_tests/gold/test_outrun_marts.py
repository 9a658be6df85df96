"""A long run of a mart while another process stores partitions of the same mart, so that it loses every race.

Here: two processes, what they store and what is left to be computed; a day that has gone meanwhile. Not here: two runs
that plan whole tables (`orchestration/io_managers/test_io_manager.py`), backfills of Dagster
(`orchestration/test_backfills.py`).
"""

import contextlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lake_assets.errors import ApplyConflict
from lake_assets.gold.mart import MartRequest
from lake_assets.gold.write import write_mart
from lake_assets.orchestration.assets.mart_runs import MartRun, mart_work
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets_tests.gold.test_random_marts import FIRST_DAY, MOVED, RENTS, TABLE
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.bike_lake import BikeLake, at, days, trip
from lake_assets_tests.helpers.marts.direct_runs import run_marts
from lake_assets_tests.helpers.marts.rides_outrun import GO, MART, READY, STOP, outrun
from lake_assets_tests.helpers.oracles.mart_oracle import midnight
from lake_assets_tests.helpers.processes.child import ROOT, environment

pytestmark = pytest.mark.spark
LAST = 8
PATIENCE = 120


@pytest.mark.parametrize("process", ["this", pytest.param("another", marks=pytest.mark.long)])
def test_a_run_that_others_outrun_stores_what_it_has_computed(
    spark: SparkSession, tmp_path: Path, process: str
) -> None:
    """By another lake object in this process, which stores two days once, or by a process that goes on and on."""
    bikes = BikeLake(tmp_path)
    bikes.restart([MART])
    bikes.clock = at(LAST)
    bikes.load("trips", at(1), [trip(number, at(number), None) for number in range(1, LAST + 1)])
    assert bikes.apply("trips").success
    assert bikes.compute() == {"rides": days(*range(1, LAST + 1))}
    computed: list[tuple[date, date]] = []

    def slow(request: MartRequest) -> DataFrame:
        """Two late trips land; ends when the others have applied them, and stored two days."""
        if not computed:
            bikes.change(
                at(LAST), ("trips", "I", trip(21, at(3), None)), ("trips", "I", trip(22, at(5), None))
            )
            (tmp_path / GO).touch()
            if process == "this":
                outrun(others)
        computed.append(request.days)
        wait_until(lambda: commits(bikes) >= before + 2 * len(computed))
        return MART.compute(request)

    others = BikeLake(tmp_path, catalog=bikes.lake.config.catalog.name)
    others.restart([MART])
    with another_process(bikes) if process == "another" else contextlib.nullcontext():
        bikes.restart([replace(MART, compute=slow)])
        before = commits(bikes)
        run = bikes.run(MartRun(("rides",), (at(1).date(), at(LAST).date())))
    assert run.success
    assert computed == [(at(1).date(), at(LAST).date())], "it has not computed again"
    assert bikes.requested() == {"rides": days(5)}, "the third day is up to date"
    assert rides(bikes) == dict.fromkeys(days(*range(1, LAST + 1)), 1) | dict.fromkeys(days(3), 2)
    bikes.restart([MART])
    assert bikes.compute() == {"rides": days(5)}
    found = Counter(row["started_at"].date() for row in bikes.silver("trips"))
    assert rides(bikes) == found == dict.fromkeys(days(*range(1, LAST + 1)), 1) | dict.fromkeys(days(3, 5), 2)


def test_a_day_that_has_lost_its_rows_since(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither silver nor the stored mart have the day any more, and no commit names it, because silver was applied
    without the mart in its lake: a run that had computed the day does not store it."""
    bench, clock = Bench(tmp_path, {RENTS: TABLE}), Clock()
    lake, other = (open_lake(bench.lake.config, marts=(MOVED,)) for _ in range(2))
    rent = {"id": 1, "began": midnight(FIRST_DAY), "ended": None, "paid": 1}
    bench.put(load_file(RENTS, [rent, rent | {"id": 2, "began": midnight(FIRST_DAY + timedelta(days=1))}]))
    bench.apply()
    (both,) = mart_work(lake.runtime, lake.marts).runs
    store = write_mart._publish

    def others_first(*given: Any) -> Any:
        patched.undo()
        bench.put(cdc_file(RENTS, clock.now + timedelta(minutes=1), [clock.change("D", {"id": 2})]))
        bench.apply()
        for run in mart_work(other.runtime, other.marts).runs:
            run_marts(other, run)
        return store(*given)

    with monkeypatch.context() as patched:
        patched.setattr(write_mart, "_publish", others_first)
        with pytest.raises(ApplyConflict):
            run_marts(lake, both)
    assert not mart_work(lake.runtime, lake.marts).runs
    stored = lake.runtime.catalog.load_table(MOVED.identifier).scan().to_arrow().to_pylist()
    assert stored == [{"day": FIRST_DAY, "begun": 1, "paid": 0}]


@contextmanager
def another_process(bikes: BikeLake) -> Iterator[None]:
    """Inside the block, another process is ready, and afterwards it has ended well."""
    module = "lake_assets_tests.helpers.marts.rides_outrun"
    arguments = [sys.executable, "-m", module, str(bikes.folder), bikes.lake.config.catalog.name]
    with subprocess.Popen(arguments, cwd=ROOT, env=environment()) as process:
        try:
            wait_until(lambda: (bikes.folder / READY).exists() or process.poll() is not None)
            yield
            (bikes.folder / STOP).touch()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits for it, at most PATIENCE seconds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def commits(bikes: BikeLake) -> int:
    return len(bikes.lake.runtime.catalog.load_table("gold.rides").history())


def rides(bikes: BikeLake) -> dict[object, int]:
    return {row["day"]: row["rides"] for row in bikes.rows("gold.rides")}

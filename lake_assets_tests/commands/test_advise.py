"""The calculator of what freshness costs: its arithmetic, and that it moves the way the lake does.

Here: the figures, and the command. Not here: whether the measured parts are still true (`benchmarks/latency.py`).
"""

import re
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
import yaml
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lake_assets.cli import app
from lake_assets.commands.setup import advise_cli
from lake_assets.commands.setup.advise import (
    GET_DOLLARS,
    PUT_DOLLARS,
    Knobs,
    Workload,
    alternatives,
    estimate,
    lists_a_scan,
)
from lake_assets.commands.show.measured_rates import FEWEST, batch_seconds, measured
from lake_assets.silver.batch_log.batch_row import committed_batches
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.files.records import logged
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.orchestration.kept_lake import ITEMS, TABLE

DAY = 86_400
WORK = Workload(tables=10, busy=5, changes=10)


def test_files_come_by_interval_or_by_size() -> None:
    told = estimate(WORK, Knobs(batch_interval=60))
    assert (told.file_every, told.to_file) == (60, 31)
    assert told.files_a_day == pytest.approx(5 * DAY / 60)
    # 10 changes of 200 bytes a second fill 20 kB in ten seconds.
    assert estimate(WORK, Knobs(batch_interval=60, min_file_kb=20)).file_every == 10
    quiet = estimate(replace(WORK, changes=1 / 3600), Knobs(batch_interval=60))
    assert quiet.files_a_day == pytest.approx(5 * 24, rel=0.02), "no change, no file"


def test_a_commit_takes_all_that_landed_during_the_round_before() -> None:
    slow, fast = estimate(WORK, Knobs(batch_interval=1)), estimate(WORK, Knobs(batch_interval=60))
    assert slow.round_seconds == pytest.approx(0.4 + 5 * 0.3 / 2)
    assert slow.commits_a_day == pytest.approx(5 * DAY / slow.round_seconds)
    assert fast.commits_a_day == fast.files_a_day
    assert fast.round_seconds < slow.round_seconds
    assert estimate(WORK, Knobs(batch_interval=1, cores=8)).to_silver < slow.to_silver
    assert estimate(WORK, Knobs(batch_interval=1, continuous=False, interval=0.5)).to_mart > slow.to_mart


def test_batches_that_take_longer_make_longer_rounds() -> None:
    told = estimate(replace(WORK, batch_seconds=2.0), Knobs(batch_interval=1))
    assert told.round_seconds == pytest.approx(0.4 + 5 * 2.0 / 2)


def test_looks_cost_a_request_a_thousand_files_until_there_are_many() -> None:
    scans = [lists_a_scan(replace(WORK, files=files)) for files in (0, 1000, 1001, 5000, 5001, 10**6)]
    assert scans == [1, 1, 2, 5, 20, 20]
    assert lists_a_scan(Workload(1000, 5, 1, files=10**6)) == 210
    told = estimate(replace(WORK, files=0), Knobs(continuous=False, interval=0.5))
    assert told.lists_a_day == 2 * DAY
    puts = PUT_DOLLARS * (told.lists_a_day + told.puts_a_day)
    assert told.dollars_a_month == pytest.approx(30 * (puts + GET_DOLLARS * told.gets_a_day))


def test_alternatives_differ_in_one_thing() -> None:
    for knobs in (Knobs(), Knobs(continuous=False, interval=0.5)):
        first, *others = alternatives(knobs)
        assert first == knobs
        assert knobs not in others
        assert {other.batch_interval for other in others} >= {1, 5, 15, 300}
        assert {other.continuous for other in others} == {True, False}
        assert any(other.cores == 2 * knobs.cores for other in others)


def test_the_command_reads_the_lake(tmp_path: Path) -> None:
    table = {"columns": {"id": "long not null"}, "primary_key": ["id"]}
    config = {
        "catalog": {"uri": str(tmp_path / "catalog.db"), "warehouse": str(tmp_path / "warehouse")},
        "sources": {
            "shop": {
                "location": str(tmp_path),
                "tables": {f"public.t{number}": table for number in range(7)},
            }
        },
        "automation": {"continuous": {"interval": "5s"}},
    }
    path = tmp_path / "lake.yaml"
    path.write_text(yaml.safe_dump(config))
    runner = CliRunner()
    told = runner.invoke(app, ["--config", str(path), "advise", "--batch-interval", "10", "--files", "99"])
    assert told.exit_code == 0, told.output
    assert "shop: 7 tables, 7 with 1 change a second, 99 files in the bucket" in told.output
    lines = told.output.splitlines()
    first = lines[next(place for place, line in enumerate(lines) if "───" in line) + 1]
    cells = re.split(r"\s{2,}", first.strip())
    assert cells[:4] == ["10 s", "continuous", "5 s", "2"]
    assert cells[6] == "+0.4 s"
    wrong = runner.invoke(app, ["--config", str(path), "advise", "--source", "else"])
    assert wrong.exit_code != 0


def test_the_workload_is_measured_unless_it_is_given() -> None:
    log = [
        logged(2 * step + place, f"{table}/{step}.csv", minute=step / 6, table=table, rows=20, size=2_000)
        for step in range(31)
        for place, table in ((1, "trips"), (2, "bikes"))
    ]
    rates = measured(log)
    assert rates is not None
    assert (rates.files, rates.busy, rates.row_bytes, rates.file_every) == (62, 2, 100, 10.0)
    assert rates.changes == pytest.approx(31 * 20 / 300)
    # Of the newest day only, and not of full loads.
    early = logged(100, "members/1.csv", minute=-3 * 24 * 60, table="members", rows=1_000_000)
    load = logged(101, "members/LOAD1.csv", table="members", rows=1_000_000)
    assert measured([*log, early, load]) == rates
    assert measured(log[:5]) is None
    assert measured([]) is None


@pytest.mark.spark
def test_the_seconds_of_a_batch_are_those_of_the_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, clock = Bench(tmp_path, {ITEMS: TABLE}), Clock()
    bench.put(load_file(ITEMS, [{"id": 1, "v": "old"}]))
    bench.apply()
    seconds = []
    for number in range(FEWEST):
        assert batch_seconds(committed_batches(bench.table())) is None
        bench.put(cdc_file(ITEMS, clock.now, [clock.change("I", {"id": 10 + number, "v": "new"})]))
        began = time.perf_counter()
        assert len(bench.apply()["items"]) == 1
        seconds.append(time.perf_counter() - began)
    found = batch_seconds(committed_batches(bench.table()))
    assert found is not None
    assert found[1] == FEWEST, "the full load is not one of them"
    assert 0.2 * median(seconds) < found[0] < median(seconds), "the turn looks for files, too"
    monkeypatch.setattr(advise_cli, "lake_of", lambda context: bench.lake)
    (tmp_path / "lake.yaml").touch()
    told = CliRunner().invoke(app, ["--config", str(tmp_path / "lake.yaml"), "advise"])
    assert f"A batch took {found[0]:.3g} s, for half of {FEWEST} batches of changes." in told.output

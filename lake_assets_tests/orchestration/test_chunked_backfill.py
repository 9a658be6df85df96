"""A backfill from the command line: partitions in chunks, killed in the middle, continued by `sync`; its process
killed beside another one that applies files.

Not here: backfills of Dagster's UI, beside a feed (`test_backfills.py`).
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.config.config_file import load_lake
from lake_assets.errors import LakeError
from lake_assets.gold.mart import Follow, Input, Mart, MartRequest
from lake_assets.gold.periods.grain import Grain, between
from lake_assets.iceberg.publish import Attempt
from lake_assets.orchestration.backfill import backfill
from lake_assets.orchestration.sync import sync
from lake_assets.spark.connect.connect_server import ConnectServer
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.lakes.bike_lake import BikeLake, at, status
from lake_assets_tests.helpers.lakes.command_lake import command_lake, rows_of, snapshots
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS_HEADER, TINY, sequence, write_file
from lake_assets_tests.helpers.processes.child import environment, output_of, run_python
from lake_assets_tests.helpers.processes.faults import Killed

pytestmark = pytest.mark.spark

FIRST = at(1, "00:00")


def versioned(version: int) -> Mart:
    """A mart whose rows say which version of its code has computed them."""

    def compute(request: MartRequest) -> Any:
        first, last = (F.lit(hour.isoformat()).cast("timestamp") for hour in request.hours or ())
        hours = F.explode(F.sequence(first, last, F.expr("INTERVAL 1 HOUR"))).alias("hour")
        return request.inputs["changes"].limit(1).select(hours, F.lit(version).alias("version"))

    return Mart(
        name="versions",
        description="Which version has computed each hour.",
        inputs={
            "changes": Input("bikeshare", "station_status_changes", Follow.PARTITION_ONWARDS, "_commit_ts")
        },
        columns=(parse_column("hour", "timestamptz not null"), parse_column("version", "int not null")),
        compute=compute,
        partition_column="hour",
        partitions=Grain.HOUR,
    )


def versions(bikes: BikeLake) -> list[int]:
    """By hour, in order."""
    rows = sorted(bikes.rows("gold.versions"), key=lambda row: row["hour"])
    assert [row["hour"] for row in rows] == between(Grain.HOUR, FIRST, rows[-1]["hour"])
    return [row["version"] for row in rows]


@pytest.mark.parametrize(("hours", "chunk"), [(100, 30), pytest.param(1_000, 300, marks=pytest.mark.long)])
def test_partitions_in_chunks_killed_and_continued(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int, chunk: int
) -> None:
    bikes, end = BikeLake(tmp_path), FIRST + timedelta(hours=hours - 1)
    bikes.restart([versioned(1)])
    bikes.load("station_status", FIRST, [status(1, 3, FIRST)])
    bikes.change(end, ("station_status", "U", status(1, 2, end)))
    assert bikes.apply("station_status", "station_status_changes").success
    first, last = (Grain.HOUR.key(hour) for hour in (FIRST, end))
    with pytest.raises(LakeError, match="are to be computed already"):
        list(backfill(bikes.lake, bikes.instance, "versions", first, last))
    for run in bikes.work().runs:
        assert bikes.run(run).success
    assert versions(bikes) == [1] * hours

    bikes.restart([versioned(2)])
    assert bikes.work().runs == ()
    publish, published = Attempt.publish, []

    def dies(self: Attempt) -> None:
        """In the second chunk: the first publish is of what is requested."""
        published.append(self)
        if len(published) == 3:
            raise Killed
        publish(self)

    with monkeypatch.context() as patched:
        patched.setattr(Attempt, "publish", dies)
        with pytest.raises((Killed, LakeError)):
            list(backfill(bikes.lake, bikes.instance, "gold/versions", first, last, chunk))
    assert len(published) == 3
    assert versions(bikes) == [2] * chunk + [1] * (hours - chunk)

    bikes.restart([versioned(2)])
    (left,) = bikes.work().runs
    assert left.periods == (FIRST + timedelta(hours=chunk), end), "and only those"
    result = sync(bikes.lake, bikes.instance)
    assert (result.failed, set(result.marts)) == ({}, {"versions"})
    assert versions(bikes) == [2] * hours

    bikes.restart([versioned(3)])
    third = Grain.HOUR.key(at(1, "02:00"))
    done = list(backfill(bikes.lake, bikes.instance, "versions", first, third, 2))
    assert [number for _, _, number in done] == [2, 1]
    assert (done[0][0], done[-1][1]) == (first, third)
    assert versions(bikes) == [3] * 3 + [2] * (hours - 3)
    assert bikes.work().runs == ()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ("version", "2024-03-01-00:00", "2024-03-01-01:00"),
            "no mart version with partitions; there are versions",
        ),
        (
            ("versions", "2024-03-01", "2024-03-02"),
            "must be keys of partitions by hour, such as 2024-03-01-00:00",
        ),
        (("versions", "2024-02-29-23:00", "2024-03-01-01:00"), "the first one is 2024-03-01-00:00"),
        (("versions", "2024-03-02-00:00", "2024-03-01-00:00"), "has no partitions from"),
    ],
)
def test_partitions_that_there_are_not(tmp_path: Path, arguments: tuple[str, str, str], problem: str) -> None:
    bikes = BikeLake(tmp_path)
    bikes.restart([versioned(1)])
    with pytest.raises(LakeError, match=problem):
        list(backfill(bikes.lake, bikes.instance, *arguments))


BY_DAY = """\
/*
description: What was sold in a day.
follow:
  silver_shop.items: {day: at}
columns:
  day: date not null
  items: long not null
  price: decimal(20, 2)
  version: int not null
*/
SELECT to_date(at) AS day, count(*) AS items, sum(price) AS price, 1 AS version FROM silver_shop.items
WHERE at >= :start AND at < :end GROUP BY to_date(at)
"""
DAYS = 16
Item = tuple[int, int]
"""The day in March and the price."""


@pytest.fixture
def sold(tmp_path: Path) -> Iterator[Path]:
    """A lake with a mart by day, whose processes share a Spark Connect server."""
    (tmp_path / "by_day.sql").write_text(BY_DAY, encoding="utf-8")
    spark = {
        "mode": "connect",
        "remote": f"sc://127.0.0.1:{free_port()}",
        "conf": {**TINY, "spark.driver.memory": "1g"},
    }
    gold = {"start_date": "2026-03-01", "marts": [str(tmp_path / "by_day.sql")]}
    folder = command_lake(tmp_path, tables=("public.items",), gold=gold, spark=spark)
    server = ConnectServer(load_lake(folder / "lake.yaml"), folder)
    server.start()
    yield folder
    server.stop()


def command(folder: Path, *arguments: str) -> list[str]:
    return ["-m", "lake_assets.cli", "--config", str(folder / "lake.yaml"), *arguments]


def put_items(folder: Path, number: int, items: Mapping[int, Item]) -> None:
    """A file with these items, by their key: a full load, or the changes of that minute."""
    commit = f"2026-03-30 {'12' if number else '00'}:{number:02d}:00.000000"
    rows = [
        f"{'U' if number > 1 else 'I'},{commit},{key},n,{price}.00,2026-03-{day:02d} 10:00:00.000000,"
        f"{sequence(100 * number + key, 30) if number else ''},"
        for key, (day, price) in items.items()
    ]
    name = f"20260330-12{number:02d}00000" if number else "LOAD00000001"
    write_file(folder, f"public/items/{name}.csv", [ITEMS_HEADER, *rows])


@pytest.mark.long
def test_a_killed_process_beside_one_that_applies_files(sold: Path) -> None:
    """kill -9 while it computes; a `sync` applies changes of days that are done, of days that are not, and of a new
    one. Each day is of the new code and of all
    files then, and after the same command again."""
    items = {key: (key, key) for key in range(1, DAYS + 1)}
    put_items(sold, 0, {1: items[1]})
    put_items(sold, 1, dict([*items.items()][1:]))
    output_of(run_python(*command(sold, "sync"), timeout=120))
    query = sold / "by_day.sql"
    query.write_text(
        query.read_text(encoding="utf-8").replace("1 AS version", "2 AS version"), encoding="utf-8"
    )
    config = load_lake(sold / "lake.yaml")
    (before,) = snapshots(config, "silver_shop.items")
    again = command(sold, "backfill", "by_day", "2026-03-01", f"2026-03-{DAYS}", "--chunk", "1")
    with subprocess.Popen(
        [sys.executable, *again], env=environment(), stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline().startswith("1 partition from 2026-03-01")
        changed = {1: (1, 100), DAYS // 2: (DAYS, 200), DAYS: (DAYS + 1, 300)}
        put_items(sold, 2, changed)
        with subprocess.Popen([sys.executable, *command(sold, "sync")], env=environment()) as beside:
            while snapshots(config, "silver_shop.items") == [before]:
                time.sleep(0.1)
            assert killed.stdout.readline(), "it goes on with the new rows"
            killed.send_signal(signal.SIGKILL)
            assert beside.wait(120) == 0
        assert killed.wait(10) == -signal.SIGKILL
    whole: dict[date, tuple[int, Decimal, int]] = {}
    for day, price in (items | changed).values():
        number, total, _ = whole.get(date(2026, 3, day), (0, Decimal(0), 2))
        whole[date(2026, 3, day)] = (number + 1, total + price, 2)

    def found() -> dict[date, tuple[int, Decimal, int]]:
        rows = rows_of(config, "gold.by_day")
        return {row["day"]: (row["items"], row["price"], row["version"]) for row in rows}

    output_of(run_python(*command(sold, "sync"), timeout=120))
    assert found() == whole, "what the killed process has left is computed by any other"
    output_of(run_python(*again, timeout=240))
    assert "Nothing was pending" in output_of(run_python(*command(sold, "sync"), timeout=120))
    assert found() == whole

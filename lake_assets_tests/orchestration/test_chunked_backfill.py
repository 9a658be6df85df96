"""A backfill from the command line: 1,000 partitions in chunks, killed in the middle, continued by `sync`.

Not here: backfills of Dagster's UI, beside a feed (`test_backfills.py`).
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.errors import LakeError
from lake_assets.gold.mart import Follow, Input, Mart, MartRequest
from lake_assets.gold.periods.grain import Grain, between
from lake_assets.iceberg.publish import Attempt
from lake_assets.orchestration.backfill import backfill
from lake_assets.orchestration.sync import sync
from lake_assets_tests.helpers.lakes.bike_lake import BikeLake, at, status
from lake_assets_tests.helpers.processes.faults import Killed

pytestmark = pytest.mark.spark

HOURS, CHUNK = 1_000, 300
LAST = at(1, "00:00") + timedelta(hours=HOURS - 1)


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
    assert [row["hour"] for row in rows] == between(Grain.HOUR, at(1, "00:00"), LAST)
    return [row["version"] for row in rows]


def test_a_thousand_partitions_in_chunks_killed_and_continued(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bikes = BikeLake(tmp_path)
    bikes.restart([versioned(1)])
    bikes.load("station_status", at(1, "00:00"), [status(1, 3, at(1, "00:00"))])
    bikes.change(LAST, ("station_status", "U", status(1, 2, LAST)))
    assert bikes.apply("station_status", "station_status_changes").success
    first, last = (Grain.HOUR.key(hour) for hour in (at(1, "00:00"), LAST))
    with pytest.raises(LakeError, match="are to be computed already"):
        list(backfill(bikes.lake, bikes.instance, "versions", first, last))
    for run in bikes.work().runs:
        assert bikes.run(run).success
    assert versions(bikes) == [1] * HOURS

    bikes.restart([versioned(2)])
    assert bikes.work().runs == ()
    publish, published = Attempt.publish, []

    def dies(self: Attempt) -> int:
        """In the second chunk: the first publish is of what is requested."""
        published.append(self)
        if len(published) == 3:
            raise Killed
        return publish(self)

    with monkeypatch.context() as patched:
        patched.setattr(Attempt, "publish", dies)
        with pytest.raises((Killed, LakeError)):
            list(backfill(bikes.lake, bikes.instance, "gold/versions", first, last, CHUNK))
    assert len(published) == 3
    assert versions(bikes) == [2] * CHUNK + [1] * (HOURS - CHUNK)

    bikes.restart([versioned(2)])
    (left,) = bikes.work().runs
    assert left.periods == (at(1, "00:00") + timedelta(hours=CHUNK), LAST), "and only those"
    result = sync(bikes.lake, bikes.instance)
    assert (result.failed, set(result.marts)) == ({}, {"versions"})
    assert versions(bikes) == [2] * HOURS

    bikes.restart([versioned(3)])
    third = Grain.HOUR.key(at(1, "02:00"))
    done = list(backfill(bikes.lake, bikes.instance, "versions", first, third, 2))
    assert [number for _, _, number in done] == [2, 1]
    assert (done[0][0], done[-1][1]) == (first, third)
    assert versions(bikes) == [3] * 3 + [2] * (HOURS - 3)
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

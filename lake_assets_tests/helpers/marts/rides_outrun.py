"""Rides by day, and a process that stores one day of them again and again.

Started as a module with the lake's folder and the catalog's name: when the file GO is there, the process applies what
has landed, computes the mart's third day, and then its first one until the file STOP is there.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.gold.mart import Follow, Input, Mart, MartRequest
from lake_assets.orchestration.assets.mart_runs import MartRun
from lake_assets_tests.helpers.lakes.bike_lake import BikeLake, at

READY, GO, STOP = "ready", "go", "stop"


def compute(request: MartRequest) -> DataFrame:
    """One row per day on which a ride started."""
    rides = request.inputs["trips"].filter(request.within("started_at"))
    return rides.groupBy(F.to_date("started_at").alias("day")).agg(F.count(F.lit(1)).alias("rides"))


MART = Mart(
    name="rides",
    description="Rides by day.",
    inputs={"trips": Input("bikeshare", "trips", Follow.DAY, "started_at")},
    columns=(parse_column("day", "date not null"), parse_column("rides", "long not null")),
    compute=compute,
)


def one_day(day: int) -> MartRun:
    """The run of a day of March 2024."""
    return MartRun(("rides",), (at(day).date(), at(day).date()))


def outrun(bikes: BikeLake) -> None:
    """Applies what has landed, and stores the third day and the first one."""
    assert bikes.apply("trips").success
    for day in (3, 1):
        assert bikes.run(one_day(day)).success


def main(folder: Path, catalog: str) -> None:
    """What the module's docstring says."""
    bikes = BikeLake(folder, catalog=catalog)
    bikes.restart([MART])
    bikes.lake.runtime.sessions.root().sql("SELECT 1").collect()
    (folder / READY).touch()
    while not (folder / GO).exists():
        time.sleep(0.05)
    outrun(bikes)
    while not (folder / STOP).exists():
        assert bikes.run(one_day(1)).success


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

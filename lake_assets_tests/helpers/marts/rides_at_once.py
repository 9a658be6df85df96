"""Rides by day, with a version: changing it is changing the mart's code. No run computes while it is held.

Here: a mart whose backfills compute all of their days in one run. Not here: a run for each day (`rides_by_day.py`).
"""

import time
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.gold.mart import Follow, Input, Mart, MartRequest

VERSION, HOLD = Path("version"), Path("hold")
"""Files of the working directory: the version, and one that holds all runs."""


def held_version() -> int:
    """The version, once nothing holds the run."""
    while HOLD.exists():
        time.sleep(0.1)
    return int(VERSION.read_text())


def compute(request: MartRequest) -> DataFrame:
    """One row per day on which a ride started."""
    version = held_version()
    day = F.to_date("started_at").alias("day")
    rides = request.inputs["trips"].filter(request.within("started_at")).groupBy(day)
    return rides.agg(F.count(F.lit(1)).alias("rides"), F.lit(version).alias("version"))


MART = Mart(
    name="rides_at_once",
    description="Rides by day.",
    inputs={"trips": Input("bikeshare", "trips", Follow.DAY, "started_at")},
    columns=(
        parse_column("day", "date not null"),
        parse_column("rides", "long not null"),
        parse_column("version", "int not null"),
    ),
    compute=compute,
)

"""The rides of `rides_at_once.py` by hour, in backfills with a run for 250 hours."""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.gold.mart import MartRequest
from lake_assets.gold.periods.grain import Grain
from lake_assets_tests.helpers.marts.rides_at_once import MART as RIDES
from lake_assets_tests.helpers.marts.rides_at_once import held_version


def compute(request: MartRequest) -> DataFrame:
    """One row per hour in which a ride started."""
    version = held_version()
    hour = F.date_trunc("hour", "started_at").alias("hour")
    rides = request.inputs["trips"].filter(request.within("started_at")).groupBy(hour)
    return rides.agg(F.count(F.lit(1)).alias("rides"), F.lit(version).alias("version"))


MART = replace(
    RIDES,
    name="rides_by_hour",
    columns=(parse_column("hour", "timestamptz not null"), *RIDES.columns[1:]),
    compute=compute,
    partition_column="hour",
    partitions=Grain.HOUR,
    days_per_run=250,
)

"""Each station's day: trips out and in, minutes without a bike, breaches of the empty-rack limit.

Days are UTC. Trips out count on the day they started, trips in on the day they ended. A spell without bikes counts
its minutes on the days it covers, and its breach on the day on which the limit was passed.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.demo.marts.empty_spells import RackSettings, empty_spells
from lake_assets.gold.mart import Follow, Input, Mart, MartRequest


def compute(request: MartRequest) -> DataFrame:
    """One row per station of the stations table and day; zeros where nothing happened."""
    first, last = request.days
    days = request.inputs["stations"].select(
        "station_id",
        "name",
        "district",
        F.explode(F.sequence(F.lit(first), F.lit(last))).alias("day"),
    )
    trips_out = _count(request, "start_station_id", "started_at", "trips_out")
    trips_in = _count(request, "end_station_id", "ended_at", "trips_in")
    empty = _empty_minutes(request, days.select("day").distinct())
    joined = days
    for part in (trips_out, trips_in, empty):
        joined = joined.join(part, ["station_id", "day"], "left")
    return joined.select(
        "day",
        "station_id",
        "name",
        "district",
        *(F.coalesce(c, F.lit(0)).cast("bigint").alias(c) for c in ("trips_out", "trips_in")),
        *(F.coalesce(c, F.lit(0.0)).alias(c) for c in ("minutes_empty", "longest_empty_minutes")),
        F.coalesce("empty_limit_breaches", F.lit(0)).cast("bigint").alias("empty_limit_breaches"),
    )


def _count(request: MartRequest, station: str, moment: str, name: str) -> DataFrame:
    return (
        request.inputs["trips"]
        .filter(F.col(station).isNotNull() & request.within(moment))
        .groupBy(F.col(station).alias("station_id"), F.to_date(moment).alias("day"))
        .agg(F.count(F.lit(1)).alias(name))
    )


def _empty_minutes(request: MartRequest, days: DataFrame) -> DataFrame:
    spells = empty_spells(request.inputs["status_changes"], request.now)
    day_start = F.unix_micros(F.col("day").cast("timestamp"))
    day_end = F.unix_micros(F.date_add("day", 1).cast("timestamp"))
    limit = RackSettings.model_validate(request.settings).empty_rack_limit_minutes * 60_000_000
    start, end = F.unix_micros("started_at"), F.unix_micros("ended_at")
    within = F.greatest(F.lit(0), F.least(end, day_end) - F.greatest(start, day_start))
    passed = start + limit
    breach = (end >= passed) & (passed >= day_start) & (passed < day_end)
    return (
        spells.join(F.broadcast(days), (start < day_end) & (end >= day_start))
        .groupBy("station_id", "day")
        .agg(
            F.round(F.sum(within) / 60e6, 3).alias("minutes_empty"),
            F.round(F.max(within) / 60e6, 3).alias("longest_empty_minutes"),
            F.count_if(breach).alias("empty_limit_breaches"),
        )
    )


MART = Mart(
    name="station_daily",
    description=(
        "Per station and day (UTC): trips out and in, minutes without a bike, the longest such spell within the day, "
        "and how often the empty-rack limit was passed."
    ),
    inputs={
        "trips": (
            Input("bikeshare", "trips", Follow.DAY, "started_at"),
            Input("bikeshare", "trips", Follow.DAY, "ended_at"),
        ),
        "stations": Input("bikeshare", "stations"),
        "status_changes": Input("bikeshare", "station_status_changes", Follow.DAY_ONWARDS, "_commit_ts"),
    },
    columns=(
        parse_column("day", "date not null"),
        parse_column("station_id", "int not null"),
        parse_column("name", "string"),
        parse_column("district", "string"),
        parse_column("trips_out", "long not null"),
        parse_column("trips_in", "long not null"),
        parse_column("minutes_empty", "double not null"),
        parse_column("longest_empty_minutes", "double not null"),
        parse_column("empty_limit_breaches", "long not null"),
    ),
    compute=compute,
    settings=RackSettings,
    comments={
        "day": "The day, UTC",
        "station_id": "The station's number",
        "name": "The station's name at present",
        "district": "The station's district at present",
        "trips_out": "Trips that started here on this day",
        "trips_in": "Trips that ended here on this day",
        "minutes_empty": "Minutes of the day without a bike",
        "longest_empty_minutes": "The longest spell without a bike, as far as it lies in the day",
        "empty_limit_breaches": "How often a spell passed the empty-rack limit on this day",
    },
    owners=("team:operations",),
)

"""Each station's hour: for how long bikes and docks were available, and how many bikes there were on average.

Hours are UTC. A state lasts until the station's next one, so that a late change concerns its hour and all later ones.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.demo.marts.empty_spells import rack_states
from lake_assets.gold.mart import Follow, Input, Mart, MartRequest
from lake_assets.gold.periods.grain import Grain


def compute(request: MartRequest) -> DataFrame:
    """One row per station and hour of which some time is known. There is none before the station's first state, or
    while it is deleted."""
    first, end = (F.lit(moment.isoformat()).cast("timestamp") for moment in request.window)
    hour = F.expr("INTERVAL 1 HOUR")
    states = rack_states(request.inputs["status_changes"]).filter("known")
    states = states.withColumn("until", F.coalesce("next", F.greatest(F.lit(request.now), "since")))
    states = states.filter((F.col("since") < end) & (F.col("until") > first))
    hours = F.sequence(F.date_trunc("hour", F.greatest("since", first)), F.least("until", end), hour)
    each = states.withColumn("hour", F.explode(hours))
    lasts = F.unix_micros(F.least("until", F.col("hour") + hour)) - F.unix_micros(F.greatest("since", "hour"))
    each = each.withColumn("micros", lasts).filter((F.col("micros") > 0) & (F.col("hour") < end))
    micros = F.col("micros")

    def minutes(condition: str) -> Column:
        return F.round(F.sum(F.when(F.expr(condition), micros).otherwise(0)) / 60e6, 3)

    return each.groupBy("hour", "station_id").agg(
        minutes("true").alias("minutes_known"),
        minutes("bikes_available > 0").alias("minutes_with_bikes"),
        minutes("docks_available > 0").alias("minutes_with_docks"),
        F.round(F.sum(F.col("bikes_available") * micros) / F.sum(micros), 3).alias("mean_bikes"),
    )


MART = Mart(
    name="station_hourly",
    description="Per station and hour (UTC): minutes with bikes, minutes with free docks, and bikes on average.",
    inputs={
        "status_changes": Input(
            "bikeshare", "station_status_changes", Follow.PARTITION_ONWARDS, "_commit_ts"
        ),
    },
    columns=(
        parse_column("hour", "timestamptz not null"),
        parse_column("station_id", "int not null"),
        parse_column("minutes_known", "double not null"),
        parse_column("minutes_with_bikes", "double not null"),
        parse_column("minutes_with_docks", "double not null"),
        parse_column("mean_bikes", "double not null"),
    ),
    compute=compute,
    partition_column="hour",
    partitions=Grain.HOUR,
    comments={
        "hour": "The beginning of the hour, UTC",
        "station_id": "The station's number",
        "minutes_known": "Minutes of the hour in which the state is known",
        "minutes_with_bikes": "Minutes with at least one bike",
        "minutes_with_docks": "Minutes with at least one free dock",
        "mean_bikes": "Bikes on average over the known minutes",
    },
    owners=("team:operations",),
)

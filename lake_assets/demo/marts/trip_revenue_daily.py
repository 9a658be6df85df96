"""Revenue of finished trips, by day and district.

A trip counts on the day it ended (UTC), because its fare is known then. It counts in the present district of the
station where it started.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.gold.mart import Follow, Input, Mart, MartRequest


def compute(request: MartRequest) -> DataFrame:
    """One row per day and district with a finished trip; a deleted station counts as district `unknown`."""
    ended = (
        request.inputs["trips"].filter(request.within("ended_at")).withColumn("day", F.to_date("ended_at"))
    )
    districts = request.inputs["stations"].select(F.col("station_id").alias("start_station_id"), "district")
    return (
        ended.join(F.broadcast(districts), "start_station_id", "left")
        .groupBy("day", F.coalesce("district", F.lit("unknown")).alias("district"))
        .agg(
            F.count(F.lit(1)).alias("trips"),
            F.coalesce(F.sum("fare"), F.lit(0)).cast("decimal(14,2)").alias("revenue"),
            # A sum of doubles depends on their order, and a recomputed day must give the same sum.
            F.coalesce(
                F.sum(F.col("distance_km").try_cast("decimal(18,6)")).cast("double"), F.lit(0.0)
            ).alias("distance_km"),
        )
    )


MART = Mart(
    name="trip_revenue_daily",
    description="Finished trips, their revenue and distance by day (of the trip's end, UTC) and start district.",
    inputs={
        "trips": Input("bikeshare", "trips", Follow.DAY, "ended_at"),
        "stations": Input("bikeshare", "stations"),
    },
    columns=(
        parse_column("day", "date not null"),
        parse_column("district", "string not null"),
        parse_column("trips", "long not null"),
        parse_column("revenue", "decimal(14, 2) not null"),
        parse_column("distance_km", "double not null"),
    ),
    compute=compute,
    comments={
        "day": "The day on which the trips ended, UTC",
        "district": "Of the start station at present; `unknown` if the station is deleted",
        "trips": "Finished trips",
        "revenue": "Sum of the fares, in euros",
        "distance_km": "Sum of the distances, in kilometres",
    },
    owners=("team:finance",),
)

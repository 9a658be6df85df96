"""Which racks are empty now, since when, and whether they are in breach of the empty-rack limit or close to it.

Now is the source's last commit, so that a finite history has one answer; on a live source it is seconds ago.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.demo.marts.empty_spells import RackSettings, empty_spells
from lake_assets.gold.mart import Input, Mart, MartRequest


def compute(request: MartRequest) -> DataFrame:
    """One row per station that has no bike at present."""
    settings = RackSettings.model_validate(request.settings)
    limit = settings.empty_rack_limit_minutes
    close = settings.empty_rack_close_share * limit
    # The current table decides which racks are empty, and the change log only since when. The two tables are applied in
    # separate commits, and a rack that has been refilled must not be shown.
    empty = request.inputs["status"].filter("bikes_available = 0").select("station_id", "docks_available")
    spells = empty_spells(request.inputs["status_changes"], request.now).filter("open")
    minutes = (F.unix_micros(F.lit(request.now)) - F.unix_micros("empty_since")) / 60e6
    return (
        empty.join(
            spells.select("station_id", F.col("started_at").alias("empty_since")), "station_id", "left"
        )
        .join(request.inputs["stations"].select("station_id", "name", "district"), "station_id", "left")
        .select(
            "station_id",
            "name",
            "district",
            "empty_since",
            F.round(minutes, 3).alias("minutes_empty"),
            F.when(minutes >= limit, "breach")
            .when(minutes >= close, "close")
            .otherwise("within limit")
            .alias("state"),
            "docks_available",
            F.lit(request.now).alias("as_of"),
        )
    )


MART = Mart(
    name="racks_empty_now",
    description="Racks without a bike as of the source's last commit: since when, and breach, close or within limit.",
    inputs={
        "status": Input("bikeshare", "station_status"),
        "status_changes": Input("bikeshare", "station_status_changes"),
        "stations": Input("bikeshare", "stations"),
    },
    columns=(
        parse_column("station_id", "int not null"),
        parse_column("name", "string"),
        parse_column("district", "string"),
        parse_column("empty_since", "timestamptz"),
        parse_column("minutes_empty", "double"),
        parse_column("state", "string not null"),
        parse_column("docks_available", "int"),
        parse_column("as_of", "timestamptz not null"),
    ),
    compute=compute,
    partition_column=None,
    settings=RackSettings,
    comments={
        "station_id": "The rack's station",
        "name": "The station's name at present; NULL if it is deleted",
        "district": "The station's district at present; NULL if it is deleted",
        "empty_since": "Since when it has had no bike, UTC; NULL if the change log does not have it yet",
        "minutes_empty": "Minutes from then to `as_of`",
        "state": "`breach` of the empty-rack limit, `close` to it, or `within limit`",
        "docks_available": "Free docks",
        "as_of": "The source's last commit, UTC",
    },
    owners=("team:operations",),
)

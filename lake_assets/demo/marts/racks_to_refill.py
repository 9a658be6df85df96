"""Empty racks that will be in breach of the empty-rack limit soon: where to bring bikes next.

The racks are among those that are empty now (`racks_empty_now.py`). A row has the time of the breach, not the minutes
left: the time does not change while the minutes pass.
"""

from datetime import timedelta

from pydantic import Field
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.demo.marts.empty_spells import RackSettings
from lake_assets.demo.marts.racks_empty_now import MART as RACKS_EMPTY_NOW
from lake_assets.gold.mart import Mart, MartRequest


class RefillSettings(RackSettings):
    """The settings of this mart in `gold.settings`."""

    refill_within_minutes: int = Field(default=15, gt=0)
    """How long before its breach a rack is listed."""


def compute(request: MartRequest) -> DataFrame:
    """One row per station that is empty, and will be in breach within the minutes of the settings."""
    settings = RefillSettings.model_validate(request.settings)
    limit = F.lit(settings.empty_rack_limit_minutes)
    racks = RACKS_EMPTY_NOW.compute(request)
    racks = racks.withColumn("breach_at", F.timestamp_add("MINUTE", limit, F.col("empty_since")))
    latest = request.now + timedelta(minutes=settings.refill_within_minutes)
    soon = racks.filter((F.col("breach_at") > F.lit(request.now)) & (F.col("breach_at") <= F.lit(latest)))
    return soon.select(*(column.name for column in MART.columns))


MART = Mart(
    name="racks_to_refill",
    description="Racks without a bike that will be in breach of the empty-rack limit within some minutes, and when.",
    inputs=RACKS_EMPTY_NOW.inputs,
    columns=(
        parse_column("station_id", "int not null"),
        parse_column("name", "string"),
        parse_column("district", "string"),
        parse_column("empty_since", "timestamptz not null"),
        parse_column("breach_at", "timestamptz not null"),
        parse_column("docks_available", "int"),
    ),
    compute=compute,
    partition_column=None,
    key=("station_id",),
    with_silver=False,
    settings=RefillSettings,
    comments={
        "station_id": "The rack's station",
        "name": "The station's name at present; NULL if it is deleted",
        "district": "The station's district at present; NULL if it is deleted",
        "empty_since": "Since when it has had no bike, UTC",
        "breach_at": "When it will have been empty for the limit, UTC",
        "docks_available": "Free docks",
    },
    owners=("team:operations",),
)

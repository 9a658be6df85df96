"""The mart of the stored lakes. Its code runs on each release that has written one."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.gold.mart import Follow, Input, Mart, MartRequest


def compute(request: MartRequest) -> DataFrame:
    """The number of visits of each day."""
    visits = request.inputs["visits"].filter(request.within("at"))
    return visits.groupBy(F.to_date("at").alias("day")).agg(F.count(F.lit(1)).alias("visits"))


MART = Mart(
    name="visits_by_day",
    description="Visits by day.",
    inputs={"visits": Input("shop", "visits", Follow.DAY, "at")},
    columns=(parse_column("day", "date not null"), parse_column("visits", "long not null")),
    compute=compute,
)

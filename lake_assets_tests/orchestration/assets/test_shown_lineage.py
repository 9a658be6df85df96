"""The lineage that Dagster's UI shows: from a column of each kind of mart to the column of the DMS files.

Here: answers of Dagster's GraphQL after real runs. Not here: which events have it (`test_mart_lineage.py`).
"""

from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.demo.marts.trip_revenue_daily import MART as IN_PYTHON
from lake_assets.gold.registry import load_mart
from lake_assets.orchestration.lake_definitions import build_definitions
from lake_assets_tests.helpers.lakes.bike_lake import BikeLake, at, station, trip
from lake_assets_tests.helpers.orchestration.shown import shown

MARTS = Path(__file__).parents[2] / "helpers/marts"
TRIPS = "silver/bikeshare/trips"


@pytest.mark.spark
def test_from_a_marts_column_to_the_column_of_the_files(spark: SparkSession, tmp_path: Path) -> None:
    home = tmp_path / "instance"
    home.mkdir()
    with dg.instance_for_test(temp_dir=str(home)) as instance:
        bikes = BikeLake(tmp_path)
        in_sql, keyed = (
            load_mart(str(MARTS / name)) for name in ("trip_revenue_sql.sql", "bikes_ridden.sql")
        )
        bikes.restart([IN_PYTHON, in_sql, keyed])
        bikes.instance = instance
        bikes.load("stations", at(1, "00:00"), [station(1, "north")])
        bikes.load("trips", at(1, "00:00:02"), [trip(1, at(1, "08:00"), at(1, "08:30"))])
        bikes.apply("stations", "trips")
        assert set(bikes.compute()) == {IN_PYTHON.name, in_sql.name, keyed.name}
        with shown(build_definitions(bikes.lake), bikes.instance) as ui:
            for column, silver in (
                ((f"gold/{IN_PYTHON.name}", "revenue"), (TRIPS, "fare")),
                ((f"gold/{in_sql.name}", "revenue"), (TRIPS, "fare")),
                ((f"gold/{in_sql.name}", "district"), ("silver/bikeshare/stations", "district")),
                ((f"gold/{keyed.name}", "bike_id"), (TRIPS, "bike_id")),
                ((f"gold/{keyed.name}", "kilometres"), (TRIPS, "distance_km")),
            ):
                assert ui.columns_before(column) == {silver}
                bronze = (silver[0].replace("silver/", "bronze/"), silver[1])
                assert ui.columns_before(silver) == {bronze}
                assert ui.columns_before(bronze) == set()

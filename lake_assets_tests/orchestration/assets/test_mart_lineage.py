"""The lineage of a mart's column in Dagster, from the mart to the DMS files.

Here: the events of runs. Not here: what a query's plan says (`gold/test_plan_lineage.py`).
"""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.demo.marts import DEMO_MARTS
from lake_assets.gold.registry import load_mart
from lake_assets.orchestration.assets import mart_output
from lake_assets.orchestration.assets.mart_lineage import LINEAGE
from lake_assets.orchestration.lake_definitions import build_definitions
from lake_assets_tests.helpers.lakes.bike_lake import (
    EMPTY_NOW,
    REVENUE,
    USED,
    BikeLake,
    Row,
    at,
    station,
    status,
    trip,
)
from lake_assets_tests.helpers.orchestration.kept_lake import ITEMS, Kept

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS: dict[str, Row] = {
    "bikes": {
        "bike_id": 1,
        "model": "City 3",
        "status": "available",
        "is_electric": True,
        "battery_percent": "50.00",
        "bought_on": date(2024, 1, 1),
    },
    "members": {
        "member_id": 1,
        "email": "1@example.org",
        "full_name": "Name 1",
        "plan": "annual",
        "joined_at": at(1),
    },
    "maintenance_tickets": {
        "bike_id": 1,
        "ticket_no": 1,
        "opened_at": at(1, "01:00"),
        "closed_at": at(1, "02:00"),
        "severity": "low",
        "description": "flat tyre",
        "cost": None,
    },
}


@pytest.fixture(scope="module")
def bikes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BikeLake]:
    """A lake with a day of one station, whose marts are computed, all of the demonstration's."""
    tables = (*USED, "bikes", "members", "maintenance_tickets")
    lake = BikeLake(tmp_path_factory.mktemp("bikes"), tables=tables, marts=DEMO_MARTS)
    lake.load("stations", at(1, "00:00"), [station(1, "north")])
    lake.load("station_status", at(1, "00:00:01"), [status(1, 5, at(1))])
    lake.load("trips", at(1, "00:00:02"), [trip(1, at(1, "08:00"), at(1, "08:30"))])
    for table, row in ROWS.items():
        lake.load(table, at(1, "00:00:03"), [row])
    lake.change(at(1, "10:00"), ("trips", "U", {"trip_id": 1, "fare": "3.00"}))
    assert lake.apply().success
    lake.compute()
    yield lake
    lake.instance.dispose()


def computed_from(lake: BikeLake, column: dg.TableColumnDep) -> set[dg.TableColumnDep]:
    """The columns that Dagster's UI shows as those before it: by the newest materialization, or the definition."""
    event = lake.instance.get_latest_materialization_event(column.asset_key)
    logged = event.asset_materialization.metadata if event and event.asset_materialization else {}
    if LINEAGE in logged:
        lineage = logged[LINEAGE].value
    else:
        graph = build_definitions(lake.lake).get_repository_def().asset_graph
        lineage = graph.get(column.asset_key).metadata[LINEAGE]
    assert isinstance(lineage, dg.TableColumnLineage)
    return set(lineage.deps_by_column[column.column_name])


def column(path: str) -> dg.TableColumnDep:
    """Such as `gold/trip_revenue_daily.revenue`."""
    key, _, name = path.rpartition(".")
    return dg.TableColumnDep(dg.AssetKey.from_user_string(key), name)


def test_from_a_marts_column_to_the_column_of_the_files(bikes: BikeLake) -> None:
    (fare,) = computed_from(bikes, column(f"gold/{REVENUE}.revenue"))
    assert fare == column("silver/bikeshare/trips.fare")
    assert computed_from(bikes, fare) == {column("bronze/bikeshare/trips.fare")}
    (since,) = computed_from(bikes, column(f"gold/{EMPTY_NOW}.empty_since"))
    assert since == column("silver/bikeshare/station_status_changes._commit_ts")


FROM_NOTHING = {
    "racks_empty_now": {"as_of"},
    "station_daily": {"day", "trips_out", "trips_in"},
    "trip_revenue_daily": {"trips"},
    "member_activity_weekly": {"trips"},
}
"""By mart, its columns that are computed from no column: numbers of rows, and the days that the run asks for."""


@pytest.mark.parametrize("entry", DEMO_MARTS)
def test_every_column_of_the_demonstration_is_computed_from_silver(bikes: BikeLake, entry: str) -> None:
    mart = load_mart(entry)
    from_nothing = {
        one.name for one in mart.columns if not computed_from(bikes, column(f"gold/{mart.name}.{one.name}"))
    }
    assert from_nothing == FROM_NOTHING.get(mart.name, set())


def test_a_later_run_of_the_same_code_takes_the_recorded_lineage(
    bikes: BikeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mart_output, "derived_lineage", lambda *_: pytest.fail("derived again"))
    bikes.change(at(1, "11:00"), ("trips", "U", {"trip_id": 1, "fare": "4.00"}))
    assert bikes.apply().success
    (run,) = [run for run in bikes.work().runs if REVENUE in run.marts]
    assert bikes.run(run).success
    assert computed_from(bikes, column(f"gold/{REVENUE}.revenue")) == {column("silver/bikeshare/trips.fare")}


def test_the_continuous_run_reports_it_with_every_refresh(spark: SparkSession, tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for number in range(2):
        kept.put(ITEMS, number)
        assert kept.rounds.round().marts == 1
        lineage = kept.told()["gold/items_now"][LINEAGE]
        assert lineage.deps_by_column == {"items": [], "as_of": []}
    kept.rounds.close()

"""A mart with a key writes only the rows that differ, through real runs.

Here: the files and commits of its table. Not here: rows whose key is NULL or not unique (`test_table_values.py`).
"""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.gold.registry import load_mart
from lake_assets_tests.helpers.lakes.bike_lake import BikeLake, at, trip

BIKES_RIDDEN = (Path(__file__).parents[1] / "helpers/marts/bikes_ridden.sql").read_text()
NAME = "bikes_ridden"


def ridden(bikes: BikeLake) -> dict[int, int]:
    """By bike, the number of its trips."""
    return {row["bike_id"]: row["trips"] for row in bikes.rows(f"gold.{NAME}")}


def files(bikes: BikeLake) -> set[str]:
    return {task.file.file_path for task in table(bikes).scan().plan_files()}


def written(bikes: BikeLake) -> int:
    """Rows that the newest commit added."""
    return int(table(bikes).current_snapshot().summary.additional_properties.get("added-records", "0"))


def table(bikes: BikeLake) -> Any:
    return bikes.lake.runtime.catalog.load_table(f"gold.{NAME}")


def refresh(bikes: BikeLake, *changes: tuple[str, dict[str, Any]]) -> None:
    """Changes of trips, as operation and values, applied and computed."""
    bikes.clock = at(bikes.clock.day + 1)
    bikes.change(bikes.clock, *(("trips", op, values) for op, values in changes))
    bikes.apply("trips")
    assert bikes.compute() == {NAME: None}
    assert bikes.requested() == {}, "what it has consumed is recorded"


def test_only_rows_that_differ_are_written(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.sql").write_text(BIKES_RIDDEN)
    bikes = BikeLake(tmp_path)
    bikes.restart([load_mart(str(tmp_path / f"{NAME}.sql"))])
    trips = [trip(number, at(1), at(1, "12:30"), bike_id=number % 3) for number in range(1, 7)]
    # A bike without a distance: its row does not differ from itself.
    bikes.load("trips", at(1), [*trips, trip(7, at(1), None, bike_id=9)])
    bikes.apply("trips")
    assert bikes.compute() == {NAME: None}
    assert ridden(bikes) == {0: 2, 1: 2, 2: 2, 9: 1}
    first = files(bikes)

    refresh(bikes, ("U", {"trip_id": 1, "bike_id": 2}), ("I", trip(8, at(2), None, bike_id=5)))
    assert ridden(bikes) == {0: 2, 1: 1, 2: 3, 5: 1, 9: 1}
    assert first < files(bikes), "rows that did not change are in the files that they were in"
    assert written(bikes) == 3

    before = files(bikes)
    refresh(bikes, ("U", {"trip_id": 2, "fare": "9.00"}))
    assert files(bikes) == before
    assert written(bikes) == 0

    refresh(bikes, ("D", {"trip_id": 8}))
    assert ridden(bikes) == {0: 2, 1: 1, 2: 3, 9: 1}
    assert written(bikes) == 0

    longest = BIKES_RIDDEN.replace("  trips:", "  longest: double\n  trips:")
    longest = longest.replace("count(*)", "max(distance_km) AS longest, count(*)")
    (tmp_path / f"{NAME}.sql").write_text(longest)
    bikes.restart([load_mart(str(tmp_path / f"{NAME}.sql"))])
    assert bikes.compute() == {NAME: None}
    rows = {row["bike_id"]: row["longest"] for row in bikes.rows(f"gold.{NAME}")}
    assert rows == {0: 1.1, 1: 1.1, 2: 1.1, 9: None}
    assert written(bikes) == 3, "the row without a distance is as it was"
    bikes.instance.dispose()


def test_rows_that_were_there_twice_before_the_mart_had_a_key(spark: SparkSession, tmp_path: Path) -> None:
    """Also those that do not differ from the computed row with their key."""
    file, query = tmp_path / f"{NAME}.sql", BIKES_RIDDEN[BIKES_RIDDEN.index("SELECT") :]
    file.write_text(f"{BIKES_RIDDEN} UNION ALL {query}".replace("key: bike_id\n", ""))
    bikes = BikeLake(tmp_path)
    bikes.restart([load_mart(str(file))])
    bikes.load("trips", at(1), [trip(number, at(1), at(1, "12:30"), bike_id=number) for number in (1, 2)])
    bikes.apply("trips")
    assert bikes.compute() == {NAME: None}
    assert len(bikes.rows(f"gold.{NAME}")) == 4

    file.write_text(BIKES_RIDDEN)
    bikes.restart([load_mart(str(file))])
    refresh(bikes, ("I", trip(3, at(2), None, bike_id=2)))
    assert ridden(bikes) == {1: 1, 2: 2}
    assert len(bikes.rows(f"gold.{NAME}")) == 2
    bikes.instance.dispose()


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (("partition_column: null\n", ""), "has a key, which is for marts with partition_column=None"),
        (("key: bike_id", "key: bike"), "has no column bike, which its key names"),
    ],
)
def test_a_key_that_cannot_be(tmp_path: Path, edit: tuple[str, str], problem: str) -> None:
    (tmp_path / f"{NAME}.sql").write_text(BIKES_RIDDEN.replace(*edit))
    with pytest.raises(Exception, match=rf"{NAME}\.sql cannot be used as a mart: {NAME} {problem}"):
        load_mart(str(tmp_path / f"{NAME}.sql"))

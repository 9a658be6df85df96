"""The marts of racks that are empty now, over rows written by hand, and against plain Python (`mart_oracle.py`)."""

from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from lake_assets.demo.marts.racks_empty_now import MART as RACKS_EMPTY_NOW
from lake_assets.demo.marts.racks_to_refill import MART as RACKS_TO_REFILL
from lake_assets_tests.helpers.marts.bike_rows import GONE, NORTH
from lake_assets_tests.helpers.marts.mart_frames import Row, compute, in_order
from lake_assets_tests.helpers.marts.rack_spells import CLOSE, LIMIT, NOW, STATION_NUMBER
from lake_assets_tests.helpers.oracles import mart_oracle as oracle


def test_racks_that_are_empty_now(session: SparkSession, by_hand: dict[str, list[Row]]) -> None:
    found = in_order(
        compute(session, RACKS_EMPTY_NOW, by_hand, NOW, empty_rack_limit_minutes=30), "station_id"
    )
    names = {number: name for name, number in STATION_NUMBER.items()}
    assert {
        names.get(row["station_id"], str(row["station_id"])): (row["minutes_empty"], row["state"])
        for row in found
    } == {
        "open at the end": (1100.0, "breach"),
        "open at the end and close to the limit": (24.0, "close"),
        "open at the end and within the limit": (10.0, "within limit"),
        "the limit passes at the very end": (30.0, "breach"),
        str(NORTH): (None, "within limit"),
        str(GONE): (60.0, "breach"),
    }
    expected = oracle.racks_empty_now(
        by_hand["stations"],
        by_hand["station_status"],
        by_hand["station_status_changes"],
        now=NOW,
        limit=LIMIT,
        close=CLOSE,
    )
    assert found == in_order(expected, "station_id")


@pytest.mark.parametrize(
    ("within", "expected"),
    [
        (15, ["open at the end and close to the limit"]),
        (20, ["open at the end and close to the limit", "open at the end and within the limit"]),
    ],
)
def test_racks_whose_limit_passes_soon(
    session: SparkSession, by_hand: dict[str, list[Row]], within: int, expected: list[str]
) -> None:
    """The rack whose limit passes now is in breach already."""
    found = compute(session, RACKS_TO_REFILL, by_hand, NOW, refill_within_minutes=within)
    names = {number: name for name, number in STATION_NUMBER.items()}
    assert sorted(names[row["station_id"]] for row in found) == expected
    tables = [by_hand[name] for name in ("stations", "station_status", "station_status_changes")]
    rows = oracle.racks_to_refill(*tables, now=NOW, limit=LIMIT, within=timedelta(minutes=within))
    assert in_order(found, "station_id") == in_order(rows, "station_id")

"""What marts need from silver: the columns whose days it records, and inputs that the lake has.

Not here: recording them (`silver/`).
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from lake_assets.config import parse_column
from lake_assets.errors import LakeError
from lake_assets.gold.mart import Follow, Input
from lake_assets.gold.periods.grain import Grain
from lake_assets.gold.registry import tracked_columns
from lake_assets.gold.table_snapshots import naming_transform
from lake_assets.silver.table.targets import Tracked
from lake_assets_tests.helpers.lakes.small_lakes import lake_config
from lake_assets_tests.helpers.marts.mart_views import create, mart

TABLES: dict[str, Any] = {
    "public.trips": {
        "columns": {
            "id": "long not null",
            "started": "timestamptz",
            "ended": "timestamptz",
            "Closed": "date",
        },
        "primary_key": ["id"],
        "partition_by": ["day(started)"],
        "also": ["change_log"],
    }
}


def test_silver_tracks_the_columns_it_is_not_partitioned_by(tmp_path: Path) -> None:
    rules = [Input("shop", "trips", Follow.DAY, column) for column in ("ended", "started", "Closed")]
    rules += [Input("shop", "trips_changes", Follow.DAY_ONWARDS, "_commit_ts")]
    rules += [Input("shop", "trips_changes", Follow.DAY, "ended")]
    found = tracked_columns([mart(*rules), mart(rules[0])], lake_config(tmp_path, TABLES))
    assert found == {
        ("shop", "trips"): Tracked(days=("Closed", "ended"), by_partition=True),
        ("shop", "trips_changes"): Tracked(days=("ended",), by_partition=True),
    }


NAMED = {"hour": ("hour", "day", "week", "month"), "day": ("day", "week", "month"), "month": ("month",)}
"""By the transform that partitions silver, the periods of a mart that its commits name."""


@pytest.mark.parametrize("transform", NAMED)
def test_a_partition_names_no_shorter_period_and_a_month_no_week(
    catalog: Catalog, tmp_path: Path, transform: str
) -> None:
    """A month is not in one week: a change on its last day would be taken for one on its first."""
    trips = TABLES["public.trips"] | {"partition_by": [f"{transform}(started)"]}
    lake = lake_config(tmp_path, {"public.trips": trips})
    table = create(catalog, "trips")
    with table.update_spec() as spec:
        spec.add_field("at", transform)
    rule = Input("shop", "trips", Follow.PARTITION, "started")
    for grain in Grain:
        kind = "timestamptz" if grain is Grain.HOUR else "date"
        of = replace(mart(rule), columns=(parse_column("day", kind),), partitions=grain)
        tracked = tracked_columns([of], lake)["shop", "trips"]
        named = naming_transform(table, "at", grain)
        expected = (True, transform) if grain in NAMED[transform] else (False, None)
        assert (tracked.by_partition, named) == expected, grain
        assert bool(tracked.days or tracked.hours) != tracked.by_partition


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Input("shop", "trops"), r"gold\.mart reads silver_shop\.trops, which lake\.yaml does not have"),
        (Input("ship", "trips"), r"gold\.mart reads silver_ship\.trips, which"),
        (
            Input("shop", "trips", Follow.DAY, "end"),
            r"follows end of silver_shop\.trips, which is no column of it",
        ),
        (
            Input("shop", "trips", Follow.DAY, "id"),
            r"which is long: partitions by day need one of timestamptz, timestamp, date",
        ),
    ],
)
def test_inputs_that_the_lake_does_not_have_are_named(tmp_path: Path, rule: Input, message: str) -> None:
    with pytest.raises(LakeError, match=message):
        tracked_columns([mart(rule)], lake_config(tmp_path, TABLES))


def test_an_input_needs_a_column_exactly_when_it_follows_days() -> None:
    with pytest.raises(ValueError, match="do not go together"):
        Input("shop", "trips", Follow.DAY)
    with pytest.raises(ValueError, match="do not go together"):
        Input("shop", "trips", Follow.EVERY_DAY, "at")

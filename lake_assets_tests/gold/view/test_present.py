"""The present of a mart, marts without days, and the number of tables that a look loads.

Not here: which days are stale (`test_stale_periods.py`).
"""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from lake_assets.gold.consumption import Consumption
from lake_assets.gold.mart import Follow, Input
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.gold.view import mart_view
from lake_assets_tests.helpers.marts.mart_views import (
    GOLD,
    NOW,
    append,
    at,
    computed,
    create,
    head,
    mart,
    numbers,
    view,
)


def test_another_table_of_the_namespace_is_not_the_source_s(catalog: Catalog) -> None:
    append(create(catalog, "trips"), {"id": 1, "at": at(5)})
    catalog.create_table("silver_shop.notes_of_mine", pa.schema([("x", pa.int64())])).append(
        pa.table({"x": [1]})
    )
    found = view(catalog)
    assert found is not None
    assert found.now == NOW


def test_the_present_is_the_newest_commit_of_any_table_of_the_source(catalog: Catalog) -> None:
    append(create(catalog, "trips"), {"id": 1, "at": at(5)})
    later = NOW + timedelta(days=1)
    append(create(catalog, "other"), {"id": 1}, **{"lake.max-commit-ts": ""})
    append(create(catalog, "busy"), {"id": 1}, **{"lake.max-commit-ts": later.isoformat()})
    onwards = mart(Input("shop", "trips", Follow.DAY_ONWARDS, "at"))
    found = view(catalog, onwards)
    assert found is not None
    assert found.now == later
    computed(catalog, Consumption(head(catalog), frozenset(), NOW), at(5).date())
    assert numbers(view(catalog, onwards)) == [6, 7, 8, 9, 10], "the days up to it, and from where it was on"


def test_without_commit_times_the_present_is_when_silver_changed(catalog: Catalog) -> None:
    append(create(catalog, "trips"), {"id": 1, "at": at(5)}, **{"lake.max-commit-ts": ""})
    found = view(catalog)
    assert found is not None
    assert abs(datetime.now(UTC) - found.now) < timedelta(minutes=5)
    assert numbers(found) == [5]


def test_a_mart_without_days_is_stale_when_rows_change_or_time_passes(catalog: Catalog) -> None:
    whole = mart(Input("shop", "trips"), partition_column=None)
    trips = create(catalog, "trips")
    append(trips, {"id": 1})
    computed(catalog, Consumption(head(catalog), frozenset(), NOW))

    def stale() -> bool:
        found = view(catalog, whole)
        assert found is not None
        return found.stale

    assert not stale()
    append(trips)
    assert not stale(), "only the position has moved"
    append(trips, {"id": 2})
    assert stale()
    computed(catalog, Consumption(head(catalog), frozenset(), NOW - timedelta(seconds=1)))
    assert stale()


def test_each_table_is_loaded_once_for_all_marts(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("trips", "stations", "bikes"):
        append(create(catalog, name), {"id": 1, "at": at(5)})
    loads: Counter[str] = Counter()
    original = catalog.load_table

    def counted(identifier: str) -> Table:
        loads[identifier] += 1
        return original(identifier)

    monkeypatch.setattr(catalog, "load_table", counted)
    loaded = LoadedTables(catalog)
    for rules in (
        [Input("shop", "trips", Follow.DAY, "at"), Input("shop", "stations")],
        [Input("shop", "bikes")],
    ):
        assert mart_view(loaded, mart(*rules), GOLD) is not None
    assert loads == dict.fromkeys(
        ("silver_shop.trips", "silver_shop.stations", "silver_shop.bikes", "gold.mart"), 1
    )

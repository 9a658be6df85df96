"""Which days and hours are stale: those that were touched, are pending, or were computed by other settings or code.

Not here: which days there are at all (`test_ranges.py`), marts without days (`test_present.py`).
"""

from dataclasses import replace
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from pydantic import BaseModel
from pyiceberg.catalog import Catalog
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

from lake_assets.config import parse_column
from lake_assets.gold.consumption import Consumption, fingerprint
from lake_assets.gold.mart import Follow, Input
from lake_assets.gold.periods.grain import Grain, Periods
from lake_assets.gold.sql_mart import SqlQuery
from lake_assets.gold.view import MartView
from lake_assets.iceberg.upkeep.restamp import repeated, stamped_snapshot
from lake_assets.rounds.maintenance import MART
from lake_assets_tests.helpers.marts.mart_views import (
    DAILY,
    NOW,
    append,
    at,
    computed,
    create,
    head,
    mart,
    numbers,
    view,
    work,
)


def test_touched_days_and_the_quiet_ones_up_to_them(catalog: Catalog) -> None:
    trips = create(catalog, "trips")
    append(trips, {"id": 1, "at": at(5)})
    computed(catalog, Consumption(head(catalog), frozenset(), NOW), *(at(day).date() for day in (4, 5)))
    assert numbers(view(catalog)) == []
    append(trips, {"id": 2, "at": at(4)})
    assert numbers(view(catalog)) == [4]
    append(trips, {"id": 3, "at": at(8)}, {"id": 4, "at": at(2)})
    assert numbers(view(catalog)) == [2, 3, 4, 6, 7, 8]


def test_pending_days_stay_until_they_are_computed(catalog: Catalog) -> None:
    append(create(catalog, "trips"), {"id": 1, "at": at(5)})
    computed(catalog, Consumption(head(catalog), frozenset({at(2).date()}), NOW), at(5).date())
    assert numbers(view(catalog)) == [2]


def test_other_settings_concern_every_day(catalog: Catalog) -> None:
    append(create(catalog, "trips"), {"id": 1, "at": at(5)})
    for of in (DAILY, mart(Input("shop", "trips"), partition_column=None)):
        for limit, stale in ((30, False), (20, True)):
            state = Consumption(head(catalog), frozenset(), NOW, fingerprint({"limit": limit}))
            computed(catalog, state, at(5).date())
            found = view(catalog, of)
            assert found is not None
            assert found.stale == stale
    assert numbers(view(catalog)) == [5]


def test_a_new_column_concerns_every_day_also_after_a_commit_without_rows(catalog: Catalog) -> None:
    append(create(catalog, "trips"), {"id": 1, "at": at(4)}, {"id": 2, "at": at(5)})
    columns = frozenset(column.name for column in DAILY.columns)
    state = Consumption(head(catalog), frozenset(), NOW, columns=columns)
    computed(catalog, state, *(at(day).date() for day in (4, 5)))
    wider = replace(DAILY, columns=(*DAILY.columns, parse_column("extra", "long")))
    # A run has added the column, and was killed.
    table = catalog.load_table("gold.mart")
    with table.update_schema() as change:
        change.add_column("extra", LongType())
    assert numbers(view(catalog, wider)) == [4, 5]
    stamped = stamped_snapshot(table, MART)
    assert stamped is not None
    nothing = pa.table({"day": pa.array([], pa.date32()), "extra": pa.array([], pa.int64())})
    table.append(nothing, snapshot_properties=repeated(stamped, MART))
    assert numbers(view(catalog, wider)) == [4, 5]


def test_what_lasts_since_a_marker_concerns_every_day(catalog: Catalog) -> None:
    trips = create(catalog, "trips")
    append(trips, {"id": 1, "at": at(3)}, {"id": 2, "at": at(6)})
    onwards = mart(Input("shop", "trips", Follow.DAY_ONWARDS, "at"))
    first = view(catalog, onwards)
    assert first is not None
    state = Consumption(head(catalog), frozenset(), NOW, span=first.span)
    computed(catalog, state, *(at(day).date() for day in range(3, 10)))
    assert numbers(view(catalog, onwards)) == []
    append(trips, {"id": 3, "at": datetime(1900, 1, 1, tzinfo=UTC)})
    assert {at(day).date() for day in range(3, 10)} <= set(work(catalog, onwards))


def test_a_mart_waits_for_a_column_that_no_batch_has_added(catalog: Catalog) -> None:
    append(create(catalog, "trips"), {"id": 1, "at": at(3)})
    assert view(catalog, mart(Input("shop", "trips", Follow.DAY, "closed_at"))) is None


def test_new_code_concerns_every_day_of_a_mart_that_says_so(catalog: Catalog) -> None:
    append(create(catalog, "trips"), {"id": 1, "at": at(4)}, {"id": 2, "at": at(5)})
    old, new = (
        replace(DAILY, compute=SqlQuery("mart.sql", text, "", (), (), BaseModel)) for text in ("one", "two")
    )
    for recompute, expected in ((False, []), (True, [4, 5])):
        before = view(catalog, replace(old, recompute_on_new_code=recompute))
        assert before is not None
        computed(catalog, Consumption(head(catalog), frozenset(), NOW, before.settings), at(4).date())
        assert numbers(view(catalog, replace(old, recompute_on_new_code=recompute))) == []
        assert numbers(view(catalog, replace(new, recompute_on_new_code=recompute))) == expected


HOURLY = replace(
    DAILY,
    columns=(parse_column("hour", "timestamptz"),),
    partition_column="hour",
    partitions=Grain.HOUR,
)


def computed_hours(catalog: Catalog, found: MartView, pending: Periods = frozenset()) -> None:
    """The mart by hour as the run of the view leaves it."""
    schema = pa.schema([("hour", pa.timestamp("us", tz="UTC"))])
    if not catalog.table_exists("gold.mart"):
        table = catalog.create_table("gold.mart", schema)
        with table.update_spec() as spec:
            # PyIceberg does not write by the transform that the engine uses.
            spec.add_field("hour", IdentityTransform(), "hour")
    state = Consumption(found.snapshots, pending, found.now, found.settings, found.span, Grain.HOUR)
    table = catalog.load_table("gold.mart")
    rows = pa.table({"hour": [hour for hour in found.work if hour not in pending]}, schema=schema)
    table.append(rows, snapshot_properties=state.properties())


def test_hours_that_changed_those_up_to_them_and_pending_ones(catalog: Catalog) -> None:
    trips = create(catalog, "trips")
    append(trips, {"id": 1, "at": at(5, 3)}, {"id": 2, "at": at(5, 6)})
    first = view(catalog, HOURLY)
    assert first is not None
    assert list(first.work) == [at(5, hour) for hour in (3, 4, 5, 6)]
    computed_hours(catalog, first, pending=frozenset({at(5, 4)}))
    assert work(catalog, HOURLY) == [at(5, 4)]
    append(trips, {"id": 3, "at": at(5, 9)}, **{"lake.touched-hours.at": "2024-03-05T06,2024-03-05T09"})
    assert work(catalog, HOURLY) == [at(5, hour) for hour in (4, 6, 7, 8, 9)]
    append(trips, {"id": 4, "at": at(5, 7)})
    assert work(catalog, HOURLY) == [at(5, hour) for hour in range(3, 10)], "it names days only"


@pytest.mark.parametrize(
    ("grain", "expected"),
    [(Grain.WEEK, [date(2024, 2, 26), date(2024, 3, 4)]), (Grain.MONTH, [date(2024, 3, 1)])],
)
def test_partitions_of_another_length_are_all_stale(
    catalog: Catalog, grain: Grain, expected: list[date]
) -> None:
    append(create(catalog, "trips"), {"id": 1, "at": at(3)}, {"id": 2, "at": at(5)})
    pending = frozenset({at(2).date()})
    computed(catalog, Consumption(head(catalog), pending, NOW), at(3).date(), at(5).date())
    assert numbers(view(catalog)) == [2]
    longer = replace(DAILY, partitions=grain)
    assert work(catalog, longer) == expected
    state = view(catalog, longer)
    assert state is not None
    computed(
        catalog, Consumption(state.snapshots, frozenset(), NOW, state.settings, state.span, grain), *expected
    )
    assert work(catalog, longer) == []


def test_what_somebody_else_wrote_to_the_mart_makes_it_unknown(catalog: Catalog) -> None:
    append(create(catalog, "trips"), {"id": 1, "at": at(5)})
    computed(catalog, Consumption(head(catalog), frozenset(), NOW), at(5).date())
    assert numbers(view(catalog)) == []
    catalog.load_table("gold.mart").append(pa.table({"day": [at(6).date()]}))
    assert numbers(view(catalog)) == [5, 6]

"""Which days there are at all: between the bounds of the inputs' rows, over tables that PyIceberg writes.

Here: metadata that real histories have seldom. Not here: the decision over summaries (`test_changed_periods.py`),
silver as the engine writes it (`test_incremental.py`).
"""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
from pyiceberg.catalog import Catalog

from lake_assets.config import GoldConfig, parse_column
from lake_assets.gold.consumption import Consumption
from lake_assets.gold.mart import Follow, Input
from lake_assets.gold.periods.grain import Grain
from lake_assets.gold.table_snapshots import LoadedTables, column_periods
from lake_assets.gold.view import mart_view
from lake_assets_tests.helpers.marts.mart_views import (
    DAILY,
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


def test_an_input_that_is_not_there_yet_is_waited_for(catalog: Catalog) -> None:
    assert view(catalog) is None
    create(catalog, "trips")
    assert view(catalog) is None


def test_an_empty_table_has_no_days_and_is_no_error(catalog: Catalog) -> None:
    append(create(catalog, "trips"))
    assert numbers(view(catalog)) == []
    onwards = mart(Input("shop", "trips", Follow.DAY_ONWARDS, "at"))
    assert numbers(view(catalog, onwards)) == []
    found = view(catalog, mart(Input("shop", "trips"), partition_column=None))
    assert found is not None
    assert found.stale, "a mart without days is computed, even of no rows"


def test_at_a_cut_the_newest_tags_in_common_are_read(catalog: Catalog) -> None:
    of_both = replace(mart(Input("shop", "trips", Follow.DAY, "at"), Input("shop", "rides")), at_cut=True)
    trips, rides = create(catalog, "trips"), create(catalog, "rides")
    append(trips, {"id": 1, "at": at(3)})
    append(rides, {"id": 1, "at": at(3)})
    trips.manage_snapshots().create_tag(head(catalog)["silver_shop.trips"], "cut_20240304T000000Z").commit()
    trips.manage_snapshots().create_tag(head(catalog)["silver_shop.trips"], "release").commit()
    assert view(catalog, of_both) is None
    read = head(catalog) | head(catalog, "rides")
    rides.manage_snapshots().create_tag(read["silver_shop.rides"], "cut_20240304T000000Z").commit()
    append(trips.refresh(), {"id": 2, "at": at(5)})
    trips.manage_snapshots().create_tag(head(catalog)["silver_shop.trips"], "cut_20240306T000000Z").commit()
    found = view(catalog, of_both)
    assert found is not None
    assert (found.snapshots, found.now) == (read, datetime(2024, 3, 4, tzinfo=UTC))
    assert numbers(found) == [3]
    computed(catalog, Consumption(snapshots=read, now=found.now), at(3).date())
    assert numbers(view(catalog, of_both)) == []
    rides.refresh().manage_snapshots().create_tag(read["silver_shop.rides"], "cut_20240306T000000Z").commit()
    assert numbers(view(catalog, of_both)) == [4, 5]


def test_rows_that_have_no_day_are_no_error(catalog: Catalog) -> None:
    append(create(catalog, "trips"), {"id": 1}, {"id": 2})
    assert numbers(view(catalog)) == []


def test_all_days_between_the_files_bounds(catalog: Catalog) -> None:
    trips = create(catalog, "trips")
    append(trips, {"id": 1, "at": at(3, 0)}, {"id": 2, "at": at(5, 23)})
    append(trips, {"id": 3, "at": at(7)}, {"id": 4})
    assert numbers(view(catalog)) == [3, 4, 5, 6, 7]
    ahead = mart(Input("shop", "trips", Follow.DAY_ONWARDS, "at"))
    assert numbers(view(catalog, ahead)) == [3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("column", ["at", "local", "born"])
def test_without_bounds_the_days_are_read(catalog: Catalog, column: str) -> None:
    """As of columns beyond the hundredth, of which Iceberg keeps none."""
    trips = create(catalog, "trips", **{"write.metadata.metrics.default": "none"})
    values = {"at": at(5, 23), "local": at(5, 23).replace(tzinfo=None), "born": at(5).date()}
    append(trips, {"id": 1, column: values[column]}, {"id": 2})
    assert column_periods(trips, head(catalog)["silver_shop.trips"], column, Grain.DAY) == {at(5).date()}
    assert numbers(view(catalog, mart(Input("shop", "trips", Follow.DAY, column)))) == [5]


@pytest.mark.parametrize("column", ["at", "local", "born"])
def test_days_of_every_type_of_column(catalog: Catalog, column: str) -> None:
    moments = {"at": at, "local": lambda d: at(d).replace(tzinfo=None), "born": lambda d: at(d).date()}
    append(create(catalog, "trips"), *({"id": day, column: moments[column](day)} for day in (4, 6)))
    assert numbers(view(catalog, mart(Input("shop", "trips", Follow.DAY, column)))) == [4, 5, 6]


def test_a_marker_is_no_date_and_hides_none_beside_it(catalog: Catalog) -> None:
    """A trip that ends on 9999-12-31 does not make a mart of three million days, nor do other trips lose theirs."""
    trips, never = create(catalog, "trips"), datetime(9999, 12, 31, tzinfo=UTC)
    append(trips, {"id": 1, "at": at(5)}, {"id": 2, "at": at(7)}, {"id": 3, "at": never})
    found = view(catalog)
    assert found is not None
    assert found.work == (*(at(day).date() for day in (5, 6, 7)), never.date())
    append(trips, {"id": 4, "at": datetime(1, 1, 1, tzinfo=UTC)}, {"id": 5, "at": at(6)})
    found = view(catalog)
    assert found is not None
    assert found.work == (date(1, 1, 1), *(at(day).date() for day in (5, 6, 7)), never.date())


GRAINS = {Grain.HOUR: 49, Grain.DAY: 3, Grain.WEEK: 2, Grain.MONTH: 1}
"""By grain, how many periods 5 March 2024, 12:00 (a Tuesday) to the 7th (a Thursday) have at most, up to the 9th."""


@pytest.mark.parametrize(("year", "apart"), [(1, False), (1900, True), (1970, False), (9999, False)])
@pytest.mark.parametrize("grain", GRAINS)
@pytest.mark.parametrize("follow", [Follow.DAY, Follow.DAY_ONWARDS])
def test_a_marker_stretches_no_range(
    catalog: Catalog, follow: Follow, grain: Grain, year: int, *, apart: bool
) -> None:
    """With the default start_date, at the first computation and at the next one."""
    rule, gold = Input("shop", "trips", follow, "at"), GoldConfig()
    columns = (parse_column("day", "timestamptz"),) if grain is Grain.HOUR else DAILY.columns
    of = replace(mart(rule), partitions=grain, columns=columns)
    marker = datetime(year, 12, 31 if year > 1900 else 1, tzinfo=UTC)
    trips, others = create(catalog, "trips"), [{"id": 1, "at": at(5)}, {"id": 2, "at": at(7)}]
    for rows in [[{"id": 3, "at": marker}], others] if apart else [[{"id": 3, "at": marker}, *others]]:
        append(trips, *rows)
    found = mart_view(LoadedTables(catalog), of, gold)
    assert found is not None
    inside = [period for period in found.work if period != grain.of(marker)]
    assert len(inside) <= GRAINS[grain] + 54 * (follow is Follow.DAY_ONWARDS)
    assert {grain.of(at(5)), grain.of(at(7))} <= set(inside), "the marker hides no row beside it"
    assert grain.of(marker) in found.work, "it stays on the list, so that it is told"
    assert grain.of(marker) not in found.span


def test_what_was_years_ago_is_computed_without_the_time_between(catalog: Catalog) -> None:
    """A date that may be right is computed; there is nothing in the years after it."""
    trips, long_ago = create(catalog, "trips"), datetime(2004, 2, 29, tzinfo=UTC)
    append(trips, {"id": 1, "at": long_ago}, {"id": 2, "at": at(5)}, {"id": 3, "at": at(7)})
    found = mart_view(LoadedTables(catalog), DAILY, GoldConfig())
    assert found is not None
    assert found.work == (long_ago.date(), *(at(day).date() for day in (5, 6, 7)))


def test_days_that_the_mart_has_are_computed_anew_too(catalog: Catalog) -> None:
    """So that those are cleared whose rows are gone."""
    append(create(catalog, "trips"), {"id": 1, "at": at(5)})
    computed(catalog, Consumption({"silver_shop.trips": 1}, frozenset(), NOW), at(3).date(), at(8).date())
    assert numbers(view(catalog)) == [3, 5, 8]


def test_a_day_computed_before_all_data_widens_no_range(catalog: Catalog) -> None:
    """A backfill of the 1st, on which nothing is: neither every day since is computed, nor is a gap forgotten."""
    trips = create(catalog, "trips")
    append(trips, {"id": 1, "at": at(6)}, {"id": 2, "at": at(7)})
    first = view(catalog)
    assert first is not None
    state = Consumption(head(catalog), frozenset(), NOW, span=first.span)
    computed(catalog, state, *(at(day).date() for day in (1, 6, 7)))
    other = GoldConfig(start_date=GOLD.start_date, settings={"limit": 20})
    assert numbers(mart_view(LoadedTables(catalog), DAILY, other)) == [1, 6, 7]
    append(trips, {"id": 3, "at": at(3)})
    assert numbers(view(catalog)) == [3, 4, 5]


def test_a_span_grows_with_the_data_alone(catalog: Catalog) -> None:
    trips = create(catalog, "trips")
    append(trips, {"id": 1, "at": at(5)})
    computed(catalog, Consumption(head(catalog), frozenset(), NOW, span=frozenset({at(5).date()})))
    append(trips, {"id": 2, "at": at(7)}, {"id": 3, "at": datetime(9999, 12, 31, tzinfo=UTC)})
    found = view(catalog)
    assert found is not None
    assert found.span == {at(5).date(), at(7).date()}
    computed(catalog, Consumption(head(catalog), frozenset(), NOW, span=found.span))
    after = view(catalog)
    assert after is not None
    assert (after.span, after.work) == (found.span, ())

"""What a look at the tables makes stale, over tables that PyIceberg writes: no Spark.

Here: metadata that real histories have seldom. Not here: the decision over summaries (`test_changed_periods.py`),
silver as the engine writes it (`test_incremental.py`).
"""

from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import BaseModel
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from lake_assets.config import GoldConfig, parse_column
from lake_assets.errors import LakeError
from lake_assets.gold.consumption import Consumption, fingerprint
from lake_assets.gold.mart import Follow, Input, Mart
from lake_assets.gold.periods.grain import Grain, Periods
from lake_assets.gold.registry import tracked_columns
from lake_assets.gold.sql_mart import SqlQuery
from lake_assets.gold.table_snapshots import LoadedTables, column_bounds
from lake_assets.gold.view import MartView, mart_view
from lake_assets.silver.table.targets import Tracked
from lake_assets_tests.helpers.lakes.small_lakes import lake_config

ARROW = {
    "id": pa.int32(),
    "at": pa.timestamp("us", tz="UTC"),
    "ended": pa.timestamp("us", tz="UTC"),
    "local": pa.timestamp("us"),
    "born": pa.date32(),
}
NOW = datetime(2024, 3, 9, 18, tzinfo=UTC)
GOLD = GoldConfig(start_date=date(2024, 3, 1), settings={"limit": 30})
POSITION = {
    "lake.log-offset": "7",
    "lake.epoch": "1",
    "lake.max-sequence": "1",
    "lake.max-commit-ts": NOW.isoformat(),
}


def at(day: int, hour: int = 12) -> datetime:
    return datetime(2024, 3, day, hour, tzinfo=UTC)


def mart(*rules: Input, partition_column: str | None = "day") -> Mart:
    return Mart(
        name="mart",
        description="",
        inputs={rule.table + (rule.column or ""): rule for rule in rules},
        columns=(parse_column("day", "date"),),
        compute=lambda request: request.inputs["x"],
        partition_column=partition_column,
    )


DAILY = mart(Input("shop", "trips", Follow.DAY, "at"))


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    for namespace in ("silver_shop", "gold"):
        catalog.create_namespace(namespace)
    return catalog


def create(catalog: Catalog, name: str, **properties: str) -> Table:
    schema = pa.schema(list(ARROW.items()))
    return catalog.create_table(
        f"silver_shop.{name}", schema, properties={"format-version": "2", **properties}
    )


def append(table: Table, *rows: dict[str, Any], **properties: str) -> None:
    """One commit as the engine's last one of a batch."""
    touched = ",".join(sorted({str(row["at"].date()) for row in rows if row.get("at")}))
    given = POSITION | {"lake.touched-days.at": touched} | properties
    columns = {name: [row.get(name) for row in rows] for name in ARROW}
    arrow = pa.table(columns, schema=pa.schema(list(ARROW.items())))
    table.append(arrow, snapshot_properties={n: v for n, v in given.items() if v})


def computed(catalog: Catalog, state: Consumption, *held: date) -> None:
    """The mart as a run leaves it."""
    schema = pa.schema([("day", pa.date32())])
    if not catalog.table_exists("gold.mart"):
        table = catalog.create_table("gold.mart", schema)
        with table.update_spec() as spec:
            spec.add_field("day", IdentityTransform(), "day")
    table = catalog.load_table("gold.mart")
    if not state.settings:
        state = replace(state, settings=fingerprint(GOLD.settings))
    table.overwrite(pa.table({"day": list(held)}, schema=schema), snapshot_properties=state.properties())


def view(catalog: Catalog, of: Mart = DAILY) -> MartView | None:
    return mart_view(LoadedTables(catalog), of, GOLD)


def numbers(found: MartView | None) -> list[int]:
    """Days of March 2024 to be computed."""
    assert found is not None
    assert found.stale == bool(found.work)
    return [(day - date(2024, 2, 29)).days for day in found.work]


def head(catalog: Catalog, name: str = "trips") -> dict[str, int]:
    current = catalog.load_table(f"silver_shop.{name}").current_snapshot()
    assert current is not None
    return {f"silver_shop.{name}": current.snapshot_id}


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


def test_without_bounds_every_partition_there_is(catalog: Catalog) -> None:
    """As of columns beyond the hundredth, of which Iceberg keeps none."""
    trips = create(catalog, "trips", **{"write.metadata.metrics.default": "none"})
    append(trips, {"id": 1, "at": at(5)})
    assert column_bounds(trips, head(catalog)["silver_shop.trips"], "at", Grain.DAY) is None
    assert numbers(view(catalog)) == list(range(1, 10))


@pytest.mark.parametrize("column", ["at", "local", "born"])
def test_days_of_every_type_of_column(catalog: Catalog, column: str) -> None:
    moments = {"at": at, "local": lambda d: at(d).replace(tzinfo=None), "born": lambda d: at(d).date()}
    append(create(catalog, "trips"), *({"id": day, column: moments[column](day)} for day in (4, 6)))
    assert numbers(view(catalog, mart(Input("shop", "trips", Follow.DAY, column)))) == [4, 5, 6]


def test_a_marker_is_no_date_and_hides_those_beside_it(catalog: Catalog) -> None:
    """A trip that ends on 9999-12-31 does not make a mart of three million days, nor do other trips lose theirs."""
    trips, never = create(catalog, "trips"), datetime(9999, 12, 31, tzinfo=UTC)
    append(trips, {"id": 1, "at": at(5)}, {"id": 2, "at": at(7)}, {"id": 3, "at": never})
    found = view(catalog)
    assert found is not None
    assert found.work == (*(at(day).date() for day in (5, 6, 7, 8, 9)), never.date())
    append(trips, {"id": 4, "at": datetime(1, 1, 1, tzinfo=UTC)}, {"id": 5, "at": at(6)})
    found = view(catalog)
    assert found is not None
    assert found.work == (date(1, 1, 1), *(at(day).date() for day in range(1, 10)), never.date())


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


def work(catalog: Catalog, of: Mart) -> list[Any]:
    found = view(catalog, of)
    assert found is not None
    return list(found.work)


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
        ("shop", "trips"): Tracked(days=("Closed", "ended")),
        ("shop", "trips_changes"): Tracked(days=("ended",)),
    }


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

"""What the demonstration shows in the end: every kind of difference, none where there is none, rows of marts."""

import hmac
from datetime import date
from decimal import Decimal
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog

from lake_assets.demo.compare import compare_with_source, source_rows
from lake_assets.demo.demo_commands import top_rows
from lake_assets.demo.dms.dms_parquet import arrow_type
from lake_assets.demo.replay import replay_files
from lake_assets.demo.source.bike_schema import TABLES
from lake_assets.demo.source_masks import SourceMasks
from lake_assets_tests.helpers.oracles.demo_history import History, make_history


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> History:
    return make_history(tmp_path_factory.mktemp("small"), changes=500, days=1)


@pytest.fixture
def arrow(small) -> dict[str, pa.Table]:
    """The tables as a correct lake holds them."""
    replayed = replay_files(small.folder, small.settings)
    return {
        name: pa.Table.from_pylist(
            replayed[name],
            schema=pa.schema([pa.field(column.name, arrow_type(column)) for column in table.columns]),
        )
        for name, table in TABLES.items()
    }


@pytest.fixture
def catalog(tmp_path) -> Catalog:
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("silver")
    return catalog


def compare(catalog: Catalog, arrow: dict[str, pa.Table], small: History):
    for name, rows in arrow.items():
        catalog.create_table(f"silver.{name}", rows.schema).append(rows)
    return {found.table: found for found in compare_with_source(catalog, "silver", small.database)}


def set_value(table: pa.Table, row: int, column: str, value) -> pa.Table:
    at = table.column_names.index(column)
    values = table.column(column).to_pylist()
    values[row] = value
    return table.set_column(
        at, table.schema.field(column), pa.array(values, type=table.schema.field(column).type)
    )


def test_equal(catalog, arrow, small):
    found = compare(catalog, arrow, small)
    assert list(found) == list(TABLES)
    assert all(comparison.equal for comparison in found.values()), found
    assert found["trips"].rows_in_source == found["trips"].rows_in_lake > 400


def test_masked_columns_are_compared_with_masked_values(catalog, arrow, small):
    masks = SourceMasks({"members": {"email": "hash", "full_name": "redact", "birth_date": "null"}}, "pepper")
    emails = arrow["members"].column("email").to_pylist()
    for row, email in enumerate(emails):
        hashed = hmac.new(b"pepper", email.encode(), "sha256").hexdigest()
        for column, value in (("email", hashed), ("full_name", "***"), ("birth_date", None)):
            if row or column != "email":
                arrow["members"] = set_value(arrow["members"], row, column, value)
    plain = compare(catalog, arrow, small)["members"]
    assert plain.different == len(emails)
    found = {c.table: c for c in compare_with_source(catalog, "silver", small.database, masks)}
    assert found["members"].different == 1, "one e-mail address is still plain"
    assert found["trips"].equal


def test_every_difference_is_found(catalog, arrow, small):
    trips = arrow["trips"]
    ids = trips.column("trip_id").to_pylist()
    distance = next(row for row, km in enumerate(trips.column("distance_km").to_pylist()) if km is not None)
    above = float.fromhex(trips.column("distance_km")[distance].as_py().hex()) * (1 + 2**-52)
    trips = set_value(trips, distance, "distance_km", above)
    trips = trips.filter(pc.not_equal(trips.column("trip_id"), ids[-1]))
    arrow["trips"] = pa.concat_tables(
        [trips, trips.slice(5, 1), set_value(trips.slice(6, 1), 0, "trip_id", 1)]
    )
    events = arrow["app_events"]
    arrow["app_events"] = pa.concat_tables([events.slice(2), events.slice(7, 1)])
    notes = arrow["members"].column("note").to_pylist()
    arrow["members"] = set_value(arrow["members"], notes.index(None), "note", "")
    tickets = arrow["maintenance_tickets"]
    arrow["maintenance_tickets"] = set_value(tickets, 0, "cost", Decimal("0.01"))

    found = compare(catalog, arrow, small)
    trips_found = found["trips"]
    assert (trips_found.missing, trips_found.unexpected, trips_found.different) == (1, 2, 1)
    assert trips_found.examples == {
        "missing": [(ids[-1],)],
        "unexpected": [(ids[5],), (1,)],
        "different": [(ids[distance],)],
    }
    assert (found["app_events"].missing, found["app_events"].unexpected) == (2, 1)
    assert found["members"].different == 1
    assert found["maintenance_tickets"].examples["different"] == [
        tuple(tickets.column(name)[0].as_py() for name in ("bike_id", "ticket_no"))
    ]
    assert {name for name, comparison in found.items() if comparison.equal} == {
        "stations",
        "bikes",
        "station_status",
    }


def test_other_types_and_columns_are_not_equal(catalog, arrow, small):
    arrow["bikes"] = arrow["bikes"].set_column(
        3, "battery_percent", arrow["bikes"].column("battery_percent").cast(pa.decimal128(6, 2))
    )
    arrow["stations"] = arrow["stations"].append_column("_op", pa.array(["I"] * arrow["stations"].num_rows))
    arrow["members"] = arrow["members"].drop_columns(["note"])
    del arrow["station_status"]
    found = compare(catalog, arrow, small)
    assert found["bikes"].schema_problems == [
        "battery_percent is decimal128(6, 2), expected decimal128(5, 2)"
    ]
    assert "_op" in found["stations"].schema_problems[0]
    assert found["members"].different > 0
    assert found["station_status"].missing == found["station_status"].rows_in_source > 0
    assert found["station_status"].schema_problems == ["the catalog has no table silver.station_status"]
    assert not any(found[name].equal for name in ("bikes", "stations", "members", "station_status"))
    assert found["trips"].equal


def test_five_examples_at_most(catalog, arrow, small):
    arrow = {name: rows.slice(0, 0) for name, rows in arrow.items()}
    found = compare(catalog, arrow, small)
    for comparison in found.values():
        assert comparison.missing == comparison.rows_in_source > 5
        assert len(comparison.examples["missing"]) == 5


def test_no_database(tmp_path):
    with pytest.raises(FileNotFoundError):
        source_rows(tmp_path / "none.db")


def test_the_rows_that_the_demonstration_shows_are_of_a_day_that_is_over(catalog):
    days = [date(2026, 3, 1), date(2026, 3, 2), date(2026, 3, 2), date(2026, 3, 3)]
    rows = pa.table({"day": days, "trips": [9, 1, 5, 7]})
    catalog.create_table("silver.mart", rows.schema).append(rows.slice(0, 1))
    shown = partial(top_rows, catalog, "silver.mart", "trips", 2)
    assert [row["trips"] for row in shown(True)] == [9], "there is no other day"
    catalog.load_table("silver.mart").overwrite(rows)
    assert [row["trips"] for row in shown(True)] == [5, 1]
    assert [row["trips"] for row in shown(False)] == [9, 7]

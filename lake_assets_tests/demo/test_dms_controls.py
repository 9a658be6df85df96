"""The demonstration's control records, read as the lake reads them."""

from lake_assets.bronze.stream.messages import Control, parse
from lake_assets.bronze.stream.table_definitions import defined
from lake_assets.demo.dms.dms_controls import column_added, created
from lake_assets.demo.source.bike_schema import TABLES, Column

AT = "2026-03-01T12:00:00.123456Z"


def control(value: bytes) -> Control:
    found = parse(value)
    assert isinstance(found, Control)
    return found


def test_tables_have_the_types_of_lake_yaml() -> None:
    dropped, made = (control(value) for value in created(TABLES["bikes"], AT))
    assert (dropped.metadata.operation, made.metadata.operation) == ("drop-table", "create-table")
    definition = defined(made, None, None)
    assert definition is not None
    assert definition["bike_id"] == "int64"
    assert definition["battery_percent"] == "decimal128(5, 2)"
    assert definition["is_electric"] == "bool"
    added = control(column_added(TABLES["bikes"], Column("painted_on", "date", False), AT))
    assert defined(added, definition, None) == {**definition, "painted_on": "date32[day]"}

"""What the demonstration sends to a stream, read as the lake reads it."""

import json

from lake_assets.bronze.stream.messages import Change, parse
from lake_assets.demo.dms.dms_layout import DmsLayout
from lake_assets.demo.dms.dms_messages import encode_messages
from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.source import source_changes
from lake_assets.demo.source.bike_schema import Column, SourceTable

SETTINGS = DmsWriterSettings(data_format="messages")
TABLE = SourceTable(
    "things",
    (
        Column("id", "long", True),
        Column("price", "decimal(38, 10)", False),
        Column("weight", "double", False),
        Column("sold", "boolean", False),
        Column("at", "timestamptz", False),
        Column("day", "date", False),
        Column("name", "string", False),
    ),
    ("id",),
)
AT = "2026-03-01 12:00:00.123456"
IMAGE = (7, "12345678901234567890.1000000000", 0.1, 1, AT, "2026-03-01", 'a "quoted", "data": {text}\n')


def sent(op: str, image: tuple[object, ...], before: tuple[object, ...] | None = None) -> Change:
    """The change as a message, with the metadata that the storage adds."""
    change = source_changes.Change("things", op, AT, "2" * 35, before, image)  # type: ignore[arg-type]
    (line,) = encode_messages(DmsLayout(TABLE, SETTINGS).cdc([change]), SETTINGS).splitlines()
    said = {"record-type": "data", "schema-name": "public", "table-name": "things", "operation": "update"}
    found = parse(b'{"metadata": ' + json.dumps(said).encode() + b", " + line[line.index(b'"data": ') :])
    assert isinstance(found, Change)
    assert json.loads(line)["op"] == op
    assert json.loads(line)["at"] == "2026-03-01T12:00:00.123456Z"
    return found


def test_values_are_those_of_a_postgresql_source() -> None:
    assert sent("U", IMAGE).values == {
        "id": "7",
        "price": "12345678901234567890.1000000000",
        "weight": "0.1",
        "sold": "t",
        "at": "2026-03-01T12:00:00.123456Z",
        "day": "2026-03-01",
        "name": 'a "quoted", "data": {text}\n',
        "change_seq": "2" * 35,
    }


def test_a_key_that_changes_has_a_before_image() -> None:
    assert sent("U", IMAGE, (6,)).before == {"id": "6"}
    assert sent("U", IMAGE, (7,)).before == {}


def test_a_delete_has_its_key_only() -> None:
    values = dict(sent("D", IMAGE).values)
    assert (values.pop("id"), values.pop("change_seq")) == ("7", "2" * 35)
    assert {*values.values()} == {None}

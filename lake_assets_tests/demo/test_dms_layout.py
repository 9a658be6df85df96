"""Which columns and values a file shows under which settings."""

import pytest

from lake_assets.demo.dms.dms_layout import DmsLayout
from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.source.bike_schema import TABLES
from lake_assets.demo.source.source_changes import Change

TICKETS = TABLES["maintenance_tickets"]
AT = "2026-03-02 01:00:00.000000"
SEQUENCE = "2026030201000000" + f"{400:019d}"
ROW = (5, 2, "2026-03-01 00:00:00.000000", None, "low", "", None)
OLD_KEY_ONLY = (5, 1, None, None, None, None, None)


def change(op: str, before_key=None) -> Change:
    return Change(TICKETS.name, op, AT, SEQUENCE, before_key, ROW)


def cdc(settings: DmsWriterSettings, *changes: Change):
    return DmsLayout(TICKETS, settings).cdc(changes).rows


def names(table: str, settings: DmsWriterSettings, *, full_load: bool) -> list[str]:
    return [column.name for column in DmsLayout(TABLES[table], settings).columns(full_load=full_load)]


def test_column_order():
    source = list(TICKETS.column_names)
    defaults = DmsWriterSettings()
    expected = ["Op", "commit_ts", *source, "change_seq", "BI_bike_id", "BI_ticket_no"]
    assert names(TICKETS.name, defaults, full_load=False) == expected
    assert names(TICKETS.name, defaults, full_load=True) == expected
    assert names("app_events", defaults, full_load=False)[-1] == "change_seq", "no key, no before image"
    bare = DmsWriterSettings(
        include_op_for_full_load=False,
        change_sequence_column=None,
        before_image_prefix=None,
        timestamp_column_name="ts",
    )
    assert names(TICKETS.name, bare, full_load=True) == ["ts", *source]
    assert names(TICKETS.name, bare, full_load=False) == ["Op", "ts", *source]


def test_before_image_where_the_key_changed():
    settings = DmsWriterSettings()
    assert cdc(settings, change("U", (5, 1))) == [("U", AT, *ROW, SEQUENCE, 5, 1)]
    assert cdc(settings, change("U", (5, 2))) == [("U", AT, *ROW, SEQUENCE, None, None)]
    assert cdc(settings, change("I")) == [("I", AT, *ROW, SEQUENCE, None, None)]


def test_before_image_on_every_update():
    settings = DmsWriterSettings(before_image="always")
    assert cdc(settings, change("U", (5, 2))) == [("U", AT, *ROW, SEQUENCE, 5, 2)]
    assert cdc(settings, change("D")) == [("D", AT, 5, 2, None, None, None, None, None, SEQUENCE, None, None)]


def test_without_before_images_a_key_change_is_a_delete_and_an_insert():
    settings = DmsWriterSettings(before_image_prefix=None)
    above = "2026030201000000" + f"{401:019d}"
    assert cdc(settings, change("U", (5, 1))) == [
        ("D", AT, *OLD_KEY_ONLY, SEQUENCE),
        ("I", AT, *ROW, above),
    ]
    assert cdc(settings, change("U", (5, 2))) == [("U", AT, *ROW, SEQUENCE)]


def test_deletes_with_the_whole_row():
    assert cdc(DmsWriterSettings(delete_image="full"), change("D")) == [("D", AT, *ROW, SEQUENCE, None, None)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"data_format": "orc"},
        {"compression": "zstd"},
        {"before_image": "never"},
        {"delete_image": "none"},
        {"csv_null_value": "a,b"},
        {"timestamp_column_name": ""},
    ],
)
def test_impossible_settings(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        DmsWriterSettings(**wrong)


def test_settings_survive_being_kept():
    settings = DmsWriterSettings(data_format="parquet", before_image_prefix=None, csv_null_value="")
    assert DmsWriterSettings.from_json(settings.to_json()) == settings

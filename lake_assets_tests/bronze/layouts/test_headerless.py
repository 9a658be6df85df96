"""CSV without a header: what a file's width and time say of its columns.

Here: decisions, as a table. Not here: files that name their columns (`test_layouts.py`), reading (`test_reader.py`).
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.layouts.headerless import (
    FileFacts,
    agreed_layout,
    dated,
    headerless_layouts,
    is_shifted,
    layouts_by_row,
    refuse_open_layout,
)
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.errors import TableStopped
from lake_assets.words import many
from lake_assets_tests.helpers.files.records import logged

TABLE: dict[str, Any] = {
    "columns": {"id": "long", "part": "string", "title": "string", "size": "int"},
    "primary_key": ["id", "part"],
    "renamed_from": {"title": "name"},
    "earlier": [
        {"until_file": "20240301-000000000", "columns": {"id": "long", "part": "string"}},
        {
            "until_sequence": "2024070510150000" + "0" * 19,
            "columns": {"id": "long", "part": "string", "name": "string"},
        },
    ],
}
DMS: dict[str, Any] = {
    "timestamp_column_name": "ts",
    "change_sequence_column": "seq",
    "before_image_prefix": "BI_",
    "added_columns": ["host", "app", "seq"],
}
FEBRUARY, MAY, AUGUST = (datetime(2024, month, 5, tzinfo=UTC) for month in (2, 5, 8))


def file(width: int | None, when: datetime = AUGUST, kind: FileKind = FileKind.CDC) -> LoggedFile:
    flushed = when if kind is FileKind.CDC else None
    return logged(
        1,
        "public/items/f.csv",
        kind=kind,
        last_modified=AUGUST,
        flush_time=flushed,
        first_commit_ts=when,
        width=width,
    )


def layouts(found: LoggedFile, **settings: Any) -> list[str]:
    """The layouts that the file may have."""
    table = TableConfig.model_validate(TABLE)
    dms = DmsSettings.model_validate(DMS | settings)
    return [" ".join(one.columns) for one in headerless_layouts("public.items", found, table, dms)]


def layout(found: LoggedFile, **settings: Any) -> str:
    (only,) = layouts(found, **settings)
    return only


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (file(11), "Op ts id part title size host app seq BI_id BI_part"),
        (file(None), "Op ts id part title size host app seq BI_id BI_part"),  # no row to tell by
        (file(10), "Op ts id part title size host app BI_id BI_part"),
        (file(7), "Op ts id part title size seq"),
        (file(6), "Op ts id part title size"),
        (file(10, MAY), "Op ts id part title host app seq BI_id BI_part"),
        (file(5, MAY), "Op ts id part title"),
        (file(9, FEBRUARY), "Op ts id part host app seq BI_id BI_part"),
        (file(4, FEBRUARY), "Op ts id part"),
        (file(10, AUGUST, FileKind.LOAD), "ts id part title size host app seq BI_id BI_part"),
        (file(4, MAY, FileKind.LOAD), "ts id part title"),
    ],
)
def test_columns_that_dms_adds_come_and_go_and_columns_of_the_source_by_time(
    found: LoggedFile, expected: str
) -> None:
    assert layout(found) == expected


@pytest.mark.parametrize("width", [1, 5, 12])
def test_a_width_that_no_layout_explains_stops_the_table(width: int) -> None:
    with pytest.raises(TableStopped) as stopped:
        layout(file(width))
    assert str(stopped.value).startswith(
        f"public.items: public/items/f.csv has {many(width, 'field')} and no header, and lake.yaml "
        "expects 11: Op, ts, id"
    )


def test_a_width_that_two_layouts_explain_leaves_both() -> None:
    # Two added columns are as wide as the before image of a key of two parts.
    both = ["Op ts id part title size BI_id BI_part", "Op ts id part title size host app"]
    assert sorted(layouts(file(8))) == both


SIMPLE: dict[str, Any] = {"columns": {"id": "long", "v": "string"}, "primary_key": ["id"]}
PLAIN: dict[str, Any] = {
    "timestamp_column_name": "ts",
    "change_sequence_column": "seq",
    "before_image_prefix": "BI_",
}
"""An endpoint whose before images came later."""
LAST = 4


def facts(rows: int, filled: int, sequences: int = 0, unfit: int = 0, image: str = "BI_id") -> FileFacts:
    return FileFacts(rows, {LAST: filled}, {LAST: sequences}, {(LAST, image): unfit})


def decided(found: FileFacts | None, kind: FileKind = FileKind.CDC, **settings: Any) -> str | None:
    """The last column's name, or None where it stays open."""
    table, dms = TableConfig.model_validate(SIMPLE), DmsSettings.model_validate(PLAIN | settings)
    kept = dms if kind is FileKind.CDC else dms.model_copy(update={"include_op_for_full_load": True})
    may_be = headerless_layouts("public.items", file(5, kind=kind), table, kept)
    assert len(may_be) > 1
    chosen = agreed_layout(may_be, kind, found, kept)
    return chosen.columns[-1] if chosen else None


def test_a_last_field_is_the_sequence_or_the_before_image() -> None:
    table = TableConfig.model_validate(SIMPLE)
    found = headerless_layouts("public.items", file(5), table, DmsSettings.model_validate(PLAIN))
    assert [one.columns[-1] for one in found] == ["seq", "BI_id"]


@pytest.mark.parametrize(
    ("values", "last"),
    [
        (facts(rows=3, filled=0), "seq"),  # empty throughout: either says the same
        (facts(rows=3, filled=3, sequences=3, unfit=3), "seq"),
        (facts(rows=3, filled=3, sequences=3), "seq"),  # of a text key: 35 digits in every row are proof
        (facts(rows=3, filled=1), "BI_id"),  # no 35 digits
        (facts(rows=3, filled=1, unfit=1), None),  # neither
        (
            facts(rows=3, filled=2, sequences=2),
            None,
        ),  # a text key of 35 digits, or a sequence that some rows lack
        (facts(rows=3, filled=2, sequences=2, unfit=2), "seq"),
    ],
)
def test_values_decide_what_a_last_field_is(values: FileFacts, last: str | None) -> None:
    assert decided(values) == last


def test_a_sequence_in_the_place_of_a_source_column_is_a_shift() -> None:
    table, dms = TableConfig.model_validate(SIMPLE), DmsSettings.model_validate(PLAIN)
    (one,) = headerless_layouts("public.items", file(4), table, dms)  # neither a sequence nor a before image
    assert agreed_layout([one], FileKind.CDC, None, dms) is None, "its values have to be looked at"
    assert is_shifted([one], FileFacts(3, {}, {3: 3}, {}), dms, ["id"])
    assert not is_shifted([one], FileFacts(3, {}, {3: 2}, {}), dms, ["id"])
    assert not is_shifted([one], FileFacts(0, {}, {3: 0}, {}), dms, ["id"])
    assert not is_shifted([one], FileFacts(3, {}, {2: 3}, {}), dms, ["id"]), "a key may look like a sequence"
    both = headerless_layouts("public.items", file(5), table, dms)
    assert not is_shifted(both, FileFacts(3, {}, {4: 3}, {}), dms, ["id"]), "the sequence has its own place"


def test_an_added_column_may_hold_anything() -> None:
    host: dict[str, Any] = {"added_columns": ["host"]}
    assert decided(facts(rows=3, filled=1), **host) is None
    assert decided(facts(rows=3, filled=1, unfit=1), **host) == "host"
    assert decided(facts(rows=3, filled=3, sequences=3, unfit=3), **host) == "seq"
    assert decided(facts(rows=3, filled=0), **host) is not None


def test_a_full_load_has_neither_sequence_nor_before_image() -> None:
    assert decided(None, FileKind.LOAD) == "seq"
    assert decided(None) is None


def test_what_stays_open_is_refused_with_what_to_write() -> None:
    table, dms = TableConfig.model_validate(SIMPLE), DmsSettings.model_validate(PLAIN)
    found = file(5)
    both = headerless_layouts("public.items", found, table, dms)
    told = str(refuse_open_layout("public.items", found, both, dms))
    assert "public/items/f.csv has 5 fields and no header" in told
    assert "(Op, ts, id, v, seq) or (Op, ts, id, v, BI_id)" in told
    assert "under earlier of the table, until_file:" in told
    assert "dms: {change_sequence_column: null} or {before_image_prefix: null}" in told


def test_settings_of_an_earlier_time() -> None:
    earlier = [
        {"until_file": "20240301-000000000", "dms": {"change_sequence_column": None}},
        {"until_file": "20240601-000000000", "dms": {"before_image_prefix": None}},
        {"until_sequence": "2024070510150000" + "0" * 19, "columns": {"id": "long"}},
    ]
    table = TableConfig.model_validate(SIMPLE | {"earlier": earlier})
    dms = DmsSettings.model_validate(PLAIN)

    def at(when: datetime) -> str:
        (only,) = headerless_layouts("public.items", file(None, when), table, dms)
        return " ".join(only.columns)

    june = datetime(2024, 6, 5, tzinfo=UTC)
    # What an entry leaves out is as in the next one.
    assert at(AUGUST) == "Op ts id v seq BI_id"
    assert at(june) == "Op ts id seq BI_id"
    assert at(MAY) == "Op ts id seq"
    assert at(FEBRUARY) == "Op ts id"


def test_a_full_load_without_transfer_times_is_older_than_the_first_change() -> None:
    load = replace(file(5, kind=FileKind.LOAD), first_commit_ts=None, last_modified=AUGUST)
    changes = [file(5, MAY), file(5, FEBRUARY)]
    (found,) = dated([load], changes)
    assert found.written_at < FEBRUARY
    assert dated([load], []) == [load]
    stamped = replace(load, first_commit_ts=MAY)
    reload = replace(load, epoch=2)
    assert dated([stamped, reload], changes) == [stamped, reload]
    old = replace(load, last_modified=FEBRUARY.replace(year=2020))
    assert dated([old], changes) == [old]


@pytest.mark.parametrize(
    ("first", "flushed", "width", "by_row"),
    [
        ("2024-07-05 10:14:00", "2024-07-05 10:16:00", 10, True),
        ("2024-07-05 10:14:00", "2024-07-05 10:16:00", 11, True),
        ("2024-07-05 10:14:00", "2024-07-05 10:14:30", 10, True),  # by a clock that is late
        ("2024-07-05 10:14:00", "2024-07-05 10:16:00", 9, False),  # a width of neither
        ("2024-07-05 10:15:00", "2024-07-05 10:16:00", 11, False),
        ("2024-07-05 08:14:00", "2024-07-05 08:15:00", 10, False),
        ("2024-02-28 23:00:00", "2024-03-01 01:00:00", 9, False),  # that layout ends with a file
    ],
)
def test_a_change_of_columns_may_fall_into_a_file(first: str, flushed: str, width: int, by_row: bool) -> None:
    begin, end = (datetime.fromisoformat(f"{moment}+00:00") for moment in (first, flushed))
    found = replace(file(width), first_commit_ts=begin, flush_time=end)
    layouts = layouts_by_row(found, TableConfig.model_validate(TABLE), DmsSettings.model_validate(DMS))
    assert (layouts is not None) == by_row
    if layouts is not None:
        assert [len(layout.columns) for layout in layouts.layouts] == [10, 11]
        assert layouts.ends == ("2024070510150000" + "0" * 19,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"earlier": TABLE["earlier"][::-1]}, "must be listed from the oldest to the newest"),
        (
            {"earlier": [{"until_file": "20240301-000000000"}]},
            "needs columns, dms, or both",
        ),
        (
            {"earlier": [{"until_file": "20240301-000000000", "dms": {"rfc_4180": False}}]},
            "rfc_4180: cannot differ in an earlier layout; these can: include_op",
        ),
        ({"earlier": [{"columns": {"id": "long"}}]}, "needs either until_file or until_sequence"),
        ({"earlier": [{"until_file": "yesterday", "columns": {"id": "long"}}]}, "YYYYMMDD-HHMMSSmmm"),
        ({"renamed_from": {"titel": "name"}}, "is not a column; did you mean title?"),
        ({"renamed_from": {"title": "size"}}, "is renamed from size, which columns still has"),
        ({"defaults": {"siez": 1}}, "is not a column; did you mean size?"),
    ],
)
def test_mistakes_of_lake_yaml(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="validation error") as refused:
        TableConfig.model_validate(TABLE | change)
    assert message in str(refused.value)

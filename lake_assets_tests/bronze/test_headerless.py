"""CSV without a header: what a file's width and time say of its columns.

Here: decisions, as a table. Not here: files that name their columns (`test_layouts.py`), reading (`test_reader.py`).
"""

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from lake_assets.bronze.headerless import headerless_layout, layouts_by_row
from lake_assets.bronze.keys import FileKind
from lake_assets.bronze.log_record import LoggedFile
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.errors import TableStopped

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
    return LoggedFile(
        offset=1, source="s", schema="public", table="items", key="public/items/f.csv", version="v", kind=kind,
        format="csv", compression="none", size=1, last_modified=AUGUST, logged_at=AUGUST,
        flush_time=when if kind is FileKind.CDC else None, capture_date=date(2024, 8, 5), epoch=1, rows=1,
        columns=None, first_commit_ts=when, width=width,
    )  # fmt: skip


def layout(found: LoggedFile, **settings: Any) -> str:
    table = TableConfig.model_validate(TABLE)
    dms = DmsSettings.model_validate(DMS | settings)
    return " ".join(headerless_layout("public.items", found, table, dms).columns)


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
        f"public.items: public/items/f.csv has {width} fields and no header, and lake.yaml expects 11: Op, ts, id"
    )


def test_a_width_that_two_layouts_explain_stops_the_table() -> None:
    # Two added columns are as wide as the before image of a key of two parts.
    with pytest.raises(TableStopped) as stopped:
        layout(file(8))
    told = str(stopped.value)
    assert "(Op, ts, id, part, title, size, host, app)" in told
    assert "(Op, ts, id, part, title, size, BI_id, BI_part)" in told


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
        ({"earlier": [{"columns": {"id": "long"}}]}, "ends with until_file or with until_sequence"),
        ({"earlier": [{"until_file": "yesterday", "columns": {"id": "long"}}]}, "YYYYMMDD-HHMMSSmmm"),
        ({"renamed_from": {"titel": "name"}}, "is no column; did you mean title?"),
        ({"renamed_from": {"title": "size"}}, "comes from size, which columns still has"),
        ({"defaults": {"siez": 1}}, "is no column; did you mean size?"),
    ],
)
def test_mistakes_of_lake_yaml(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="validation error") as refused:
        TableConfig.model_validate(TABLE | change)
    assert message in str(refused.value)

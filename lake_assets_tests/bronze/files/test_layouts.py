"""Which columns a file without a header has, by the endpoint's settings; and what a header must have."""

from typing import Any

import pytest

from lake_assets.bronze.files.formats import contract_layout, file_layout
from lake_assets.bronze.files.keys import FileKind
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.errors import TableStopped

TABLE = TableConfig.model_validate({"columns": {"id": "long", "name": "string"}, "primary_key": ["id"]})
LAYOUTS = [
    ("DMS's defaults", {}, "id name", "Op id name"),
    ("IncludeOpForFullLoad", {"include_op_for_full_load": True}, "Op id name", "Op id name"),
    ("CdcInsertsOnly writes no operation", {"cdc_inserts_only": True}, "id name", "id name"),
    (
        "CdcInsertsOnly with IncludeOpForFullLoad does",
        {"cdc_inserts_only": True, "include_op_for_full_load": True},
        "Op id name",
        "Op id name",
    ),
    ("CdcInsertsAndUpdates as DMS's table says", {"cdc_inserts_and_updates": True}, "id name", "Op id name"),
    (
        "CdcInsertsAndUpdates as DMS's prose says",
        {"cdc_inserts_and_updates": True, "op_in_cdc": False},
        "id name",
        "id name",
    ),
    (
        "order: operation, time, source, added, before images",
        {
            "timestamp_column_name": "ts",
            "change_sequence_column": "seq",
            "before_image_prefix": "BI_",
            "added_columns": ["a", "b"],
        },
        "ts id name seq a b BI_id",
        "Op ts id name seq a b BI_id",
    ),
    (
        "the sequence among other added columns",
        {"change_sequence_column": "seq", "added_columns": ["a", "seq", "b"]},
        "id name a seq b",
        "Op id name a seq b",
    ),
    (
        "before images of every column",
        {"before_image_prefix": "BI_", "before_image_columns": "all"},
        "id name BI_id BI_name",
        "Op id name BI_id BI_name",
    ),
    ("an operation of another name", {"operation_column": "action"}, "id name", "action id name"),
]


@pytest.mark.parametrize(("fact", "dms", "load", "cdc"), LAYOUTS, ids=[case[0] for case in LAYOUTS])
def test_columns_without_a_header(fact: str, dms: dict[str, Any], load: str, cdc: str) -> None:
    settings = DmsSettings.model_validate(dms)
    for kind, columns in ((FileKind.LOAD, load), (FileKind.CDC, cdc)):
        assert contract_layout(TABLE, settings, kind).columns == tuple(columns.split())


@pytest.mark.parametrize(
    ("dms", "found", "reason"),
    [
        ({}, "id name", "a CDC file without the column Op"),
        ({"operation_column": "action"}, "Op id name", "a CDC file without the column action"),
        ({}, "Op name", "lacks column id, of the primary key"),
        ({}, "Op id name name", "has column name twice"),
        ({"operation_column": "action"}, "id name", "a CDC file without the column action"),
        ({"operation_column": "action"}, "action id name", None),
        ({"cdc_inserts_only": True}, "id name", None),
        ({"cdc_inserts_only": True}, "Op id name", None),
        ({"added_columns": ["a"]}, "Op id a name", None),
        ({}, "Op id a", None),  # what a column more or less means is the policies' to say (schema/evolve.py)
    ],
)
def test_a_header(dms: dict[str, Any], found: str, reason: str | None) -> None:
    columns, settings = tuple(found.split()), DmsSettings.model_validate(dms)

    def layout() -> tuple[str, ...]:
        return file_layout(
            name="t", key="k", kind=FileKind.CDC, found=columns, table=TABLE, dms=settings
        ).columns

    if reason is None:
        assert layout() == columns
    else:
        with pytest.raises(TableStopped) as caught:
            layout()
        assert reason in str(caught.value)

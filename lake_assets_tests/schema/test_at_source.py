"""What the source's present columns may mean for a contract, as a table of decisions.

Here: decisions. Not here: real databases, files and rows (`silver/test_columns_from_source.py`).
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.errors import LakeError, TableStopped
from lake_assets.schema.at_source import AtSource
from lake_assets.schema.contract import Contract, contract_of
from lake_assets.storage.reflection.declared import Declared, undecided
from lake_assets.storage.reflection.reflect import SourceColumn, SourceTable
from lake_assets_tests.helpers.files.records import logged

DMS = DmsSettings(
    timestamp_column_name="commit_ts", change_sequence_column="change_seq", before_image_prefix="BI_"
)
BESIDE = 4
"""The fields of a CDC file beside the source's: Op, commit_ts, change_seq and BI_id."""
COLUMNS = {"id": "long not null", "name": "string", "size": "int"}
WHY = "f has another width"


def table(**more: Any) -> TableConfig:
    return TableConfig.model_validate({"columns": COLUMNS, "primary_key": ["id"], **more})


def source(**columns: str | Declared) -> AtSource:
    found = tuple(
        SourceColumn(name, kind if isinstance(kind, Declared) else Declared(kind), required=False)
        for name, kind in columns.items()
    )
    return AtSource("public.items", lambda: SourceTable("public", "items", found, ("id",)))


def file(width: int) -> LoggedFile:
    at = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
    return replace(logged(7, "public/items/f", format="csv", columns=None), width=width, flush_time=at)


def with_more(at_source: AtSource, own: int, **more: Any) -> Contract:
    """`own`: the file's fields of the source's columns. An older file has the width of lake.yaml."""
    config, later = table(**more), file(own + BESIDE)
    older = replace(file(len(COLUMNS) + BESIDE), flush_time=later.written_at - timedelta(minutes=1))
    return at_source.with_more(contract_of(config, DMS), config, later, [older, later], WHY)


def names(contract: Contract) -> list[str]:
    return [f"{column.name} {column.type}" for column in contract.columns]


def test_a_column_behind_the_others() -> None:
    contract = with_more(source(id="long", name="string", size="int", fee="decimal(5, 2)"), 4)
    assert names(contract) == ["id long", "name string", "size int", "fee decimal(5, 2)"]
    assert contract.columns[0].required, "the contract's own declarations stay"
    (before,) = contract.earlier
    assert before.until_file == "20260301-123015123"
    assert before.columns is not None
    assert [column.name for column in before.columns] == list(COLUMNS)


def test_without_an_older_file_there_is_no_earlier_layout() -> None:
    config, first = table(), file(4 + BESIDE)
    at_source = source(id="long", name="string", size="int", fee="int")
    assert at_source.with_more(contract_of(config, DMS), config, first, [first], WHY).earlier == ()


def test_names_of_the_mapping_and_of_lake_yaml() -> None:
    at_source = source(ID="long", Title="string", SIZE="int", fee="int")
    assert names(with_more(at_source, 4, renamed_from={"name": "title"})) == [
        "id long",
        "name string",
        "size int",
        "fee int",
    ]


@pytest.mark.parametrize(
    ("at_source", "own", "said"),
    [
        (source(id="long", name="string", size="int"), 4, "the columns are id, name, size"),
        (source(id="long", name="string", size="int", a="int", b="int"), 4, "are id, name, size, a, b"),
        (source(id="long", fee="int", name="string", size="int"), 4, "are id, fee, name, size"),
        (source(id="long", size="int", name="string", fee="int"), 4, "are id, size, name, fee"),
        (source(id="long", name="string", a="int", b="int"), 4, "are id, name, a, b"),
        (source(id="long", name="string"), 2, "are id, name"),
        (source(id="long", name="string", size="int", commit_ts="timestamp"), 4, "size, commit_ts"),
        (source(id="long", name="string", size="int", fee=undecided("who knows")), 4, r"open \(who knows\)"),
        (AtSource("public.items", lambda: None), 4, "no table public.items"),
    ],
)
def test_what_explains_no_width(at_source: AtSource, own: int, said: str) -> None:
    with pytest.raises(TableStopped, match=f"{WHY}.*{said}"):
        with_more(at_source, own)


def test_a_column_that_lake_yaml_ignores_has_no_place() -> None:
    with pytest.raises(TableStopped, match="size, fee"):
        with_more(source(id="long", name="string", size="int", fee="int"), 4, ignore=["fee"])


def test_files_of_both_widths_at_a_time() -> None:
    config, later = table(), file(4 + BESIDE)
    newer = replace(file(len(COLUMNS) + BESIDE), flush_time=later.written_at + timedelta(minutes=1))
    at_source = source(id="long", name="string", size="int", fee="int")
    with pytest.raises(TableStopped, match="in all files from a time on"):
        at_source.with_more(contract_of(config, DMS), config, later, [later, newer], WHY)


def test_a_database_that_fails_is_asked_once() -> None:
    asked = []

    def read() -> None:
        asked.append(1)
        raise LakeError("The database cannot be read: it is down.")

    at_source = AtSource("public.items", read)
    for _ in range(2):
        with pytest.raises(TableStopped, match=r"it is down\. The table goes on by itself once the database"):
            at_source.column("fee", "f has the column fee")
    assert asked == [1]


def test_a_new_column() -> None:
    at_source = source(ID="long", Fee="decimal(5, 2)", FEE="int", Tax="double")
    assert at_source.column("Fee", WHY).type == "decimal(5, 2)"
    assert at_source.column("tax", WHY).type == "double", "a rule of the mapping writes names in lower case"
    for name in ("fee", "other"):
        with pytest.raises(TableStopped, match="no such column at the source now"):
            at_source.column(name, WHY)


def test_wider_types() -> None:
    contract = contract_of(table(), DMS)
    assert [c.type for c in source(id="long", size="long").widened(contract, WHY)] == ["long"]
    for kind in ("int", "string", "double"):
        assert source(id="long", size=kind).widened(contract, WHY) == [], kind
    assert AtSource("public.items", lambda: None).widened(contract, WHY) == [], "a source that is retired"


def test_earlier_layouts_are_widened_with_the_contract() -> None:
    changed = with_more(source(id="long", name="string", size="int", fee="int"), 4)
    (wider,) = source(size="long").widened(changed, WHY)
    contract = changed.widened([wider])
    assert contract.earlier[0].columns is not None
    assert [c.type for c in (contract.columns[2], contract.earlier[0].columns[2])] == ["long", "long"]

"""What every kind of DDL does to silver under every policy, as a table of decisions.

Here: decisions. Not here: Iceberg's columns and field ids (`test_alter_columns.py`).
"""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, SchemaChanges, TableConfig
from lake_assets.errors import TableStopped
from lake_assets.schema.contract import Contract, Contracts, contract_of
from lake_assets.schema.contract_log import new_version
from lake_assets.schema.evolve import observed, transition, types_of
from lake_assets_tests.helpers.files.records import logged

COLUMNS = {"id": "long not null", "name": "string", "size": "int", "price": "decimal(10, 2)"}
DMS = DmsSettings(
    timestamp_column_name="commit_ts",
    change_sequence_column="change_seq",
    before_image_prefix="BI_",
    added_columns=("source_host",),
)
ARROW = {"id": "int64", "name": "string", "size": "int32", "price": "decimal128(10, 2)"}
WORDS = ("evolve", "ignore", "stop")


def contract(columns: dict[str, str] = COLUMNS, key: tuple[str, ...] = ("id",), **more: Any) -> Contract:
    table = TableConfig.model_validate({"columns": columns, "primary_key": list(key), **more})
    return contract_of(table, DMS)


def file(columns: tuple[str, ...] | None, format: str = "parquet") -> LoggedFile:
    return logged(7, "public/items/f", format=format, columns=columns)


def parquet(**changes: str | None) -> LoggedFile:
    """A file with other types or columns than the usual."""
    types = (
        {"Op": "string", "commit_ts": "string"} | ARROW | {"change_seq": "string", "BI_id": "int64"} | changes
    )
    return file(tuple(f"{name}:{kind}" for name, kind in types.items() if kind is not None))


def header(*columns: str) -> LoggedFile:
    return file(("Op", "commit_ts", *columns), "csv")


@dataclass(frozen=True)
class Ddl:
    """What a file shows of a DDL at the source, and what each policy makes of it: the contract's columns that change
    (None: gone), or a part of the message of a stop."""

    file: LoggedFile
    evolve: dict[str, str] | str
    ignore: dict[str, str] | str
    stop: dict[str, str] | str


KINDS = {
    "nothing": Ddl(parquet(), {}, {}, {}),
    "added": Ddl(
        parquet(colour="string"), {"colour": "string"}, {}, "has the column colour, which lake.yaml"
    ),
    "added, csv": Ddl(
        header(*COLUMNS, "colour"), "a text file does not state its type", {}, "which lake.yaml does not know"
    ),
    "added, a name of Iceberg's": Ddl(
        parquet(_pos="int32"), "which is a name that Iceberg reserves", {}, "Iceberg reserves"
    ),
    "added, csv, a name of Iceberg's": Ddl(
        header(*COLUMNS, "_pos"),
        "`columns: {pos: string}` and `renamed_from: {pos: _pos}`",
        {},
        "`ignore: [_pos]`",
    ),
    "added, no name": Ddl(parquet(**{"": "int64"}), '`renamed_from: {column: ""}`', {}, '`ignore: [""]`'),
    "added, two that cannot be": Ddl(
        parquet(_pos="int32", SIZE="int32"),
        "has the column _pos, which is a name that Iceberg reserves and the column SIZE, which differs from",
        {},
        "`columns: {pos: int, size_2: int}` and `renamed_from: {pos: _pos, size_2: SIZE}`",
    ),
    "renamed in case only": Ddl(
        parquet(size=None, SIZE="int32"), "`renamed_from: {size: SIZE}`", {}, "`ignore: [SIZE]`"
    ),
    "added, nested": Ddl(
        parquet(colour="list<item: string>"), "no column of silver can have", {}, "does not know"
    ),
    "dropped": Ddl(parquet(name=None), {}, {}, "lacks the column name"),
    "dropped, csv": Ddl(header("id", "size", "price"), {}, {}, "lacks the column name"),
    "dropped, of the key": Ddl(parquet(id=None), *["lacks id, which is part of the primary key"] * 3),
    "widened": Ddl(
        parquet(size="int64"), {"size": "long"}, {}, "has column size as long, and the contract has int"
    ),
    "widened decimal": Ddl(
        parquet(price="decimal128(14, 2)"),
        {"price": "decimal(14, 2)"},
        {},
        "has column price as decimal(14, 2)",
    ),
    "narrower": Ddl(parquet(id="int32", price="decimal128(5, 2)"), {}, {}, {}),
    "incompatible": Ddl(parquet(size="string"), *["it was int in earlier files"] * 3),
    "another scale": Ddl(parquet(price="decimal128(10, 3)"), *["it was decimal(10, 2) in earlier files"] * 3),
    "to double": Ddl(parquet(size="double"), *["No type holds both"] * 3),
    "DMS's columns gone": Ddl(parquet(change_seq=None, BI_id=None), {}, {}, {}),
    "DMS's columns new": Ddl(parquet(source_host="string", BI_size="int32"), {}, {}, {}),
    "renamed, undeclared": Ddl(
        parquet(name=None, title="string"), {"title": "string"}, {}, "has the column title, which lake.yaml"
    ),
}


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_file_shows(kind: str, word: str) -> None:
    ddl, policies = KINDS[kind], SchemaChanges.model_validate(word)
    expected = getattr(ddl, word)
    before = types_of(parquet())
    if isinstance(expected, str):
        with pytest.raises(TableStopped) as stopped:
            observed("public.items", contract(), ddl.file, policies, before)
        assert expected in str(stopped.value)
        assert str(stopped.value).startswith("public.items: public/items/f ")
    else:
        after, told = observed("public.items", contract(), ddl.file, policies, before)
        found = {column.name: column.type for column in after.columns}
        assert found == {c.name: c.type for c in contract().columns} | expected
        assert len(told) == len(expected)


@pytest.mark.parametrize("word", WORDS)
def test_a_column_that_is_ignored_by_name_is_not_there(word: str) -> None:
    ignoring = contract(ignore=["_pos", "colour", ""])
    written = parquet(_pos="int32", colour="string", **{"": "string"})
    assert observed("t", ignoring, written, SchemaChanges.model_validate(word), {}) == (ignoring, [])


def test_one_that_silver_has_kept_goes_on_under_its_new_name() -> None:
    before, after = (
        contract({"id": "long"}),
        contract({"id": "long", "title": "string"}, renamed_from={"title": "name"}),
    )
    (change,) = transition("t", before, after, SchemaChanges(), kept={"name"})
    assert (change.column, change.old) == ("title", "name")
    (change,) = transition("t", before, after, SchemaChanges())
    assert (change.column, change.old) == ("title", None)


def test_a_required_column_that_is_dropped_may_be_null_from_then_on() -> None:
    required = contract(COLUMNS | {"name": "string not null"})
    after, told = observed("t", required, parquet(name=None), SchemaChanges(), {})
    (column,) = (column for column in after.columns if column.name == "name")
    assert not column.required
    assert told == ["public/items/f has no column name, which may be NULL from now on"]
    assert observed("t", after, parquet(name=None), SchemaChanges(), {}) == (after, [])


def test_an_old_name_is_known_in_old_files_and_new_ones() -> None:
    renamed = contract({"id": "long", "title": "string"}, renamed_from={"title": "name"})
    for written in (
        parquet(size=None, price=None),
        parquet(size=None, price=None, name=None, title="string"),
    ):
        assert observed("t", renamed, written, SchemaChanges.model_validate("stop"), {}) == (renamed, [])


# --- lake.yaml edited


CHANGES: dict[str, tuple[dict[str, str], dict[str, Any], list[str] | str]] = {
    "added": (COLUMNS | {"colour": "string"}, {}, ["add column colour string"]),
    "added with a default": (
        COLUMNS | {"colour": "string"},
        {"defaults": {"colour": "red"}},
        ["add column colour string default 'red'"],
    ),
    "dropped": ({"id": "long not null", "size": "int", "price": "decimal(10, 2)"}, {}, "DROPPED"),
    "widened": (COLUMNS | {"size": "long"}, {}, ["widen column size from int to long"]),
    "widened decimal": (
        COLUMNS | {"price": "decimal(12, 2)"},
        {},
        ["widen column price from decimal(10, 2) to decimal(12, 2)"],
    ),
    "narrowed": (COLUMNS | {"id": "int not null"}, {}, "column id cannot become int: it is long"),
    "incompatible": (COLUMNS | {"size": "string"}, {}, "column size cannot become string: it is int"),
    "another scale": (COLUMNS | {"price": "decimal(12, 3)"}, {}, "cannot become decimal(12, 3)"),
    "may be NULL": (COLUMNS | {"id": "long"}, {}, ["let column id be NULL"]),
    "not null": (COLUMNS | {"name": "string not null"}, {}, []),
    "renamed": (
        {"id": "long not null", "title": "string", "size": "int", "price": "decimal(10, 2)"},
        {"renamed_from": {"title": "name"}},
        ["rename column name to title"],
    ),
    "renamed and widened": (
        {"id": "long not null", "name": "string", "amount": "long", "price": "decimal(10, 2)"},
        {"renamed_from": {"amount": "size"}},
        ["rename column size to amount", "widen column amount from int to long"],
    ),
    "another key": (
        COLUMNS,
        {"primary_key": ["id", "name"]},
        "its primary key changed from (id) to (id, name)",
    ),
    "order": (dict(reversed(COLUMNS.items())), {}, []),
}


@pytest.mark.parametrize("dropped", ["evolve", "ignore", "drop"])
@pytest.mark.parametrize("kind", CHANGES)
def test_what_an_edit_of_lake_yaml_does(kind: str, dropped: str) -> None:
    columns, more, expected = CHANGES[kind]
    after = contract(columns, key=tuple(more.get("primary_key", ["id"])), **_without_key(more))
    policies = SchemaChanges.model_validate({"dropped": dropped})
    if expected == "DROPPED":
        expected = ["drop column name" if dropped == "drop" else "keep column name, NULL from now on"]
    if isinstance(expected, str):
        with pytest.raises(TableStopped) as stopped:
            transition("public.items", contract(), after, policies)
        assert expected in str(stopped.value)
    else:
        assert [str(change) for change in transition("public.items", contract(), after, policies)] == expected


def _without_key(more: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in more.items() if name != "primary_key"}


def test_a_renamed_key_is_the_same_key() -> None:
    columns = {name: kind for name, kind in COLUMNS.items() if name != "id"}
    renamed = contract({"item_id": "long", **columns}, ("item_id",), renamed_from={"item_id": "id"})
    changes = transition("t", contract(), renamed, SchemaChanges())
    assert [str(change) for change in changes] == [
        "rename column id to item_id",
        "let column item_id be NULL",
    ]


# --- versions


def versions(*contracts: tuple[int, Contract]) -> Contracts:
    found = Contracts()
    for number, (offset, held) in enumerate(contracts, start=1):
        found = found.and_then(replace(new_version(held, offset, "test", held), number=number))
    return found


def test_a_file_is_read_by_the_version_that_was_recorded_last_for_its_offset() -> None:
    found = versions((1, contract()), (10, contract()), (5, contract()))
    assert [found.at(offset).number for offset in (1, 4, 5, 9, 10, 99)] == [1, 1, 3, 3, 3, 3]
    assert [version.number for version in found.upto(7).versions] == [1, 3]


def test_names_follow_renames_and_drops() -> None:
    first = contract({"id": "long", "a": "string", "b": "string"})
    second = contract({"id": "long", "x": "string"}, renamed_from={"x": "a"})
    third = contract({"id": "long", "x": "string", "b": "int"}, renamed_from={"x": "a"})
    found = versions((1, first), (2, second), (3, third))
    assert found.names_today(1, drops=False) == {"id": "id", "a": "x", "b": "b"}
    assert found.names_today(1, drops=True) == {"id": "id", "a": "x"}, (
        "a column that comes back is another one"
    )
    assert found.kept(drops=False) == ()
    assert [column.name for column in found.upto(2).kept(drops=False)] == ["b"]
    assert found.upto(2).kept(drops=True) == ()

"""The sources of lake.yaml for tables that cannot be had here: odd names, and Oracle's.

Not here: a real database (`test_init.py`), single types (`test_types.py`).
"""

import warnings
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import oracle

from lake_assets.config import UNDECIDED, LakeConfig
from lake_assets.config.config_file import ConfigError, load_lake
from lake_assets.onboarding.lake_yaml_text import head, source_lines
from lake_assets.storage.reflection.declared import Declared, undecided
from lake_assets.storage.reflection.reflect import (
    SourceColumn,
    SourceTable,
    _Reader,
    _selected,
)


def _table(schema: str, name: str, *columns: SourceColumn, key: tuple[str, ...] = ("id",)) -> SourceTable:
    return SourceTable(schema, name, columns or (SourceColumn("id", Declared("int"), True),), key)


def _loaded(folder: Path, *tables: SourceTable) -> LakeConfig:
    lines = ["sources:", *source_lines("shop", "bronze", tables)]
    (folder / "lake.yaml").write_text(head("Oracle") + "\n".join(lines), encoding="utf-8")
    return load_lake(folder / "lake.yaml")


def test_names_of_any_letters(tmp_path: Path) -> None:
    names = [
        'a"b',
        "a: b",
        "# no comment",
        "ünï 😀",
        "null",
        "1",
        "- x",
        "a\tb",
        "${A}",
        "é\n# x",
        "[x]",
        "*a",
        "~",
    ]
    columns = [SourceColumn(name, Declared("int", f"of {name}"), True) for name in names]
    lake = _loaded(tmp_path, _table("S x", "T-1", *columns, key=tuple(names)))
    table = lake.sources["shop"].tables["S x.T-1"]
    assert [column.name for column in table.columns] == names
    assert table.primary_key == tuple(names)
    assert table.name == "t_1"


def test_tables_of_one_name(tmp_path: Path) -> None:
    lake = _loaded(tmp_path, _table("A", "T"), _table("B", "T"), _table("B", "U"), _table("B", "9"))
    names = {name: table.name for name, table in lake.sources["shop"].tables.items()}
    assert names == {"A.T": "a_t", "B.T": "b_t", "B.U": None, "B.9": "_9"}


def test_an_undecided_column_is_never_declared(tmp_path: Path) -> None:
    column = SourceColumn("n", undecided("number without digits"), True)
    with pytest.raises(ConfigError, match=r"columns\.n: is undecided: number without digits \(line \d+\)"):
        _loaded(tmp_path, _table("A", "T", SourceColumn("id", Declared("int"), True), column))


class OracleInspector:
    """What SQLAlchemy tells of an Oracle database, which cannot be had here: names that it has put in lower case."""

    dialect = oracle.dialect()
    default_schema_name = "shop"

    def get_table_names(self, schema: str) -> list[str]:
        return ["orders", "Mixed"]

    def get_columns(self, name: str, schema: str) -> list[dict[str, Any]]:
        warnings.warn("Did not recognize type 'XMLTYPE' of column 'doc'", sa.exc.SAWarning, stacklevel=1)
        return [
            {"name": "id", "type": oracle.NUMBER(9, 0), "nullable": False},
            {"name": "doc", "type": sa.types.NullType(), "nullable": True},
            {"name": "total", "type": oracle.NUMBER(9, 2), "nullable": True, "computed": {"sqltext": "1"}},
        ]

    def get_pk_constraint(self, name: str, schema: str) -> dict[str, Any]:
        return {"constrained_columns": ["id"]}

    def get_unique_constraints(self, name: str, schema: str) -> list[dict[str, Any]]:
        return []

    def get_indexes(self, name: str, schema: str) -> list[dict[str, Any]]:
        return []

    def get_view_names(self, schema: str) -> list[str]:
        return []


def test_oracles_names_are_as_in_the_files() -> None:
    inspector: Any = OracleInspector()
    assert _selected(inspector, [], ["shop", "sys", "system", "hr"]) == (
        ["shop"],
        ["the schemas sys, system, which Oracle itself makes", "the schema hr, which --schema reads"],
    )
    assert _selected(inspector, ["SHOP"], ["shop", "hr"]) == (["shop"], [])
    mixed, orders = _Reader(inspector, inspector.dialect, None).tables("shop")
    assert (orders.schema, orders.name, orders.primary_key) == ("SHOP", "ORDERS", ("ID",))
    assert (mixed.schema, mixed.name) == ("SHOP", "Mixed")
    assert [(c.name, c.declared.type) for c in orders.columns] == [
        ("ID", "int"),
        ("DOC", "string"),
        ("TOTAL", UNDECIDED),
    ]

"""Columns that silver has under another name than the source, in the checks against the source; without Spark.

Not here: a whole check (`test_source_check.py`).
"""

from collections.abc import Callable

import pytest

from lake_assets.checks.schema_rules import by_new_names
from lake_assets.checks.source_figures import Slices, figures_at_source
from lake_assets.config import Column
from lake_assets.storage.aws_client import Aws
from lake_assets.storage.database_connection import connected
from lake_assets.storage.reflection.reflect import read_tables

COLUMNS = [
    Column(name="pos", type="long"),
    Column(name="v_2", type="string"),
    Column(name="v", type="string"),
]
RENAMED = {"pos": "_pos", "v_2": "V"}


@pytest.mark.parametrize(
    "columns", ['"_pos" int, "V" text, v text', "pos int, v_2 text, v text", '"_pos" int, v_2 text, v text']
)
def test_the_source_has_the_old_name_or_the_new_one(new_database: Callable[[str], str], columns: str) -> None:
    address = new_database(
        f"CREATE TABLE t ({columns}); INSERT INTO t VALUES (3, 'abc', 'd'), (4, NULL, 'ef')"
    )
    with connected(address, Aws().secrets) as engine, engine.connect() as connection:
        found = figures_at_source(connection, "public.t", COLUMNS, Slices("pos", 10), None, RENAMED)
    assert found == {
        0: {
            "count(*)": 2,
            "count(pos)": 2,
            "sum(pos)": 7,
            "count(v_2)": 1,
            "length(v_2)": 3,
            "count(v)": 2,
            "length(v)": 3,
        }
    }


def test_the_columns_and_keys_by_silvers_names(new_database: Callable[[str], str]) -> None:
    address = new_database('CREATE TABLE t ("_pos" int PRIMARY KEY, "V" text UNIQUE NOT NULL, v text)')
    (table,) = read_tables(address).tables
    found = by_new_names(table, RENAMED)
    assert [column.name for column in found.columns] == ["pos", "v_2", "v"]
    assert (found.primary_key, found.unique_keys) == (("pos",), (("v_2",),))
    (renamed,) = read_tables(new_database("CREATE TABLE t (pos int PRIMARY KEY, v_2 text, v text)")).tables
    assert by_new_names(renamed, RENAMED) == renamed

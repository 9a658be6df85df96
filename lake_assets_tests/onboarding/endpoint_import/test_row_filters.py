"""The filters of a selection rule as the SQL condition of a table, on a real PostgreSQL server and in other dialects.

Not here: the check that uses it (`orchestration/checks/test_source_check.py`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lake_assets.checks.source_figures import Slices, figures_at_source
from lake_assets.config import UNDECIDED, Column
from lake_assets.config.config_file import ConfigError
from lake_assets.onboarding.endpoint_import.row_filters import source_filter
from lake_assets.storage.aws_client import Aws
from lake_assets.storage.database_connection import connected
from lake_assets_tests.helpers.texts.dms_documents import (
    ENDPOINT,
    SOURCE_ENDPOINT,
    endpoint,
    lake,
    section,
    select,
    task,
)

ROWS = """
CREATE TABLE items (
    id bigint PRIMARY KEY, amount numeric(8, 2), region text, "Sold At" timestamp, day date, flag boolean, one uuid
);
INSERT INTO items VALUES
    (1, 9.5, 'EU', '2026-01-01 10:00', '2026-01-01', true, '00000000-0000-0000-0000-000000000001'),
    (2, 10, 'O''Neill', '2026-02-01 00:00', '2026-02-01', false, NULL),
    (3, 100, '100' || chr(37), '2026-02-28 23:59:59', '2026-02-28', NULL, NULL),
    (4, NULL, NULL, NULL, NULL, NULL, NULL),
    (5, 75, 'a:b', '2026-03-01 00:00', '2026-03-01', true, NULL),
    (6, 76, 'x\\y', '2026-04-01 00:00', '2026-04-01', true, NULL);
"""


def condition(operator: str, *values: Any) -> dict[str, Any]:
    names = ("value",) if len(values) == 1 else ("start-value", "end-value")
    return {"filter-operator": operator, **dict(zip(names, values, strict=False))}


def of(column: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    """One filter."""
    return {"filter-type": "source", "column-name": column, "filter-conditions": list(conditions)}


@pytest.fixture(scope="module")
def meeting(new_database: Callable[[str], str]) -> Callable[[str], set[int]]:
    """The ids of the rows that meet a condition."""
    address = new_database(ROWS)

    def found(sql: str) -> set[int]:
        columns = [Column(name="id", type="long")]
        with connected(address, Aws().secrets) as engine, engine.connect() as connection:
            return set(figures_at_source(connection, "public.items", columns, Slices("id", 1), sql))

    return found


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ([of("amount", condition("eq", "10.00"))], {2}),
        ([of("amount", condition("eq", 10))], {2}),
        ([of("amount", condition("ste", "10"))], {1, 2}),
        ([of("amount", condition("lte", "10"))], {1, 2}),
        ([of("amount", condition("gte", "76"))], {3, 6}),
        ([of("amount", condition("noteq", "10"))], {1, 3, 5, 6}),
        ([of("amount", condition("between", "10", "75"))], {2, 5}),
        ([of("amount", condition("notbetween", "10", "75"))], {1, 3, 6}),
        ([of("amount", condition("null"))], {4}),
        ([of("amount", condition("notnull"))], {1, 2, 3, 5, 6}),
        (
            [of("id", condition("ste", "1"), condition("between", "3", "4"), condition("gte", "6"))],
            {1, 3, 4, 6},
        ),
        ([of("amount", condition("ste", "76")), of("region", condition("eq", "EU"))], {1}),
        (
            [
                of("id", condition("eq", "1"), condition("eq", "2")),
                of("region", condition("null"), condition("eq", "O'Neill")),
            ],
            {2},
        ),
        ([of("region", condition("eq", "O'Neill"))], {2}),
        ([of("region", condition("eq", "100%"))], {3}),
        ([of("region", condition("eq", "a:b"))], {5}),
        ([of("region", condition("eq", "x\\y"))], {6}),
        ([of("region", condition("eq", "' OR ''='"))], set()),
        ([of("Sold At", condition("between", "2026-02-01", "2026-02-28 23:59:59"))], {2, 3}),
        ([of("day", condition("gte", "2026-03-01"))], {5, 6}),
        ([of("flag", condition("eq", "true"))], {1, 5, 6}),
        ([of("one", condition("eq", "00000000-0000-0000-0000-000000000001"))], {1}),
    ],
)
def test_the_rows_of_each_operator(
    meeting: Callable[[str], set[int]], filters: list[dict[str, Any]], ids: set[int], tmp_path: Path
) -> None:
    rule = select("public", "items") | {"filters": filters}
    text = section({"Endpoints": [SOURCE_ENDPOINT, ENDPOINT]}, task(rule))
    (source,) = lake(text, tmp_path).values()
    sql = source.tables["public.items"].source_filter
    assert sql is not None
    assert meeting(sql) == ids
    assert "# DMS reads only the rows for which source_filter is true" in text


@pytest.mark.parametrize(
    ("engine", "sql"),
    [
        ("aurora-postgresql", """"a""b`c]" = 'it''s \\ 100%'"""),
        ("oracle", """"a""b`c]" = 'it''s \\ 100%'"""),
        ("mysql", r"""`a"b``c]` = 'it''s \\ 100%'"""),
        ("aurora", r"""`a"b``c]` = 'it''s \\ 100%'"""),
        ("mariadb", r"""`a"b``c]` = 'it''s \\ 100%'"""),
        ("sqlserver", """[a"b`c]]] = 'it''s \\ 100%'"""),
        (None, """"a""b`c]" = 'it''s \\ 100%'"""),
    ],
)
def test_the_quotes_of_each_engine(engine: str | None, sql: str) -> None:
    found, notes = source_filter([of('a"b`c]', condition("eq", "it's \\ 100%"))], engine)
    assert found == sql
    assert ("as the source's engine quotes them" in " ".join(notes)) == (engine is None)


def test_oracles_dates_are_left_to_the_user() -> None:
    _, notes = source_filter([of("at", condition("gte", "2026-01-01"))], "oracle")
    assert "NLS_DATE_FORMAT" in " ".join(notes)
    assert "NLS_DATE_FORMAT" not in " ".join(source_filter([of("at", condition("gte", "26"))], "oracle")[1])


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ([of("a", condition("like", "x"))], "of the column a has the operator 'like', which is not known"),
        ([of("a", {"filter-operator": "eq"})], "of the column a has no value for the operator eq"),
        ([of("a", condition("between", "1"))], "has no start-value for the operator between"),
        ([of("a", condition("eq", None))], "has no value for the operator eq"),
        ([of("a", condition("eq", ["1"]))], "has no value for the operator eq"),
        ([of("a")], "of the column a has no conditions"),
        ([of("", condition("null"))], "names no column"),
        ([of("a", condition("null")) | {"filter-type": "target"}], "has the filter-type 'target'"),
        (["a = 1"], "is not a JSON object"),
        ([of("b", condition("null")), of("a", condition("like", "x"))], "has the operator 'like'"),
    ],
)
def test_what_cannot_be_translated_is_undecided(filters: list[Any], said: str, tmp_path: Path) -> None:
    text = section(ENDPOINT, task(select("a", "t") | {"filters": filters}))
    assert "source_filter: undecided" in text
    assert said in " ".join(line.strip("# \n") for line in text.splitlines())
    with pytest.raises(
        ConfigError, match=r'tables\["a.t"\].source_filter: is undecided: a filter of the task'
    ):
        lake(text, tmp_path)


def test_two_rules_for_one_table(tmp_path: Path) -> None:
    """A pattern beside the table's own rule is usual; two rules of its own with different filters are open."""
    own = select("a", "t") | {"filters": [of("id", condition("gte", "1"))]}
    (source,) = lake(section(endpoint(), task(select("a", "%"), own)), tmp_path).values()
    assert source.tables["a.t"].source_filter == "\"id\" >= '1'"
    assert UNDECIDED in section(endpoint(), task(own, own | {"filters": []}))
    text = section(endpoint(), task(own | {"object-locator": {"schema-name": "a", "table-name": "t%"}}))
    assert "which DMS applies to exact names only" in " ".join(line.strip("# ") for line in text.splitlines())
    assert "source_filter" not in text


def test_a_table_that_a_rule_renames(tmp_path: Path) -> None:
    rename = {
        "rule-type": "transformation",
        "rule-target": "table",
        "object-locator": {"schema-name": "a", "table-name": "t"},
        "rule-action": "rename",
        "value": "v",
    }
    own = select("a", "t") | {"filters": [of("id", condition("gte", "1"))]}
    (source,) = lake(section(endpoint(), task(own, rename)), tmp_path).values()
    assert source.tables["a.v"].source_filter == "\"id\" >= '1'"

"""The lineage of columns, from the plans of real queries over two Iceberg tables.

Here: the operators of a plan. Not here: the lineage of assets (`orchestration/assets/test_mart_lineage.py`).
"""

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from lake_assets.gold.plan_lineage import UnreadablePlan, column_lineage
from lake_assets.gold.plan_text import MAX_FIELDS, explained
from lake_assets_tests.helpers.lakes.small_lakes import small_lake

pytestmark = pytest.mark.spark

# A query over the tables t and u; by column of its result, the columns that its values are computed from.
QUERIES: dict[str, tuple[str, dict[str, str]]] = {
    "a calculation": ("SELECT a, a + b AS s, 1 AS one FROM t", {"a": "t.a", "s": "t.a t.b", "one": ""}),
    "an aggregate": (
        "SELECT d, sum(a) AS s, count(*) AS n FROM t GROUP BY d",
        {"d": "t.d", "s": "t.a", "n": ""},
    ),
    "a filter is no lineage": ("SELECT a FROM t WHERE b > 1 ORDER BY d", {"a": "t.a"}),
    "a join": ("SELECT t.a, u.v + t.b AS s FROM t JOIN u ON t.a = u.k", {"a": "t.a", "s": "t.b u.v"}),
    "USING takes the left column": (
        "SELECT k, v FROM (SELECT a AS k FROM t) JOIN u USING (k)",
        {"k": "t.a", "v": "u.v"},
    ),
    "an outer USING takes both": (
        "SELECT k FROM (SELECT a AS k FROM t) FULL JOIN u USING (k)",
        {"k": "t.a u.k"},
    ),
    "a semi-join": ("SELECT a FROM t LEFT SEMI JOIN u ON t.a = u.k", {"a": "t.a"}),
    "a table joined with itself": (
        "SELECT x.a, y.b FROM t x JOIN t y ON x.a = y.b",
        {"a": "t.a", "b": "t.b"},
    ),
    "a union, by position": (
        "SELECT a, d FROM t UNION ALL SELECT v, w FROM u",
        {"a": "t.a u.v", "d": "t.d u.w"},
    ),
    "a union of distinct and sorted rows": (
        "(SELECT a FROM t WHERE b > 1) UNION (SELECT DISTINCT v FROM u)",
        {"a": "t.a u.v"},
    ),
    "a window's order is no lineage": (
        "SELECT a, lag(b) OVER (PARTITION BY d ORDER BY a) AS p FROM t",
        {"a": "t.a", "p": "t.b"},
    ),
    "a lambda": ("SELECT transform(c, x -> x + b) AS m FROM t", {"m": "t.b t.c"}),
    "a generator": ("SELECT a, e FROM t LATERAL VIEW explode(c) g AS e", {"a": "t.a", "e": "t.c"}),
    "grouping sets": (
        "SELECT a, d, sum(b) AS s FROM t GROUP BY ROLLUP (a, d)",
        {"a": "t.a", "d": "t.d", "s": "t.b"},
    ),
    "a pivot": (
        "SELECT * FROM (SELECT a, b, d FROM t) PIVOT (sum(b) FOR d IN ('x' AS x))",
        {"a": "t.a", "x": "t.b t.d"},
    ),
    "a scalar subquery": (
        "SELECT a, (SELECT max(v) FROM u WHERE k = t.b) AS m FROM t",
        {"a": "t.a", "m": "u.v"},
    ),
    "a subquery with a union": (
        "SELECT (SELECT max(z) FROM (SELECT v AS z FROM u UNION ALL SELECT b FROM t)) AS m, d FROM t",
        {"m": "t.b u.v", "d": "t.d"},
    ),
    "a common table, read twice": (
        "WITH s AS (SELECT a, b AS f FROM t) SELECT x.f + y.f AS g, y.a FROM s x JOIN s y ON x.a = y.f",
        {"g": "t.b", "a": "t.a"},
    ),
    "a name with a quote and an alias": ("SELECT a AS `y AS 'z'` FROM t", {"y AS 'z'": "t.a"}),
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session whose current namespace has the tables t and u."""
    lake = small_lake(tmp_path_factory.mktemp("lineage"))
    with lake.runtime.sessions.isolated() as session:
        catalog = lake.config.catalog.name
        session.sql(f"CREATE NAMESPACE {catalog}.n")
        session.sql(f"USE {catalog}.n")
        session.sql("CREATE TABLE t (a int, b int, c array<int>, d string) USING iceberg")
        session.sql("CREATE TABLE u (k int, v int, w string) USING iceberg")
        yield session


def lineage(frame: DataFrame) -> dict[str, str]:
    """By column, the columns it is computed from, such as `t.a t.b`."""
    found = column_lineage(explained(frame), frame.columns)
    named = {
        column: sorted(f"{table.rpartition('.')[2]}.{name}" for table, name in sources)
        for column, sources in found.items()
    }
    return {column: " ".join(sources) for column, sources in named.items()}


@pytest.mark.parametrize("case", QUERIES)
def test_columns_that_values_are_computed_from(tables: SparkSession, case: str) -> None:
    query, expected = QUERIES[case]
    assert lineage(tables.sql(query)) == expected


def test_a_wide_table_is_read_whole_and_the_setting_is_restored(tables: SparkSession) -> None:
    before = tables.conf.get(MAX_FIELDS)
    frame = tables.sql("SELECT " + ", ".join(f"a + {n} AS c{n}" for n in range(60)) + " FROM t")
    assert lineage(frame) == {f"c{n}": "t.a" for n in range(60)}
    assert tables.conf.get(MAX_FIELDS) == before


@pytest.mark.parametrize("text", ["1)", "(", "]", "two\nlines"])
def test_a_text_that_makes_the_plan_ambiguous_gives_no_lineage(tables: SparkSession, text: str) -> None:
    frame = tables.sql("SELECT concat(d, :text) AS x FROM t", args={"text": text})
    with pytest.raises(UnreadablePlan):
        lineage(frame)


def test_a_name_with_a_comma_gives_no_lineage(tables: SparkSession) -> None:
    with pytest.raises(UnreadablePlan):
        lineage(tables.sql("SELECT a AS `x, y` FROM t"))


def test_a_column_of_an_unknown_operator_is_left_out(tables: SparkSession) -> None:
    frame = tables.sql("SELECT a, b FROM t")
    computed = frame.mapInPandas(lambda parts: parts, "a int, b int")
    assert lineage(computed) == {}
    assert lineage(frame.withColumn("s", frame["a"] + 1)) == {"a": "t.a", "b": "t.b", "s": "t.a"}

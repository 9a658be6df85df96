"""Marts that are `.sql` files: the same tables as the marts in Python, and every mistake with its file and line.

Not here: which days a mart computes (`test_incremental.py`).
"""

import re
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets.demo.marts.trip_revenue_daily import MART as TRIP_REVENUE_DAILY
from lake_assets.errors import LakeError
from lake_assets.gold.mart import Follow, Input, MartRequest
from lake_assets.gold.registry import code_version, load_mart
from lake_assets_tests.helpers.lakes.bike_lake import REVENUE, BikeLake, at, days, station, trip
from lake_assets_tests.helpers.lakes.small_lakes import small_lake
from lake_assets_tests.helpers.marts.mart_frames import in_order

SAME = Path(__file__).parents[1] / "helpers/marts/trip_revenue_sql.sql"
ITEMS = "silver_shop.items"
GOOD = """\
/*
description: Dear items by day.
follow:
  silver_shop.items: {day: [sold_at, at]}
columns:
  day: date
  named: string
settings:
  dearer_than: 10
*/
SELECT to_date(at) AS day, items.name || '{}' AS named -- not :silver_shop.items
FROM silver_shop.items
WHERE price > :dearer_than AND at >= :first_day AND at < :last_day + 1 AND at <= :now
"""


def test_a_mart_in_sql_equals_the_mart_in_python(spark: SparkSession, tmp_path: Path) -> None:
    bikes = BikeLake(tmp_path)
    sql = load_mart(str(SAME))
    bikes.restart([TRIP_REVENUE_DAILY, sql])
    bikes.load("stations", at(1, "00:00"), [station(1, "north"), station(2, "south")])
    ridden = [trip(n, at(n, "23:50"), at(n + 1, "00:10"), start_station_id=1 + n % 3) for n in range(1, 6)]
    bikes.load("trips", at(1, "00:00:02"), [*ridden, trip(9, at(2), None), trip(10, at(3), at(3), fare=None)])
    bikes.apply("stations", "trips")
    assert bikes.compute() == dict.fromkeys((REVENUE, sql.name), days(2, 3, 4, 5, 6))
    both = [in_order(bikes.rows(f"gold.{name}"), "day", "district") for name in (REVENUE, sql.name)]
    assert both[0] == both[1]
    assert {row["district"] for row in both[0]} == {"north", "south", "unknown"}
    before = bikes.files(sql.name)
    bikes.change(at(7), ("trips", "U", {"trip_id": 2, "fare": "7.00", "ended_at": at(4)}))
    bikes.apply("trips")
    assert bikes.compute() == dict.fromkeys((REVENUE, sql.name), days(3, 4))
    both = [in_order(bikes.rows(f"gold.{name}"), "day", "district") for name in (REVENUE, sql.name)]
    assert both[0] == both[1]
    after = bikes.files(sql.name)
    assert {day for day in before if after[day] == before[day]} == days(2, 5, 6)
    bikes.instance.dispose()


def written(folder: Path, text: str) -> str:
    path = folder / "dear_items.sql"
    path.write_text(text)
    return str(path)


def test_what_follows_from_the_file(tmp_path: Path) -> None:
    mart = load_mart(written(tmp_path, GOOD))
    assert mart.name == "dear_items"
    assert mart.rules == tuple(Input("shop", "items", Follow.DAY, column) for column in ("sold_at", "at"))
    assert [(column.name, column.type) for column in mart.columns] == [("day", "date"), ("named", "string")]
    assert mart.partition_column == "day"
    assert mart.settings is not None
    assert mart.settings().model_dump() == {"dearer_than": 10}
    whole = GOOD.replace(
        "FROM silver_shop.items", "FROM Silver_Shop.Items AS items JOIN silver_hr.people ON true"
    )
    assert load_mart(written(tmp_path, whole)).rules == (*mart.rules, Input("hr", "people"))


def test_another_text_is_another_version(tmp_path: Path) -> None:
    versions = {code_version(load_mart(written(tmp_path, GOOD.replace("10", n)))) for n in ("10", "11", "10")}
    assert len(versions) == 2
    assert None not in versions


MISTAKES = {
    "no header": (GOOD[GOOD.index("SELECT") :], 1, "must begin with a comment"),
    "a header that is text": ("/* Dear items. */\nSELECT 1", 1, "the header must be YAML with the keys"),
    "a header that is not YAML": (
        GOOD.replace("  day: date\n", "  day: [date\n"),
        7,
        "the header is not YAML",
    ),
    "no description": (GOOD.replace("description", "descripton"), 2, "descripton: is not a known key"),
    "an unknown type": (GOOD.replace("named: string", "named: text"), 7, "'text' is not a type"),
    "an unknown kind": (GOOD.replace("{day:", "{days:"), 4, "expected 'day', 'day_onwards', 'partition'"),
    "no SQL": (GOOD.replace("price >", "price > ("), 13, "is not SQL near"),
    "a quote without its end": (GOOD.replace("'{}'", "'{}"), 1, "a quote or a comment has no end"),
    "no query": (GOOD[: GOOD.index("SELECT")] + "DELETE FROM silver_shop.items", 1, "one statement"),
    "two queries": (GOOD + "; SELECT 1", 1, "must have one statement"),
    "another table": (GOOD.replace("FROM silver_shop.items", "FROM items"), 12, "items is no silver table"),
    "a catalog": (GOOD.replace("FROM ", "FROM lake."), 12, "lake.silver_shop.items is no silver table"),
    "no table": (
        GOOD.replace("FROM silver_shop.items", "FROM VALUES (1) AS items (at)"),
        4,
        "follow names silver_shop.items, which the query does not read",
    ),
    "an unknown parameter": (
        GOOD.replace(":now", ":today"),
        13,
        "the parameters are dearer_than, end, first_day",
    ),
    "days of a mart without days": (
        GOOD.replace("settings:", "partition_column: null\nsettings:"),
        14,
        ":first_day is not a parameter; the parameters are dearer_than, now",
    ),
    "another column": (
        GOOD.replace("AS named", "AS called"),
        11,
        "selects day, called, and columns declares",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named_with_file_and_line(tmp_path: Path, case: str) -> None:
    text, line, problem = MISTAKES[case]
    with pytest.raises(LakeError) as refused:
        load_mart(written(tmp_path, text))
    told = [said for said in str(refused.value).splitlines() if problem in said]
    assert [said.partition(": ")[0] for said in told] == [f"{tmp_path}/dear_items.sql, line {line}"], (
        refused.value
    )


def test_days_without_their_column(tmp_path: Path) -> None:
    """Such a mart would never be computed, and nobody would know why."""
    text = GOOD.replace("  day: date\n", "  of: date\n").replace("AS day", "AS of")
    with pytest.raises(
        LakeError, match=r"dear_items\.sql .*its partition_column, day, must be one of its columns"
    ):
        load_mart(written(tmp_path, text))
    found = load_mart(written(tmp_path, text.replace("settings:", "partition_column: of\nsettings:")))
    assert found.partition_column == "of"


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(LakeError, match=r"nowhere\.sql cannot be used as a mart: .*No such file"):
        load_mart("nowhere.sql")


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """A session with a lake's settings."""
    return small_lake(tmp_path_factory.mktemp("sql_marts")).runtime.sessions.root()


def request(session: SparkSession, columns: str, **settings: object) -> MartRequest:
    """Two items of 1 March, priced 10 and 20, and one of 2 March."""
    rows = session.sql(
        f"SELECT {columns} FROM VALUES ('a', 10, '2026-03-01 00:00:00'), ('b', 20, '2026-03-01 23:59:59.999999'), "
        "('c', 30, '2026-03-02 00:00:00') AS t (name, price, text)"
    )
    now, day = datetime(2026, 3, 9, tzinfo=UTC), date(2026, 3, 1)
    return MartRequest({ITEMS: rows}, now, first_day=day, last_day=day, settings=settings)


def test_parameters(session: SparkSession, tmp_path: Path) -> None:
    """Days and settings are values of the query, and a brace in its text is a brace."""
    mart = load_mart(written(tmp_path, GOOD))
    columns = "name, price, CAST(text AS timestamp) AS at"
    by_default = mart.compute(request(session, columns)).collect()
    assert [tuple(row) for row in by_default] == [(date(2026, 3, 1), "b{}")]
    cheaper = mart.compute(request(session, columns, dearer_than=9)).collect()
    assert {row["named"] for row in cheaper} == {"a{}", "b{}"}


def test_a_subquery_with_the_name_of_its_table(session: SparkSession, tmp_path: Path) -> None:
    """`WITH items AS (… silver_shop.items …)`: what follows reads the subquery, which reads the table."""
    text = GOOD.replace("FROM silver_shop.items", "FROM items")
    text = text.replace("SELECT to_date", "WITH items AS (SELECT * FROM silver_shop.items)\nSELECT to_date")
    mart = load_mart(written(tmp_path, text))
    assert mart.rules == load_mart(written(tmp_path, GOOD)).rules
    rows = mart.compute(request(session, "name, price, CAST(text AS timestamp) AS at")).collect()
    assert [tuple(row) for row in rows] == [(date(2026, 3, 1), "b{}")]


def test_what_spark_refuses_is_told_with_its_line(session: SparkSession, tmp_path: Path) -> None:
    mart = load_mart(written(tmp_path, GOOD))
    with pytest.raises(
        LakeError, match=rf"{re.escape(str(tmp_path))}/dear_items\.sql: .*`price`.*line 13 pos 6"
    ):
        mart.compute(request(session, "name, CAST(text AS timestamp) AS at"))

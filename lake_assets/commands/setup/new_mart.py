"""The module and the test of a new mart, written from a silver table.

Here: their text. Not here: the files and lake.yaml (`new.py`). Pure.
"""

from dataclasses import dataclass
from string import Template

from lake_assets.gold.registry import DAY_TYPES
from lake_assets.silver.table.targets import Target
from lake_assets.spark.types import spark_type

DAILY = Template('''\
"""Rows of $table by day."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.gold.mart import Follow, Input, Mart, MartRequest


def compute(request: MartRequest) -> DataFrame:
    """One row for each day with a row of $table."""
    rows = request.inputs["$table"].filter(request.within("$column"))
    days = rows.groupBy(F.to_date("$column").alias("day"))
    return days.agg(F.count(F.lit(1)).alias("rows"))


MART = Mart(
    name="$name",
    description="Rows of $table by day (UTC) of $column.",
    inputs={"$table": Input("$source", "$table", Follow.DAY, "$column")},
    columns=(parse_column("day", "date not null"), parse_column("rows", "long not null")),
    compute=compute,
)
''')

PRESENT = Template('''\
"""How many rows $table has at present."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.gold.mart import Input, Mart, MartRequest


def compute(request: MartRequest) -> DataFrame:
    """One row."""
    return request.inputs["$table"].agg(F.count(F.lit(1)).alias("rows"))


MART = Mart(
    name="$name",
    description="Rows of $table at present.",
    inputs={"$table": Input("$source", "$table")},
    columns=(parse_column("rows", "long not null"),),
    compute=compute,
    partition_column=None,
)
''')

TEST = Template('''\
"""What the mart $name computes, from rows written by hand."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets.gold.mart import MartRequest
from lake_assets.gold.registry import load_mart

MART = load_mart(str(Path(__file__).parents[1] / "marts/$name.py"))


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    return builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()


def test_rows(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT CAST(value AS $type) AS `$column` "
        "FROM VALUES ('2026-03-01 08:00:00'), ('2026-03-01 23:59:59'), ('2026-03-02 00:00:00') AS t (value)"
    )
    request = MartRequest(
        inputs={"$table": rows},
        now=datetime(2026, 3, 3, tzinfo=UTC),
        first_day=date(2026, 3, 1),
        last_day=date(2026, 3, 2),
        settings={},
    )
    found = {tuple(row) for row in MART.compute(request).collect()}
    assert found == $expected
''')


@dataclass(frozen=True, slots=True)
class NewMart:
    """The text of the mart's files."""

    module: str
    test: str


def new_mart(name: str, target: Target) -> NewMart:
    """A mart that counts the table's rows: by day if the table has a column of days or instants, else all of them."""
    column = next((column for column in target.columns if column.type in DAY_TYPES), None)
    daily = column is not None
    sample = column or target.columns[0]
    pieces = {
        "name": name,
        "source": target.source,
        "table": target.name,
        "column": sample.name,
        "type": spark_type(sample.type) if daily else "string",
        "expected": "{(date(2026, 3, 1), 2), (date(2026, 3, 2), 1)}" if daily else "{(3,)}",
    }
    return NewMart((DAILY if daily else PRESENT).substitute(pieces), TEST.substitute(pieces))

"""The column types of lake.yaml: their Spark SQL names, and the Iceberg types that tables store them as.

Not here: what a value means under a type (`bronze/values/exact_values.py`), or which types there are
(`config/columns.py`).
"""

from lake_assets.spark.sql import Sql

SPARK_TYPES = {
    "long": "bigint",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
}

STORED_AS_TEXT = frozenset({"time", "uuid", "json"})
"""Types of the contract for which Spark cannot write an Iceberg column of that type: stored as their canonical text."""


def stored_type(declared: str) -> str:
    """The Iceberg type that a table stores a declared type as."""
    return "string" if declared in STORED_AS_TEXT else declared


def spark_type(declared: str) -> Sql:
    """Spark SQL's name of a declared type; most types have the same name in both."""
    stored = stored_type(declared)
    return Sql(SPARK_TYPES.get(stored, stored))


def iceberg_type(spark_name: str) -> str:
    """The Iceberg type of a Spark SQL name: the inverse of `spark_type` for types that are not stored as text."""
    return {spark: iceberg for iceberg, spark in SPARK_TYPES.items()}.get(spark_name, spark_name)

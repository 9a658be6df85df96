"""Spark SQL's names of the column types of lake.yaml."""

SPARK_TYPES = {
    "long": "bigint",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
}


def spark_type(iceberg_type: str) -> str:
    """Spark SQL's name of an Iceberg type; the others have the same name in both."""
    return SPARK_TYPES.get(iceberg_type, iceberg_type)


def iceberg_type(spark_name: str) -> str:
    """The inverse of `spark_type`."""
    return {spark: iceberg for iceberg, spark in SPARK_TYPES.items()}.get(spark_name, spark_name)

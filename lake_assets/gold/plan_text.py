"""The text of a DataFrame's plan."""

from pyspark.sql import DataFrame

from lake_assets.spark.sql import sql

MAX_FIELDS = "spark.sql.debug.maxToStringFields"


def explained(frame: DataFrame) -> str:
    """What `EXPLAIN EXTENDED` prints, with every column of every operator."""
    spark = frame.sparkSession
    # Set for this call only: Spark prints the plan of every query, and wide tables would cost time.
    fields = spark.conf.get(MAX_FIELDS)
    spark.conf.set(MAX_FIELDS, 2**31 - 1)
    try:
        query = sql("EXPLAIN EXTENDED SELECT * FROM {{frame}}")
        return str(spark.sql(query, frame=frame).collect()[0][0])
    finally:
        spark.conf.set(MAX_FIELDS, fields or "25")

"""A Spark of another version, for contenders that have no jar for this package's."""

from pyspark.sql import SparkSession


def spark_with(package: str, **conf: str) -> SparkSession:
    """An embedded Spark with a jar. In the names of `conf`, two underscores stand for a dot."""
    builder = SparkSession.builder.master("local[*]")
    shared = {
        "spark.jars.packages": package,
        "spark.driver.memory": "6g",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
    }
    for name, value in shared.items():
        builder = builder.config(name, value)
    for name, value in conf.items():
        builder = builder.config(name.replace("__", "."), value)
    return builder.getOrCreate()

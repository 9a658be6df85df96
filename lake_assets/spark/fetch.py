"""`python -m lake_assets.spark.fetch`: download Spark's jars, S3's included, and write an archive of its classes.

It runs once, at installation, so that later runs need no network, and two processes never download the same jar at the
same time. Java reads classes from the archive faster than from Spark's jars. Not here: which jars (`jars.py`), and
that Spark takes the archive (`settings.py`).
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from pyspark.sql import SparkSession

from lake_assets.spark.jars import S3_EXCLUDES, every_jar
from lake_assets.spark.preflight import PreflightError, check_java
from lake_assets.spark.properties import java_environment
from lake_assets.spark.settings import CLASS_ARCHIVE
from lake_assets.spark.sql import quoted, sql, table_address

SECONDS = 120.0
"""Seconds for Java to write the archive, which it does when it ends."""
CATALOG = "fetched"


def fetch(archive: Path = CLASS_ARCHIVE) -> None:
    """Starts Spark with all the jars and does what most tables need. Raises PreflightError without a supported Java."""
    check_java()
    os.environ.update(java_environment(os.environ))
    new = archive.with_suffix(f".{os.getpid()}")
    with TemporaryDirectory() as folder:
        spark = _started(folder, f"-XX:ArchiveClassesAtExit={new} -Xlog:disable")
        java = [child for child in psutil.Process().children() if "java" in child.name()]
        _use(spark, Path(folder))
        spark.stop()
    for process in java:
        process.terminate()
    psutil.wait_procs(java, SECONDS)
    # Without an archive, Spark starts as before.
    if new.exists():
        new.replace(archive)


def _started(warehouse: str, java_options: str) -> SparkSession:
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": java_options,
        "spark.jars.packages": every_jar(),
        "spark.jars.excludes": S3_EXCLUDES,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": warehouse,
    }
    return SparkSession.builder.master("local[1]").config(map={**conf}).getOrCreate()


def _use(spark: SparkSession, folder: Path) -> None:
    """Creates, writes, changes and reads a small table, for which Java loads the classes."""
    table = table_address(CATALOG, "a.t")
    rows = folder / "rows.csv"
    rows.write_text("id,v\n1,a\n2,b\n", encoding="ascii")
    spark.sql(sql("CREATE NAMESPACE {namespace}", namespace=quoted(CATALOG, "a")))
    spark.sql(sql("CREATE TABLE {table} (id bigint, v string) USING iceberg", table=table))
    spark.read.csv(str(rows), header=True, schema="id bigint, v string").writeTo(table).append()
    changed = sql("SELECT id, count(*) AS n FROM {table} GROUP BY id", table=table)
    clauses = "WHEN MATCHED AND s.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.n"
    merge = "MERGE INTO {table} t USING ({changed}) s ON t.id = s.id " + clauses
    spark.sql(sql(merge, table=table, changed=changed))
    spark.sql(sql("DELETE FROM {table} WHERE id IN (SELECT 2L)", table=table))
    spark.table(table).collect()


if __name__ == "__main__":
    try:
        fetch()
    except PreflightError as error:
        sys.exit(str(error))

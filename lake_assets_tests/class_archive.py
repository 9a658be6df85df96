"""`python -m lake_assets_tests.class_archive`: write an archive of Spark's classes for the tests.

Java reads classes from the archive faster than from Spark's jars. Every Spark of the tests uses it, if it
is there (`child.java_options`). Java ignores one of another version of Java or of other jars.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from lake_assets_tests.helpers.processes.child import ARCHIVE

SECONDS = 120.0
"""For Java to write it."""


def main() -> None:
    """Does a little of what most tests do, so that Java loads the classes for it."""
    from pyspark import SparkContext

    from lake_assets.spark.session import SparkSessions
    from lake_assets_tests.helpers.lakes.small_lakes import lake_config

    new = ARCHIVE.with_suffix(f".{os.getpid()}")
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={new} -Xlog:disable"
    with TemporaryDirectory() as folder:
        config = lake_config(Path(folder))
        spark = SparkSessions(config).root()
        table = f"{config.catalog.name}.a.t"
        spark.sql(f"CREATE NAMESPACE {config.catalog.name}.a")
        spark.sql(f"CREATE TABLE {table} (id bigint, v string) USING iceberg")
        rows = Path(folder) / "rows.csv"
        rows.write_text("id,v\n1,a\n2,b\n")
        spark.read.csv(str(rows), header=True, schema="id bigint, v string").writeTo(table).append()
        spark.sql(
            f"MERGE INTO {table} t USING (SELECT id, count(*) AS n FROM {table} GROUP BY id) s ON t.id = s.id "
            "WHEN MATCHED AND s.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.n"
        )
        spark.sql(f"DELETE FROM {table} WHERE id IN (SELECT 2L)")
        spark.table(table).collect()
        spark.stop()
    # Java writes the archive when it ends.
    gateway = SparkContext._gateway
    assert gateway is not None
    java = gateway.proc
    java.stdin.close()
    java.wait(SECONDS)
    new.replace(ARCHIVE)


if __name__ == "__main__":
    main()

"""`python -m benchmarks.large_tables.others.paimon FOLDER COLUMNS`: Paimon, a table with a primary key.

Paimon appends changes without a look at the table: readers merge them, and some appends compact a part of the table.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from benchmarks.large_tables.others.spark_of_its_own import spark_with
from benchmarks.large_tables.others.worker import serve

JAR = "org.apache.paimon:paimon-spark-3.5:0.9.0"
TABLE = "paimon.lake.items"
PROPERTIES = {
    "primary-key": "id",
    "bucket": "4",
    "sequence.field": "change_seq",
    "rowkind.field": "kind",
    "file.format": "parquet",
}
KIND = "CASE Op WHEN 'D' THEN '-D' ELSE '+I' END AS kind"


class Paimon:
    """A table of Paimon on a Spark of its own."""

    def __init__(self, folder: str, columns: str) -> None:
        self._columns = columns.split(", ")
        self._spark = spark_with(
            JAR,
            spark__sql__extensions="org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
            spark__sql__catalog__paimon="org.apache.paimon.spark.SparkCatalog",
            spark__sql__catalog__paimon__warehouse=f"file:{folder}",
        )

    def load(self, files: Sequence[str]) -> None:
        rows = self._rows(files)
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in PROPERTIES.items())
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema)
        self._spark.sql("CREATE DATABASE paimon.lake")
        self._spark.sql(f"CREATE TABLE {TABLE} ({columns}) TBLPROPERTIES ({properties})")
        self._append(rows)

    def apply(self, files: Sequence[str]) -> None:
        self._append(self._rows(files))

    def write_rows(self, folder: str) -> None:
        self._spark.table(TABLE).select(*self._columns).write.parquet(folder)

    def _rows(self, files: Sequence[str]) -> DataFrame:
        return self._spark.read.parquet(*files).selectExpr(*self._columns, "change_seq", KIND)

    def _append(self, rows: DataFrame) -> None:
        rows.createOrReplaceTempView("changes")
        self._spark.sql(f"INSERT INTO {TABLE} SELECT * FROM changes")


if __name__ == "__main__":
    serve(Paimon)

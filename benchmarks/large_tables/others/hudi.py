"""`python -m benchmarks.large_tables.others.hudi FOLDER COLUMNS`: Hudi's upsert with its record index, merge-on-read.

No limit for small files: with the default of 100 MB, 100 new rows rewrite a file of 5 million rows, and a batch takes
twice as long.
"""

from collections.abc import Sequence

from pyspark.sql import functions as F

from benchmarks.large_tables.others.spark_of_its_own import spark_with
from benchmarks.large_tables.others.worker import serve

JAR = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"
OPTIONS = {
    "hoodie.table.name": "items",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "change_seq",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.upsert.shuffle.parallelism": "4",
    "hoodie.bulkinsert.shuffle.parallelism": "4",
}


class Hudi:
    """A table of Hudi on a Spark of its own."""

    def __init__(self, folder: str, columns: str) -> None:
        self._table = f"file:{folder}/items"
        self._columns = columns.split(", ")
        self._spark = spark_with(
            JAR,
            spark__serializer="org.apache.spark.serializer.KryoSerializer",
            spark__kryo__registrator="org.apache.spark.HoodieSparkKryoRegistrar",
            spark__sql__extensions="org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            spark__sql__catalog__spark_catalog="org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        )

    def load(self, files: Sequence[str]) -> None:
        self._write(files, "bulk_insert", "overwrite")

    def apply(self, files: Sequence[str]) -> None:
        self._write(files, "upsert", "append")

    def write_rows(self, folder: str) -> None:
        self._spark.read.format("hudi").load(self._table).select(*self._columns).write.parquet(folder)

    def _write(self, files: Sequence[str], operation: str, mode: str) -> None:
        rows = self._spark.read.parquet(*files).withColumn("_hoodie_is_deleted", F.expr("Op = 'D'"))
        writer = rows.drop("Op", "commit_ts").write.format("hudi").options(**OPTIONS)
        writer.option("hoodie.datasource.write.operation", operation).mode(mode).save(self._table)


if __name__ == "__main__":
    serve(Hudi)

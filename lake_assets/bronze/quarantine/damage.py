"""Which of a failed batch's files cannot be read.

Here: reading each file separately. Not here: what happens with an unreadable file. The inspection decodes only a
Parquet file's footer and first rows, so damage further inside shows only now.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from lake_assets.bronze.files.content import UnreadableFile, refuse_machine_fault
from lake_assets.bronze.files.inspect import inspect_file
from lake_assets.bronze.files.parquet_columns import parquet_columns, spark_name
from lake_assets.bronze.files.unsupported import UnsupportedFile, arrow_lacks, spark_lacks
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.reader.parquet_types import READ_OPTIONS, read_schema
from lake_assets.config import DmsSettings
from lake_assets.spark.causes import kinds_of, root_cause
from lake_assets.storage.object_store import ObjectStore
from lake_assets.storage.spark_paths import literal_path


def unreadable_files(
    spark: SparkSession,
    store: ObjectStore,
    files: Iterable[LoggedFile],
    dms: Callable[[LoggedFile], DmsSettings],
) -> list[UnreadableFile]:
    """The files that cannot be read, each with its reason, as errors to raise or to keep; `dms` returns each file's
    settings. Reads each file whole, and Parquet twice. Raises StoreError when a file is gone or cannot be reached,
    UnsupportedFile for an intact one that Spark lacks something for, and the errors of Spark or of the machine when
    they fail rather than the file."""
    found = []
    for file in files:
        try:
            inspection = inspect_file(store, replace(file, key=file.path), dms(file))
            if file.format == "parquet":
                _read_parquet(spark, store, file, inspection.columns or ())
        except UnreadableFile as error:
            found.append(UnreadableFile(file.key, error.reason))
    return found


def _read_parquet(spark: SparkSession, store: ObjectStore, file: LoggedFile, columns: Sequence[str]) -> None:
    try:
        with store.open(file.path, seekable=True) as stream, pq.ParquetFile(stream) as parquet:
            for batch in parquet.iter_batches():
                batch.validate()
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        refuse_machine_fault(file.key, error)
        if not arrow_lacks(error):
            raise UnreadableFile(file.key, f"its data is damaged ({root_cause(error)})") from error
    address = literal_path(store.spark_uri(file.path))
    # Spark would refuse a file with types of its own choice, and another one for a column that no table can have.
    schema = read_schema([column for column in parquet_columns(columns) if spark_name(column.arrow)])
    try:
        _read_to_the_end(spark.read.schema(schema).options(**READ_OPTIONS).parquet(address))
    except Exception as error:  # any error: Spark reports some faults of a file, and dies of others
        # If Spark or its storage is gone, the file is not at fault: then this read raises too.
        _read_to_the_end(spark.read.text(address))
        if spark_lacks(kinds_of(error)):
            raise UnsupportedFile(file.key, root_cause(error)) from error
        raise UnreadableFile(file.key, f"Spark cannot read it ({root_cause(error)})") from error


def _read_to_the_end(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()

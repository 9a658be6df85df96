"""Which of a failed batch's files cannot be read.

Here: reading each file separately. Not here: what happens with an unreadable file. The inspection decodes only a
Parquet file's footer and first rows, so damage further inside shows only now.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from lake_assets.bronze.files.content import UnreadableFile, refuse_machine_fault
from lake_assets.bronze.files.inspect import inspect_file
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings
from lake_assets.storage.object_store import ObjectStore
from lake_assets.storage.spark_paths import literal_path


def unreadable_files(
    spark: SparkSession,
    store: ObjectStore,
    files: Iterable[LoggedFile],
    dms: Callable[[LoggedFile], DmsSettings],
) -> list[UnreadableFile]:
    """The files that cannot be read, each with its reason, as errors to raise or to keep; `dms` returns each file's
    settings. Reads each file whole, and Parquet twice. Raises StoreError when a file is gone or cannot be reached, and
    the errors of Spark or of the machine when they fail rather than the file."""
    found = []
    for file in files:
        try:
            inspect_file(store, replace(file, key=file.path), dms(file))
            if file.format == "parquet":
                _read_parquet(spark, store, file)
        except UnreadableFile as error:
            found.append(UnreadableFile(file.key, error.reason))
    return found


def _read_parquet(spark: SparkSession, store: ObjectStore, file: LoggedFile) -> None:
    try:
        with store.open(file.path, seekable=True) as stream, pq.ParquetFile(stream) as parquet:
            for batch in parquet.iter_batches():
                batch.validate()
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        refuse_machine_fault(file.key, error)
        raise UnreadableFile(file.key, f"its data is damaged ({_first_line(error)})") from error
    address = literal_path(store.spark_uri(file.path))
    try:
        _read_to_the_end(spark.read.parquet(address))
    except Exception as error:  # any error: Spark reports some faults of a file, and dies of others
        # If Spark or its storage is gone, the file is not at fault: then this read raises too.
        _read_to_the_end(spark.read.text(address))
        raise UnreadableFile(file.key, f"Spark cannot read it ({_first_line(error)})") from error


def _read_to_the_end(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__

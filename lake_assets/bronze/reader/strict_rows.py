"""Irregular text files of a batch that is too large to be decoded here: this process reads them record by record.

Here: the records of a CSV or JSON-lines file as rows for Spark. Not here: the records (`bronze/decode/records.py`), or
which files are irregular (`bronze/files/inspect.py`).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lake_assets.bronze.decode.fields import joined, parsed_fields
from lake_assets.bronze.decode.records import content_of
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.layouts.headerless import LayoutsByRow
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.reader.text_rows import field_names
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.storage.object_store import ObjectStore
from lake_assets.storage.spark_paths import spark_address

FETCHING_THREADS = 8


def strict_rows(
    spark: SparkSession,
    store: ObjectStore,
    files: Sequence[LoggedFile],
    layout: Layout,
    table: TableConfig,
    dms: DmsSettings,
    among: LayoutsByRow | None = None,
    *,
    explain: bool = False,
) -> DataFrame:
    """The rows of files of one layout as `text_rows.regular_csv` or `regular_json` return them; `_row` is the ordinal
    of the record from 0, without the header. `among`: for CSV files with several layouts, returns the rows of this
    layout; for transaction files, those that the files' records are of. Raises StoreError for a file that is gone,
    UnreadableFile for a file that is too large."""
    with ThreadPoolExecutor(FETCHING_THREADS, thread_name_prefix="strict") as pool:
        contents = pool.map(lambda file: content_of(store, file), files)
        every = joined(
            [
                parsed_fields(
                    content,
                    file,
                    layout,
                    table,
                    dms,
                    among,
                    spark_address(store.spark_uri(file.path)),
                    explain=explain,
                )
                for file, content in zip(files, contents, strict=True)
            ]
        )
    named = dict(zip(field_names(layout), every.values.values(), strict=True))
    beside = {"_file": every.file, "_row": every.row, "_bad": every.bad}
    return spark.createDataFrame(pa.table(named | beside).combine_chunks())

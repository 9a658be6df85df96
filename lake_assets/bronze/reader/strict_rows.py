"""Irregular text files of a batch that is too large to be decoded here: this process reads them record by record.

Here: the records of a CSV or JSON-lines file as rows for Spark. Not here: the records (`bronze/decode/records.py`), or
which files are irregular (`bronze/files/inspect.py`).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from lake_assets.bronze.decode.fields import Fields, joined
from lake_assets.bronze.decode.texts import TextFile
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

    def rows(file: LoggedFile) -> Fields:
        address = spark_address(store.spark_uri(file.path))
        text = TextFile(store, file, layout, table, dms, among, address, explain=explain)
        return joined([*text.pieces()])

    with ThreadPoolExecutor(FETCHING_THREADS, thread_name_prefix="strict") as pool:
        every = joined(list(pool.map(rows, files)))
    if files[0].format != "json":
        token = dms.csv_null_value
        texts = {name: pc.fill_null(values, token) for name, values in every.values.items()}
        every = replace(
            every, values={name: pc.if_else(pc.equal(each, ""), None, each) for name, each in texts.items()}
        )
    named = dict(zip(field_names(layout), every.values.values(), strict=True))
    beside = {"_file": every.file, "_row": every.row, "_bad": every.bad}
    return spark.createDataFrame(pa.table(named | beside).combine_chunks())

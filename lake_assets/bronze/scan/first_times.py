"""The earliest timestamp of a file's rows.

DMS writes the rows of a full-load part in the order of their transfer, so that its first row has the earliest time.
Somebody who writes the part again may use another order: then only all rows show when it was transferred. Here: looking
at all rows. Not here: the first row (`inspect.py`).
"""

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.bronze.files.content import UnreadableFile, chunks
from lake_assets.bronze.files.csv_dialect import CsvDialect
from lake_assets.bronze.files.formats import has_operation
from lake_assets.bronze.files.inspect import NamedFile, commit_time
from lake_assets.bronze.files.json_lines import json_lines, json_members
from lake_assets.bronze.files.row_digest import CsvDigest, FirstTime
from lake_assets.config import DmsSettings
from lake_assets.storage.object_store import ObjectStore, StoreError


def earliest_time(store: ObjectStore, file: NamedFile, dms: DmsSettings) -> datetime | None:
    """The earliest value of the timestamp column, as UTC; None without one, or if the file cannot be read."""
    if dms.timestamp_column_name is None:
        return None
    try:
        if file.format == "csv":
            return commit_time(_earliest_text(store, file, dms, dms.timestamp_column_name), dms)
        values = _json_times if file.format == "json" else _parquet_times
        times = (commit_time(value, dms) for value in values(store, file, dms.timestamp_column_name))
        return min((at for at in times if at is not None), default=None)
    except (UnreadableFile, StoreError, pa.ArrowException, ValueError):
        return None  # the reader reports what is wrong with it


def _earliest_text(store: ObjectStore, file: NamedFile, dms: DmsSettings, name: str) -> str | None:
    first = FirstTime(name if dms.add_column_name else int(has_operation(file.kind, dms)))
    rows = CsvDigest(CsvDialect.of(dms), also=first)
    for piece in chunks(store, file.key, file.compression):
        rows.add(piece)
    rows.finish()
    return first.text


def _json_times(store: ObjectStore, file: NamedFile, column: str) -> Iterator[str]:
    for line in json_lines(chunks(store, file.key, file.compression)):
        try:
            value = json_members(line).get(column)
        except ValueError:
            continue
        if isinstance(value, str):
            yield value


def _parquet_times(store: ObjectStore, file: NamedFile, column: str) -> Iterator[str | datetime]:
    with store.open(file.key, seekable=True) as stream, pq.ParquetFile(stream) as parquet:
        if column not in parquet.schema_arrow.names:
            return
        for batch in parquet.iter_batches(columns=[column], use_threads=False):
            values = batch.column(0)
            if pa.types.is_timestamp(values.type):
                values = values.cast(pa.timestamp("us", tz=values.type.tz), safe=False)
            yield from (value for value in values.to_pylist() if isinstance(value, (str, datetime)))

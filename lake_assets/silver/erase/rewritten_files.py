"""The content of a file without some of its rows.

Of a text file, the bytes of every other record stay as they are. A Parquet file is written again with the same types
and codecs. Here: the content, and comparing rows. Not here: which rows (`found_rows.py`), putting it in the place of
the file (`erased_files.py`).
"""

import gzip
import io
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.quarantine.raw_rows import numbered_records
from lake_assets.config import DmsSettings
from lake_assets.errors import LakeError
from lake_assets.storage.object_store import ObjectStore
from lake_assets.words import many

_ARROW_SCHEMA = b"ARROW:schema"


def content_without(store: ObjectStore, file: LoggedFile, dms: DmsSettings, rows: Collection[int]) -> bytes:
    """The file's content, compressed as it is, without the rows at these places. `dms`: by the contract of the file.
    Raises LakeError where Arrow does not write the file's types."""
    if file.format == "parquet":
        # In nanoseconds, the old type of times reaches from 1677 to 2262.
        options: Any = {"coerce_int96_timestamp_unit": "us"}
        with store.open(file.path, seekable=True) as stream, pq.ParquetFile(stream, **options) as parquet:
            return _parquet(parquet, file, rows)
    kept, removed = [], 0
    for ordinal, record in numbered_records(store, file, dms):
        if ordinal in rows:
            removed += 1
        else:
            kept.append(record)
    if removed != len(rows):
        raise LakeError(
            f"{file.path}: {many(len(rows), 'row', 'are')} to be erased, and {removed} were found again: run it again."
        )
    content = b"".join(kept)
    # Without a time, so that the same rows give the same bytes.
    return gzip.compress(content, mtime=0) if file.compression == "gzip" else content


def _parquet(parquet: pq.ParquetFile, file: LoggedFile, rows: Collection[int]) -> bytes:
    metadata, schema = parquet.metadata, parquet.schema_arrow
    leaves = _leaves(parquet)
    group = metadata.row_group(0) if metadata.num_row_groups else None
    codecs = {
        leaf.path: group.column(place).compression if group else "NONE" for place, leaf in enumerate(leaves)
    }
    removed = np.isin(np.arange(metadata.num_rows), [*rows])
    out, at = io.BytesIO(), 0
    options: dict[str, Any] = {
        "compression": {path: "NONE" if codec == "UNCOMPRESSED" else codec for path, codec in codecs.items()},
        "version": metadata.format_version,
        "use_deprecated_int96_timestamps": any(leaf.physical_type == "INT96" for leaf in leaves),
        "store_schema": _ARROW_SCHEMA in (metadata.metadata or {}),
    }
    with pq.ParquetWriter(out, schema, **options) as writer:
        for group in range(metadata.num_row_groups):
            table = parquet.read_row_group(group)
            kept = ~removed[at : at + table.num_rows]
            writer.write_table(table.filter(pa.array(kept)))
            at += table.num_rows
    content = out.getvalue()
    refuse_other_types(parquet, content, file)
    return content


def refuse_other_types(parquet: pq.ParquetFile, content: bytes, file: LoggedFile) -> None:
    """Raises LakeError unless the content has the file's types."""
    with pq.ParquetFile(pa.BufferReader(content)) as again:
        for leaf, other in zip(_leaves(parquet), _leaves(again), strict=True):
            if (leaf.physical_type, str(leaf.logical_type)) != (other.physical_type, str(other.logical_type)):
                raise LakeError(
                    f"{file.path}: its rows cannot be erased, because Arrow does not write {leaf.path} as "
                    f"{leaf.physical_type} beside its other columns. Remove the file, and have DMS reload the table."
                )


def are_equal(one: Iterator[pa.Table], other: Iterator[pa.Table]) -> bool:
    """Whether both give the same rows in the same order, in pieces of any sizes."""
    left = right = None
    while True:
        left = (
            left
            if left is not None and left.num_rows
            else next((each for each in one if each.num_rows), None)
        )
        right = (
            right
            if right is not None and right.num_rows
            else next((each for each in other if each.num_rows), None)
        )
        if left is None or right is None:
            return left is right
        rows = min(left.num_rows, right.num_rows)
        if not _bits(left.slice(0, rows)).equals(_bits(right.slice(0, rows))):
            return False
        left, right = left.slice(rows), right.slice(rows)


def _bits(rows: pa.Table) -> pa.Table:
    """The rows with the bits of floating-point numbers: NaN equals itself, and zeros differ by their sign."""
    whole = {pa.float64(): pa.int64(), pa.float32(): pa.int32()}
    columns = [
        pa.chunked_array([chunk.view(whole[column.type]) for chunk in column.chunks], whole[column.type])
        if column.type in whole
        else column
        for column in rows.columns
    ]
    return pa.table(columns, rows.column_names)


def _leaves(parquet: pq.ParquetFile) -> list[Any]:
    return [parquet.schema.column(place) for place in range(len(parquet.schema))]

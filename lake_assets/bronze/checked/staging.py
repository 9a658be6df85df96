"""Parquet files with rows that this process hands to Spark, for one attempt to apply a batch.

They are beside the files of the attempt's table, because Spark must be able to read them wherever it runs. `clear`
deletes them. Those of a killed attempt stay until maintenance removes orphan files. Here: writing and deleting them.
Not here: which rows (`silver/changes/stage_texts.py`, `silver/changes/hold_batch.py`).
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

ROWS_OF_A_GROUP = 1 << 17
BYTES_OF_A_GROUP = 64 << 20
"""In memory. A limit of rows is not enough, because a row may have a thousand columns."""
PREFIX = "staged-"
"""Prefix of the staged files' names."""

logger = logging.getLogger(__name__)


class Staging:
    """The staged files of one attempt. Threads may share it."""

    def __init__(self, io: FileIO, location: str) -> None:
        """`location`: the table's location, as Iceberg has it."""
        self._io = io
        # The folder of data files, not a folder of their own: in a bucket, Arrow leaves a marker for a folder that it
        # empties.
        self._beginning = f"{location.rstrip('/')}/data/{PREFIX}"
        self._lock = Lock()
        self._addresses: list[str] = []

    @contextmanager
    def file(self) -> Iterator["StagedFile"]:
        """A new file, complete after the block."""
        address = f"{self._beginning}{uuid4().hex}.parquet"
        with self._lock:
            self._addresses.append(address)
        with self._io.new_output(address).create() as stream:
            # Spark's scheme for a bucket is not Iceberg's.
            staged = StagedFile(address.replace("s3://", "s3a://", 1), stream)
            try:
                yield staged
                staged.flush()
            finally:
                # Before its stream is closed, also if the file is given up.
                staged.close()

    def clear(self) -> None:
        """Deletes the files. Does not raise: maintenance deletes what is left."""
        with self._lock:
            addresses, self._addresses = self._addresses, []
        for address in addresses:
            try:
                self._io.delete(address)
            except Exception:
                logger.debug("%s could not be deleted", address, exc_info=True)


class StagedFile:
    """Collects rows into row groups, however few are added at once."""

    def __init__(self, address: str, stream: object) -> None:
        self.address = address
        """In the form that Spark's readers take."""
        self._stream = stream
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._rows = self._bytes = 0

    def add(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= ROWS_OF_A_GROUP or self._bytes >= BYTES_OF_A_GROUP:
            self.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def flush(self) -> None:
        if not self._waiting:
            return
        rows = pa.concat_tables(self._waiting).unify_dictionaries()
        if self._writer is None:
            # The file is written and read once, so a dictionary of each column takes longer than it saves.
            words = [field.name for field in rows.schema if pa.types.is_dictionary(field.type)]
            self._writer = pq.ParquetWriter(self._stream, rows.schema, use_dictionary=words)
        self._writer.write_table(rows, ROWS_OF_A_GROUP)
        self._waiting, self._rows, self._bytes = [], 0, 0

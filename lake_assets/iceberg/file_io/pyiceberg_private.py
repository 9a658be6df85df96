"""The parts of PyIceberg that the lake uses although they have no public name or setting. No other module uses such
parts.

A release of PyIceberg may move or change any of it. Then `append_rows` and `files_of_manifest` fail. The rest goes
PyIceberg's own way: the lake reads metadata files again for each load, and writes with more requests. This module
changes only files of the lake's own file access; catalogs that others open in this process keep PyIceberg's behaviour.
Not here: the cache (`metadata_cache.py`), the file access (`local_io.py`, `s3_io.py`).
"""

import logging
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyiceberg.avro.file import AvroFile
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata

logger = logging.getLogger(__name__)

REFERENCED_DATA_FILE = 143
"""Iceberg's id of that field of a manifest."""
OWN = "_of_a_lake"
"""An attribute of the files of the lake's own file access."""


def own(file: Any) -> Any:
    """The same input or output file, marked as the lake's own: its metadata may be kept."""
    setattr(file, OWN, True)
    return file


def is_own(file: Any) -> bool:
    """Whether the lake's own file access made the file."""
    return getattr(file, OWN, False)


def wrap_metadata_files(read: Callable[[Any], Any], write: Callable[[Any], Any]) -> bool:
    """Replaces PyIceberg's functions that read and write a metadata file, in this process. `read` and `write` make the
    new functions from PyIceberg's. Returns whether this release has these functions."""
    try:
        from pyiceberg.serializers import FromInputFile, ToOutputFile

        reads, writes = FromInputFile.table_metadata, ToOutputFile.table_metadata
    except (ImportError, AttributeError) as error:
        logger.warning("PyIceberg has no function to keep metadata by (%s): each load reads it again.", error)
        return False
    FromInputFile.table_metadata = staticmethod(read(reads))  # type: ignore[method-assign]
    ToOutputFile.table_metadata = staticmethod(write(writes))  # type: ignore[method-assign]
    return True


def parts_of(file: Any) -> tuple[str, Any, int] | None:
    """The path, file system and buffer size of a file of PyArrowFileIO; None if it does not show them."""
    try:
        return file._path, file._filesystem, file._buffer_size
    except AttributeError:
        return None


def plain_s3(properties: dict[str, str], netloc: str | None) -> Any:
    """The file system that PyArrowFileIO makes for S3."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    return PyArrowFileIO(properties)._initialize_s3_fs(netloc)


class _AppendTransaction(Transaction):
    """Computes the table's metadata once for each change of the transaction. An append looks at parts of it twenty
    times. Each time, PyIceberg computes and copies all of it, which takes half of the append's time."""

    _known: tuple[object, object, TableMetadata] | None = None
    """The table's metadata and the changes, and the metadata with the changes."""

    @property
    def table_metadata(self) -> TableMetadata:
        base, updates, known = self._table.metadata, self._updates, self._known
        if known is None or known[0] is not base or known[1] is not updates:
            known = self._known = base, updates, super().table_metadata
        return known[2]


def append_rows(table: Table, rows: pa.Table) -> None:
    """Appends the rows as `Table.append` does, and with its errors."""
    with _AppendTransaction(table) as transaction:
        transaction.append(rows)


def files_of_manifest(manifest: ManifestFile, io: FileIO) -> list[tuple[DataFile, str | None]]:
    """The live files of a manifest, each with the one data file that it deletes rows of, if it is a deletion vector:
    `fetch_manifest_entry` reads manifests as of format version 2, which has no field for it."""
    place = [field.field_id for field in DATA_FILE_TYPE[3].fields].index(REFERENCED_DATA_FILE)
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[3],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as entries:
        live = [entry.data_file for entry in entries if entry.status != ManifestEntryStatus.DELETED]
    return [(file, file[place]) for file in live]

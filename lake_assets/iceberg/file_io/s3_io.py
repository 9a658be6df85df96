"""PyIceberg's files in S3 with fewer requests, by its setting `py-io-impl`.

By default, each file of an append costs three requests to write (a multipart upload), a metadata file two more, to see
that a random name is free, and each load of a table opens connections of its own. Here: writing, and the client. Not
here: metadata that need not be read again (`iceberg/metadata_cache.py`), Spark's files (`spark/catalog_conf.py`).
"""

from functools import lru_cache
from typing import cast

from pyarrow.fs import FileSystem
from pyiceberg.io import S3_RETRY_STRATEGY_IMPL, OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from lake_assets.iceberg.file_io.pyiceberg_private import own, parts_of, plain_s3


class S3Files(PyArrowFileIO):
    """PyArrow's files, of which small ones are written by one request."""

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        given = {(key, value) for key, value in self.properties.items() if key.startswith(("s3.", "client."))}
        return _file_system(frozenset(given), netloc)

    def new_input(self, location: str) -> PyArrowFile:
        found: PyArrowFile = own(super().new_input(location))
        return found

    def new_output(self, location: str) -> PyArrowFile:
        found = super().new_output(location)
        parts = parts_of(found)
        marked: PyArrowFile = own(_NewFile(found.location, *parts) if parts is not None else found)
        return marked


class _NewFile(PyArrowFile):
    """A file with a random name, as Iceberg gives each, so that no other file can have it."""

    def create(self, overwrite: bool = False) -> OutputStream:
        return super().create(overwrite=True)


@lru_cache(maxsize=16)
def _file_system(properties: frozenset[tuple[str, str]], netloc: str | None) -> FileSystem:
    """PyIceberg's own file system with these settings, which renews its credentials itself."""
    system = plain_s3(dict(properties), netloc)
    if S3_RETRY_STRATEGY_IMPL in dict(properties):
        return cast(FileSystem, system)  # a copy would not have it
    # PyIceberg has no setting for it. This is how PyArrow copies a file system by pickle.
    copy, (options,) = system.__reduce__()
    found: FileSystem = copy(options | {"allow_delayed_open": True})
    return found

"""PyIceberg's files in S3 with fewer requests, by its setting `py-io-impl`.

By default, each file of an append costs three requests to write (a multipart upload), a metadata file two more, to see
that a random name is free, and each load of a table opens connections of its own. Here: reading and writing, and the
client. Not here: the content that is kept (`kept_content.py`), metadata that need not be parsed again
(`metadata_cache.py`), Spark's files (`spark/catalog_conf.py`).
"""

import logging
from functools import lru_cache
from threading import Thread
from typing import cast

from pyarrow.fs import AwsDefaultS3RetryStrategy, FileSystem
from pyiceberg.io import S3_RETRY_STRATEGY_IMPL, InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from lake_assets.iceberg.file_io.kept_content import KeptContent, KeptFile
from lake_assets.iceberg.file_io.pyiceberg_private import own, parts_of, plain_s3

ATTEMPTS = 10
"""How often a request is sent, at most, while S3 is busy or does not answer; half a minute in all."""
DELETES = "delete-old-metadata"
"""Name of a thread."""

logger = logging.getLogger(__name__)


class S3Files(PyArrowFileIO):
    """PyArrow's files. One request writes a small file, and each manifest is read once."""

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        return _file_system(self._given, netloc)

    @property
    def _given(self) -> frozenset[tuple[str, str]]:
        given = {(key, value) for key, value in self.properties.items() if key.startswith(("s3.", "client."))}
        return frozenset(given)

    def new_input(self, location: str) -> PyArrowFile:
        return self._file(super().new_input(location))

    def new_output(self, location: str) -> PyArrowFile:
        return self._file(super().new_output(location))

    def _file(self, plain: PyArrowFile) -> PyArrowFile:
        parts = parts_of(plain)
        found = plain if parts is None else KeptFile(plain.location, *parts, kept=_kept(self._given))
        marked: PyArrowFile = own(found)
        return marked

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Deletes a file; an old metadata file in the background. PyIceberg deletes one after each commit, which takes
        PyArrow three requests, and nothing waits for it."""
        address = location if isinstance(location, str) else location.location
        if address.endswith(".metadata.json"):
            # Not a pool, because a forked process would lack the pool's threads. The process ends only after this
            # thread.
            Thread(target=self._delete_or_log, args=(address,), name=DELETES).start()
        else:
            super().delete(address)

    def _delete_or_log(self, address: str) -> None:
        try:
            super().delete(address)
        except Exception:  # nothing depends on it
            logger.debug("%s, which no table needs, is left over", address, exc_info=True)


@lru_cache(maxsize=16)
def _kept(properties: frozenset[tuple[str, str]]) -> KeptContent:
    """What is kept of the files that one client with these settings reads and writes."""
    return KeptContent()


@lru_cache(maxsize=16)
def _file_system(properties: frozenset[tuple[str, str]], netloc: str | None) -> FileSystem:
    """PyIceberg's own file system with these settings, which renews its credentials itself."""
    system = plain_s3(dict(properties), netloc)
    if S3_RETRY_STRATEGY_IMPL in dict(properties):
        return cast(FileSystem, system)  # a copy would lack the retry strategy
    # PyIceberg has no setting for `allow_delayed_open`. PyArrow copies a file system in this way for pickle.
    copy, (options,) = system.__reduce__()
    # By default, all requests of a client share a few repetitions, and a busy S3 soon fails one.
    retries = AwsDefaultS3RetryStrategy(max_attempts=ATTEMPTS)
    found: FileSystem = copy(options | {"allow_delayed_open": True, "retry_strategy": retries})
    return found

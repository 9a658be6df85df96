"""The content of small files that never change: Iceberg's manifests and lists of manifests.

A commit reads the lists and manifests that the commit before has written, and asks for the size of each file that it
has just written; each costs one or two requests. Here: keeping them in memory. Not here: the files of a bucket
(`s3_io.py`).
"""

from threading import Lock
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from cachetools import LRUCache
from pyarrow.fs import FileSystem
from pyiceberg.io import InputStream, OutputStream
from pyiceberg.io.pyarrow import PyArrowFile

MOST_BYTES = 32 << 20
"""Limit of the bytes of all kept files; the least recently used files are dropped."""
MOST_BYTES_OF_A_FILE = 1 << 20


class KeptContent:
    """Contents of files, by location. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._contents: LRUCache[str, bytes] = LRUCache(MOST_BYTES, getsizeof=len)

    def get(self, location: str) -> bytes | None:
        """The content, if it is kept."""
        with self._lock:
            content: bytes | None = self._contents.get(location)
            return content

    def keep(self, location: str, content: bytes) -> None:
        """Keeps the content, unless it is large."""
        if len(content) <= MOST_BYTES_OF_A_FILE:
            with self._lock:
                self._contents[location] = content


class KeptFile(PyArrowFile):
    """A file with a random name. Iceberg gives each file such a name, so no other file has it."""

    def __init__(
        self, location: str, path: str, fs: FileSystem, buffer_size: int, *, kept: KeptContent
    ) -> None:
        super().__init__(location, path, fs, buffer_size)
        self._kept = kept if location.endswith(".avro") else None
        self._written: int | None = None
        """The size, if this object has written the file."""

    def __len__(self) -> int:
        return super().__len__() if self._written is None else self._written

    def open(self, seekable: bool = True) -> InputStream:
        if self._kept is None:
            return super().open(seekable)
        content = self._kept.get(self.location)
        if content is None:
            with super().open(seekable) as stream:
                content = stream.read()
            self._kept.keep(self.location, content)
        found: InputStream = pa.BufferReader(content)
        return found

    def create(self, overwrite: bool = False) -> OutputStream:
        # Does not look whether the name is free: see above.
        return _Written(super().create(overwrite=True), self)

    def note(self, size: int, content: bytes) -> None:
        """Notes the size of what was written, and keeps its content if it may be kept."""
        self._written = size
        if self._kept is not None:
            self._kept.keep(self.location, content)

    @property
    def may_be_kept(self) -> bool:
        """Whether the content may be kept."""
        return self._kept is not None


class _Written:
    """A stream that notes what is written."""

    def __init__(self, stream: Any, file: KeptFile) -> None:
        self._stream, self._file = stream, file
        self._pieces: list[bytes] = []

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)

    def write(self, piece: bytes) -> int:
        written: int = self._stream.write(piece)
        if self._file.may_be_kept:
            self._pieces.append(bytes(piece))
        return written

    def flush(self) -> None:
        self._stream.flush()

    def tell(self) -> int:
        size: int = self._stream.tell()
        return size

    def close(self) -> None:
        if not self.closed:
            size = self.tell()
            self._stream.close()
            self._file.note(size, b"".join(self._pieces))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exctype: type[BaseException] | None,
        excinst: BaseException | None,
        exctb: TracebackType | None,
    ) -> None:
        self.close()

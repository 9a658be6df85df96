"""An object as a seekable file, read in ranges.

Here: the arithmetic of seeking, so that reading a Parquet footer does not fetch the whole object. Not here: fetching a
range (`object_store.py`).
"""

import io
from collections.abc import Callable


class RangeReader(io.RawIOBase):
    """Reads `size` bytes through `fetch(first, last)`: the bytes from first to last, both included."""

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._fetch = fetch
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._position)
        wanted = left if size is None or size < 0 else min(size, left)
        if not wanted:
            return b""
        content = self._fetch(self._position, self._position + wanted - 1)
        self._position += len(content)
        return content

"""An object that is not stored yet, as a store, to look at it as at any other.

Here: that store. Not here: what an object is looked at for (`bronze/files/inspect.py`).
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO


class OneObject:
    """A store of one object, as far as reading it needs one."""

    has_free_ranges = True

    def __init__(self, content: bytes) -> None:
        self._content = content

    @contextmanager
    def open(self, key: str, *, seekable: bool = False) -> Iterator[BinaryIO]:
        """The content, whatever the key."""
        yield io.BytesIO(self._content)

    def spark_uri(self, key: str) -> str:
        """An address that ends as that of the stored object does."""
        return f"memory:///{key}"

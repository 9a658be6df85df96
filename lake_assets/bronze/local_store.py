"""A local folder as an object store.

Here: listing a folder in the order and with the rules of a bucket, while others write to it. Not here: what a key
means (`keys.py`).
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from io import BufferedReader
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from lake_assets.bronze.stored_object import ObjectGone, StoredObject, StoreError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LocalStore:
    """A folder. One that does not exist yet is empty."""

    def __init__(self, folder: str | Path) -> None:
        self._root = Path(folder).expanduser().absolute()
        # A file that was only touched would otherwise be hashed again in every pass.
        self._versions: dict[StoredObject, str] = {}

    @property
    def location(self) -> str:
        return str(self._root)

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[StoredObject]:
        if self._root.exists() and not self._root.is_dir():
            raise StoreError(f"{self.location} is a file, not a folder: correct the source's location.")
        yield from self._walk("", prefix, start_after or "")

    def _walk(self, folder: str, prefix: str, start_after: str) -> Iterator[StoredObject]:
        """In S3's order, where `a.csv` comes before `a/b.csv`: a folder sorts as if it ended with a slash."""
        try:
            with os.scandir(self._root / folder) as found:
                visible = (entry for entry in found if not entry.name.startswith("."))
                entries = {folder + entry.name + ("/" if entry.is_dir() else ""): entry for entry in visible}
        except (FileNotFoundError, NotADirectoryError):
            return  # gone since its parent was listed
        except OSError as error:
            raise StoreError(f"{self._root / folder}: {error.strerror}; check its permissions.") from error
        for name, entry in sorted(entries.items(), key=itemgetter(0)):
            if name.endswith("/"):
                wanted = name.startswith(prefix) or prefix.startswith(name)
                if wanted and (name > start_after or start_after.startswith(name)):
                    yield from self._walk(name, prefix, start_after)
            elif name.startswith(prefix) and name > start_after and (stat := _stat(entry)):
                yield _stored(name, stat)

    def version(self, obj: StoredObject) -> str:
        if obj not in self._versions:
            with self._opened(obj.key) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                after = _stored(obj.key, os.fstat(file.fileno()))
            if after != obj:
                raise ObjectGone(f"{self._root / obj.key} changed while it was read: run again.")
            self._versions[obj] = digest
        return self._versions[obj]

    def open(self, key: str, *, seekable: bool = True) -> AbstractContextManager[BinaryIO]:
        return self._opened(key)

    def _opened(self, key: str) -> BufferedReader:
        try:
            return (self._root / key).open("rb")
        except FileNotFoundError as error:
            raise ObjectGone(f"{self._root / key} vanished: run again.") from error
        except OSError as error:
            raise StoreError(f"{self._root / key}: {error.strerror}; check its permissions.") from error

    def spark_uri(self, key: str) -> str:
        return f"file://{self._root.as_posix()}/{key}"


def _stat(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        # Neither a pipe nor a socket: opening one would wait for ever.
        return entry.stat() if entry.is_file() else None
    except OSError:
        return None  # gone since its folder was listed


def _stored(key: str, stat: os.stat_result) -> StoredObject:
    # Not fromtimestamp(st_mtime), a float: the log keeps whole microseconds, and must find the same ones again.
    modified = _EPOCH + timedelta(microseconds=stat.st_mtime_ns // 1000)
    return StoredObject(key, stat.st_size, modified, etag=None)

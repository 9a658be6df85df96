"""A local folder as an object store.

Here: listing a folder in the order and with the rules of a bucket, while others write to it. Not here: what a key
means (`bronze/files/keys.py`).
"""

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from io import BufferedReader
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from lake_assets.storage.stored_object import ObjectGone, StoredObject, StoreError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LocalStore:
    """A folder. One that does not exist yet is empty."""

    def __init__(self, folder: str | Path) -> None:
        self._root = Path(folder).expanduser().absolute()
        # Without the cache, every scan would hash a file again that was only touched.
        self._versions: dict[StoredObject, str] = {}
        self._left_out: dict[str, str] = {}

    @property
    def location(self) -> str:
        return str(self._root)

    @property
    def left_out(self) -> Mapping[str, str]:
        return dict(self._left_out)

    @property
    def has_free_ranges(self) -> bool:
        return True

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[StoredObject]:
        if self._root.exists() and not self._root.is_dir():
            raise StoreError(f"{self.location} is a file, not a folder: correct the source's location.")
        if start_after is None:
            self._left_out = {key: why for key, why in self._left_out.items() if not key.startswith(prefix)}
        yield from self._walk("", prefix, start_after or "", (os.path.realpath(self._root),))

    def _walk(
        self, folder: str, prefix: str, start_after: str, above: tuple[str, ...]
    ) -> Iterator[StoredObject]:
        """Lists in S3's order, where `a.csv` sorts before `a/b.csv`: a folder sorts as if it ended with a slash.
        `above`: the resolved paths of the folder and its parents."""
        try:
            with os.scandir(self._root / folder) as found:
                visible = (entry for entry in found if not entry.name.startswith("."))
                followed = [entry for entry in visible if self._is_followed(entry, folder, above)]
                entries = {folder + entry.name + ("/" if entry.is_dir() else ""): entry for entry in followed}
        except (FileNotFoundError, NotADirectoryError):
            return  # gone since its parent was listed
        except OSError as error:
            raise StoreError(f"{self._root / folder}: {error.strerror}; check its permissions.") from error
        for name, entry in sorted(entries.items(), key=itemgetter(0)):
            if name.endswith("/"):
                wanted = name.startswith(prefix) or prefix.startswith(name)
                if wanted and (name > start_after or start_after.startswith(name)):
                    inside = (
                        os.path.realpath(entry.path) if entry.is_symlink() else f"{above[-1]}/{entry.name}"
                    )
                    yield from self._walk(name, prefix, start_after, (*above, inside))
            elif name.startswith(prefix) and name > start_after and (stat := _stat(entry)):
                yield _stored(name, stat)

    def _is_followed(self, entry: os.DirEntry[str], folder: str, above: tuple[str, ...]) -> bool:
        """Whether the entry is not a link, or a link to another place in the location that is not one of its
        parents."""
        if not entry.is_symlink():
            return True
        try:
            target = os.path.realpath(entry.path, strict=True)
        except OSError as error:
            self._left_out[folder + entry.name] = f"a link that leads nowhere ({error.strerror})"
            return False
        if not _is_below(target, above[0]):
            self._left_out[folder + entry.name] = f"a link out of the source's location, to {target}"
        elif target in above:
            self._left_out[folder + entry.name] = f"a link to a folder that it is in, {target}"
        else:
            return True
        return False

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
        path = self._root / key
        if not _is_below(os.path.realpath(path), os.path.realpath(self._root)):
            raise StoreError(
                f"{path} is a link out of the source's location, and is not read: put the file there."
            )
        try:
            return (self._root / key).open("rb")
        except FileNotFoundError as error:
            raise ObjectGone(f"{self._root / key} vanished: run again.") from error
        except OSError as error:
            raise StoreError(f"{self._root / key}: {error.strerror}; check its permissions.") from error

    def version_of(self, content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()

    def write(self, key: str, content: bytes, former: StoredObject | None = None) -> StoredObject:
        path = self._root / key
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Hidden until it is whole and on the disk: a file that is there has all of its bytes.
            hidden = path.with_name(f".{path.name}")
            with hidden.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if former is not None:
                nanoseconds = (former.last_modified - _EPOCH) // timedelta(microseconds=1) * 1000
                os.utime(hidden, ns=(nanoseconds, nanoseconds))
            hidden.rename(path)
            return _stored(key, path.stat())
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}; check its permissions and the disk.") from error

    def remove(self, key: str) -> None:
        try:
            (self._root / key).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{self._root / key}: {error.strerror}; check its permissions.") from error

    def remove_same(self, obj: StoredObject) -> bool:
        if next(iter(self.list(obj.key)), None) != obj:
            return False
        self.remove(obj.key)
        return True

    def remove_former(self, keys: Collection[str]) -> int:
        return 0

    def spark_uri(self, key: str) -> str:
        return f"file://{self._root.as_posix()}/{key}"


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _stat(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        # Excludes pipes and sockets: opening one would wait for ever.
        return entry.stat() if entry.is_file() else None
    except OSError:
        return None  # gone since its folder was listed


def _stored(key: str, stat: os.stat_result) -> StoredObject:
    # Not fromtimestamp(st_mtime), a float: the log stores whole microseconds, which later listings must reproduce.
    modified = _EPOCH + timedelta(microseconds=stat.st_mtime_ns // 1000)
    return StoredObject(key, stat.st_size, modified, etag=None)

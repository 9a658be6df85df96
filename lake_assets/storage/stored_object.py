"""The interface of every object store: its objects, its methods, its errors.

Here: the interface. Not here: the stores (`local_store.py`, `object_store.py`).
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol

from lake_assets.errors import LakeError


class StoreError(LakeError):
    """A location cannot be read. The message is one sentence: which location, what is wrong, what to do."""


class NotLogged(StoreError):
    """A scan found new files that could not be logged. Files that are logged already can be applied."""


class ObjectGone(StoreError):
    """An object vanished or changed between its listing and its reading. The next listing is right again."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One listed object."""

    key: str
    """Relative to the store's location."""
    size: int
    """Bytes, as stored (compressed)."""
    last_modified: datetime
    """UTC, whole microseconds."""
    etag: str | None
    """Without quotes; None in a local folder."""


class ObjectStore(Protocol):
    """Access to one location. Every method may raise StoreError."""

    @property
    def location(self) -> str: ...

    @property
    def left_out(self) -> Mapping[str, str]:
        """The objects that the newest listings left out, by key with the reason: links out of the folder, or in a
        circle."""
        ...

    @property
    def has_free_ranges(self) -> bool:
        """Whether reading many parts of an object costs no more than reading them at once."""
        ...

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[StoredObject]:
        """The objects whose keys start with `prefix` and are above `start_after`, in the order of their keys."""
        ...

    def version(self, obj: StoredObject) -> str:
        """Identifies the content: S3's ETag, a local file's SHA-256 in hex. Raises ObjectGone."""
        ...

    def open(self, key: str, *, seekable: bool = False) -> AbstractContextManager[BinaryIO]:
        """The bytes of an object: a stream, or with `seekable` a file to seek in. Raises ObjectGone."""
        ...

    def version_of(self, content: bytes) -> str:
        """The `version` of an object with this content; of a bucket that encrypts by KMS, another one."""
        ...

    def write(self, key: str, content: bytes, former: StoredObject | None = None) -> StoredObject:
        """Creates or replaces the object. All but the content stays as `former` has it: a local file's time; an
        object's tags, metadata, encryption and storage class unless that is an archive, but not its time."""
        ...

    def remove(self, key: str) -> None:
        """Removes the object, if it is there."""
        ...

    def remove_same(self, obj: StoredObject) -> bool:
        """Removes the object, unless it is gone or was written again since it was listed; returns whether it did."""
        ...

    def remove_former(self, keys: Collection[str]) -> int:
        """Removes the former versions of these objects, which may be deleted, where the store keeps versions; returns
        how many."""
        ...

    def spark_uri(self, key: str) -> str:
        """The path for Hadoop, unescaped. Spark's readers interpret a key with any of `{}[]*?\\` as a glob."""
        ...

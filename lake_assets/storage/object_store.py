"""Where the files of a source are: a local folder or an S3 prefix, behind one small interface.

Here: opening a location, and S3. Not here: what a key means (`bronze/files/keys.py`), what a file contains
(`bronze/files/inspect.py`), which files are logged (`bronze/log/file_log.py`).
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC
from typing import Any, BinaryIO, cast
from urllib.parse import urlencode

from lake_assets.config import S3Config
from lake_assets.storage.aws_client import Aws
from lake_assets.storage.aws_faults import aws_errors, error_code, explained, rights
from lake_assets.storage.local_store import LocalStore
from lake_assets.storage.range_reader import RangeReader
from lake_assets.storage.stored_object import ObjectGone, ObjectStore, StoredObject, StoreError

__all__ = ["LocalStore", "ObjectGone", "ObjectStore", "S3Store", "StoreError", "StoredObject", "open_store"]

_LAST = "\U0010ffff"
"""Comes after every other character in the order of keys."""
_ATTRIBUTES = (
    *("BucketKeyEnabled", "SSEKMSKeyId", "ServerSideEncryption", "StorageClass", "Metadata"),
    *("CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", "ContentType"),
)
"""What an object that is written again keeps, by the names that HeadObject and PutObject share."""
_ARCHIVES = {"GLACIER", "DEEP_ARCHIVE"}
"""Storage classes whose objects have to be restored before they can be read."""
_GONE = {"NoSuchKey", "404", "PreconditionFailed", "412"}
ARCHIVED = "InvalidObjectState"
"""S3's error code for an object in GLACIER, DEEP_ARCHIVE or an archive tier that was not restored."""
_REFUSED = ("AccessDenied", "AllAccessDisabled", "Forbidden", "403")
_ADVICE = {
    "NoSuchBucket": "create the bucket or correct the source's location",
    **dict.fromkeys(
        ("SlowDown", "503", "ServiceUnavailable", "RequestLimitExceeded"),
        "S3 limits the rate of requests, and has done so for each of the attempts; the next scan tries again",
    ),
    **dict.fromkeys(
        ("KMS.DisabledException", "KMS.NotFoundException", "KMS.KMSInvalidStateException"),
        "enable or restore the KMS key with which the object is encrypted",
    ),
    **dict.fromkeys(
        ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"),
        "renew the credentials",
    ),
    **dict.fromkeys(
        ("PermanentRedirect", "AuthorizationHeaderMalformed", "301"), "set s3.region to the bucket's"
    ),
}


def open_store(
    location: str, s3: S3Config, aws: Aws | None = None, *, without: Collection[str] = ()
) -> ObjectStore:
    """The store of `s3://bucket/prefix`, or else of a local folder (a path, or `file:///…`). `without`: the beginnings
    of keys that it does not list."""
    store = _opened(location, s3, aws)
    return cast(ObjectStore, Without(store, without)) if without else store


def _opened(location: str, s3: S3Config, aws: Aws | None) -> ObjectStore:
    scheme, separator, rest = location.partition("://")
    if not separator or scheme == "file":
        return LocalStore(rest if separator else location)
    if scheme == "s3":
        return S3Store(rest, s3, aws)
    raise StoreError(f"{location}: use s3://bucket/prefix or a local folder as location.")


class Without:
    """A store without some of its keys. Safe to use from several threads if the store is."""

    def __init__(self, store: ObjectStore, left_out: Collection[str]) -> None:
        """`left_out`: the beginnings of these keys."""
        self._store, self._beginnings = store, tuple(left_out)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[StoredObject]:
        """As the store's; does not list what is left out, which may be many more objects."""
        while True:
            for obj in self._store.list(prefix, start_after):
                found = next((each for each in self._beginnings if obj.key.startswith(each)), None)
                if found is not None:
                    start_after = f"{found}{_LAST}"
                    break
                yield obj
            else:
                return


class S3Store:
    """A prefix of a bucket. Safe to use from several threads."""

    def __init__(self, bucket_and_prefix: str, s3: S3Config, aws: Aws | None = None) -> None:
        self._bucket, _, prefix = bucket_and_prefix.partition("/")
        self._prefix = f"{prefix.rstrip('/')}/" if prefix.rstrip("/") else ""
        if not self._bucket:
            raise StoreError(f"s3://{bucket_and_prefix} names no bucket: use s3://bucket/prefix as location.")
        self._s3 = s3
        self._aws = aws or Aws()

    @property
    def _client(self) -> Any:
        return s3_client(self._s3, self._aws)

    @property
    def location(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    @property
    def left_out(self) -> Mapping[str, str]:
        return {}

    @property
    def has_free_ranges(self) -> bool:
        return False

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[StoredObject]:
        request: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._prefix + prefix}
        if start_after:
            request["StartAfter"] = self._prefix + start_after
        with self._errors():
            for page in self._client.get_paginator("list_objects_v2").paginate(**request):
                if page.get("IsTruncated") and not page.get("NextContinuationToken"):
                    raise StoreError(
                        f"{self.location} lists only a part of its objects, without the token for the next part: use a "
                        "store that answers ListObjectsV2."
                    )
                for entry in page.get("Contents", ()):
                    if key := entry["Key"].removeprefix(self._prefix):
                        etag = entry.get("ETag", "").strip('"') or None
                        yield StoredObject(key, entry["Size"], entry["LastModified"].astimezone(UTC), etag)

    def version(self, obj: StoredObject) -> str:
        if not obj.etag:
            raise StoreError(
                f"{self.location}/{obj.key} was listed without an ETag: use a store that has them."
            )
        return obj.etag

    @contextmanager
    def open(self, key: str, *, seekable: bool = False) -> Iterator[BinaryIO]:
        address = {"Bucket": self._bucket, "Key": self._prefix + key}
        with self._errors(key):
            if seekable:
                head = self._client.head_object(**address)
                # Ranges of two versions of the object must not be combined.
                pinned = address | {"IfMatch": head["ETag"]}
                yield cast(
                    BinaryIO, RangeReader(head["ContentLength"], lambda a, b: self._range(pinned, a, b))
                )
            else:
                with closing(self._client.get_object(**address)["Body"]) as body:
                    yield cast(BinaryIO, body)

    def _range(self, address: dict[str, str], first: int, last: int) -> bytes:
        # Converted here: the Parquet reader would report a time-out, which is an OSError, as damage.
        with (
            self._errors(address["Key"].removeprefix(self._prefix)),
            closing(self._client.get_object(**address, Range=f"bytes={first}-{last}")["Body"]) as body,
        ):
            return cast(bytes, body.read())

    def version_of(self, content: bytes) -> str:
        return hashlib.md5(content, usedforsecurity=False).hexdigest()

    def write(self, key: str, content: bytes, former: StoredObject | None = None) -> StoredObject:
        address = {"Bucket": self._bucket, "Key": self._prefix + key}
        with self._errors(key):
            kept = {} if former is None else self._attributes(address)
            self._client.put_object(**address, **kept, Body=content)
            head = self._client.head_object(**address)
        etag = head["ETag"].strip('"')
        return StoredObject(key, head["ContentLength"], head["LastModified"].astimezone(UTC), etag)

    def _attributes(self, address: Mapping[str, str]) -> dict[str, Any]:
        """What the object has beside its content, as arguments of PutObject."""
        head = self._client.head_object(**address)
        found = {name: head[name] for name in _ATTRIBUTES if head.get(name)}
        if found.get("StorageClass") in _ARCHIVES:
            del found["StorageClass"]  # it was restored to be read, and is read again
        if head.get("TagCount"):
            tags = self._client.get_object_tagging(**address)["TagSet"]
            found["Tagging"] = urlencode({tag["Key"]: tag["Value"] for tag in tags})
        return found

    def remove(self, key: str) -> None:
        with self._errors(key):
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)

    def remove_same(self, obj: StoredObject) -> bool:
        # Listed once more: other stores than AWS's may ignore the condition.
        if next(iter(self.list(obj.key)), None) != obj:
            return False
        address = {"Bucket": self._bucket, "Key": self._prefix + obj.key}
        try:
            with self._errors(obj.key):
                self._client.delete_object(**address, IfMatch=f'"{obj.etag}"')
        except ObjectGone:
            return False
        return True

    def remove_former(self, keys: Collection[str]) -> int:
        removed = 0
        with self._errors():
            pages = self._client.get_paginator("list_object_versions")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix):
                for entry in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                    if entry["Key"].removeprefix(self._prefix) in keys and not entry["IsLatest"]:
                        address = {"Key": entry["Key"], "VersionId": entry["VersionId"]}
                        self._client.delete_object(Bucket=self._bucket, **address)
                        removed += 1
        return removed

    def spark_uri(self, key: str) -> str:
        return f"s3a://{self._bucket}/{self._prefix}{key}"

    @contextmanager
    def _errors(self, key: str = "") -> Iterator[None]:
        where = f"{self.location}/{key}" if key else self.location
        try:
            yield
        except aws_errors() as error:
            if key and error_code(error) in _GONE:
                raise ObjectGone(f"{where} vanished or changed: run again.") from error
            if error_code(error) == ARCHIVED:
                raise StoreError(_archived(where, error)) from error
            code = error_code(error)
            message = str((getattr(error, "response", None) or {}).get("Error", {}).get("Message", ""))
            needed = rights(getattr(error, "operation_name", None), message)
            advice = {**_ADVICE, code: needed} if code in _REFUSED else _ADVICE
            raise StoreError(explained(error, "S3", where, where, advice, "s3.endpoint")) from error


def _archived(where: str, error: Exception) -> str:
    """A sentence about an object that S3 does not give out before it is restored."""
    found = getattr(error, "response", {}).get("Error", {})
    kind = found.get("StorageClass") or found.get("AccessTier") or "an archive"
    return (
        f"{where}: S3 answered {ARCHIVED}, because the object is in the storage class {kind}. Restore the object (aws "
        "s3api restore-object); its file waits until then. Exclude the source's location from the lifecycle rule that "
        "archives objects."
    )


def s3_client(s3: S3Config, aws: Aws) -> Any:
    """A client of S3. Raises SecretUnavailable and RoleRefused."""
    return aws.client(
        "s3",
        s3,
        retries={"mode": "standard", "max_attempts": 4},
        connect_timeout=10,
        read_timeout=60,
        max_pool_connections=32,
        s3={"addressing_style": "path"} if s3.path_style else {},
    )

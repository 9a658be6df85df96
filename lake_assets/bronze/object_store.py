"""Where the files of a source are: a local folder or an S3 prefix, behind one small interface.

Here: listing, reading and naming objects, and the only import of boto3 in bronze. Not here: what a key means
(`keys.py`), what a file contains (`inspect.py`), what is already known (`file_log.py`).
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import BufferedReader
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from lake_assets.config import S3Config
from lake_assets.errors import LakeError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MISSING_OBJECT = {"NoSuchKey", "404"}
_ADVICE = {
    "NoSuchBucket": "create the bucket or correct the source's location",
    **dict.fromkeys(
        ("AccessDenied", "AllAccessDisabled", "Forbidden", "403"),
        "grant s3:ListBucket on the bucket and s3:GetObject on its objects",
    ),
    **dict.fromkeys(
        ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"),
        "renew the credentials",
    ),
    **dict.fromkeys(
        ("PermanentRedirect", "AuthorizationHeaderMalformed", "301"), "set s3.region to the bucket's"
    ),
}


class StoreError(LakeError):
    """A location cannot be read. The message is one sentence: which location, what is wrong, what to do."""


class ObjectGone(StoreError):
    """An object vanished or changed between being listed and being read. The next listing tells the truth."""


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
    """Read access to one location. Every method may raise StoreError."""

    @property
    def location(self) -> str: ...

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[StoredObject]:
        """The objects whose keys start with `prefix` and are above `start_after`, in the order of their keys."""
        ...

    def version(self, obj: StoredObject) -> str:
        """What tells one content from another: S3's ETag, a local file's SHA-256 in hex. Raises ObjectGone."""
        ...

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """The bytes of an object, to be read forward; not always seekable. Raises ObjectGone."""
        ...

    def spark_uri(self, key: str) -> str:
        """The path as Hadoop takes it, unescaped. Spark's readers see a glob in a key with any of `{}[]*?\\`."""
        ...


def open_store(location: str, s3: S3Config) -> ObjectStore:
    """The store of `s3://bucket/prefix`, or else of a local folder (a path, or `file:///…`)."""
    scheme, separator, rest = location.partition("://")
    if not separator or scheme == "file":
        return LocalStore(rest if separator else location)
    if scheme in ("s3", "s3a"):
        return S3Store(rest, s3)
    raise StoreError(f"{location}: use s3://bucket/prefix or a local folder as location.")


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
            elif name.startswith(prefix) and name > start_after:
                with suppress(OSError):  # gone since its folder was listed
                    # Neither a pipe nor a socket: opening one would wait for ever.
                    if entry.is_file():
                        yield _stored(name, entry.stat())

    def version(self, obj: StoredObject) -> str:
        if obj not in self._versions:
            with self._opened(obj.key) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                after = _stored(obj.key, os.fstat(file.fileno()))
            if after != obj:
                raise ObjectGone(f"{self._root / obj.key} changed while it was read: run again.")
            self._versions[obj] = digest
        return self._versions[obj]

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
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


def _stored(key: str, stat: os.stat_result) -> StoredObject:
    # Not fromtimestamp(st_mtime), a float: the log keeps whole microseconds, and must find the same ones again.
    modified = _EPOCH + timedelta(microseconds=stat.st_mtime_ns // 1000)
    return StoredObject(key, stat.st_size, modified, etag=None)


class S3Store:
    """A prefix of a bucket. Safe to use from several threads."""

    def __init__(self, bucket_and_prefix: str, s3: S3Config) -> None:
        self._bucket, _, prefix = bucket_and_prefix.partition("/")
        self._prefix = f"{prefix.rstrip('/')}/" if prefix.rstrip("/") else ""
        if not self._bucket:
            raise StoreError(f"s3://{bucket_and_prefix} names no bucket: use s3://bucket/prefix as location.")
        self._client = _client(s3)

    @property
    def location(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[StoredObject]:
        request: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._prefix + prefix}
        if start_after:
            request["StartAfter"] = self._prefix + start_after
        while True:
            with self._errors():
                page = self._client.list_objects_v2(**request)
            for entry in page.get("Contents", ()):
                if key := entry["Key"].removeprefix(self._prefix):
                    etag = entry.get("ETag", "").strip('"') or None
                    yield StoredObject(key, entry["Size"], entry["LastModified"].astimezone(UTC), etag)
            if not page.get("IsTruncated"):
                return
            request = request | {"ContinuationToken": page["NextContinuationToken"]}

    def version(self, obj: StoredObject) -> str:
        if not obj.etag:
            raise StoreError(
                f"{self.location}/{obj.key} was listed without an ETag: use a store that has them."
            )
        return obj.etag

    @contextmanager
    def open(self, key: str) -> Iterator[BinaryIO]:
        with self._errors(key):
            body = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"]
            with closing(body):
                yield cast(BinaryIO, body)

    def spark_uri(self, key: str) -> str:
        return f"s3a://{self._bucket}/{self._prefix}{key}"

    @contextmanager
    def _errors(self, key: str = "") -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError

        where = f"{self.location}/{key}" if key else self.location
        try:
            yield
        except ClientError as error:
            # The server's own message may repeat an access key: only its code is passed on.
            code = str(error.response.get("Error", {}).get("Code", "Unknown"))
            if key and code in _MISSING_OBJECT:
                raise ObjectGone(f"{where} vanished: run again.") from error
            advice = _ADVICE.get(code, "look the code up in the S3 API reference if it stays")
            raise StoreError(f"{where}: S3 answered {code}; {advice}.") from error
        except BotoCoreError as error:
            advice = "check the network, s3.endpoint and the credentials"
            raise StoreError(f"{where} cannot be reached ({type(error).__name__}): {advice}.") from error


def _client(s3: S3Config) -> Any:
    # Here and not above: a local lake starts 0.2 s sooner without boto3.
    import boto3
    from botocore.config import Config

    return boto3.session.Session().client(
        "s3",
        region_name=s3.region,
        endpoint_url=s3.endpoint,
        aws_access_key_id=s3.access_key_id.get_secret_value() if s3.access_key_id else None,
        aws_secret_access_key=s3.secret_access_key.get_secret_value() if s3.secret_access_key else None,
        config=Config(
            retries={"mode": "standard", "max_attempts": 4},
            connect_timeout=10,
            read_timeout=60,
            max_pool_connections=32,
            s3={"addressing_style": "path"} if s3.path_style else {},
        ),
    )

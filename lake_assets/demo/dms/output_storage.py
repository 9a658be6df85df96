"""The storage of DMS files: a local folder or an S3 prefix.

Here: writing, listing, reading and removing objects by key. Not here: their names and content.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import boto3


class ObjectStorage(Protocol):
    """Objects under a location; keys are relative to it and separated by `/`."""

    def write(self, key: str, data: bytes) -> None:
        """Write or replace: a reader sees the old object or the new one, never a part."""

    def read(self, key: str) -> bytes: ...

    def list(self, prefix: str) -> Iterator[str]:
        """Keys that begin with `prefix`, sorted."""

    def remove(self, key: str) -> None: ...


class LocalStorage:
    """A folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, key: str, data: bytes) -> None:
        path = self._folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        # Hidden, so that it does not count as a DMS file. Every attempt uses the same name, so kills leave at most one.
        unfinished = path.with_name(f".{path.name}.unfinished")
        unfinished.write_bytes(data)
        unfinished.replace(path)

    def read(self, key: str) -> bytes:
        return (self._folder / key).read_bytes()

    def list(self, prefix: str) -> Iterator[str]:
        keys = (
            path.relative_to(self._folder).as_posix() for path in self._folder.rglob("*") if path.is_file()
        )
        return iter(
            sorted(key for key in keys if key.startswith(prefix) and not key.split("/")[-1].startswith("."))
        )

    def remove(self, key: str) -> None:
        (self._folder / key).unlink()


class S3Storage:
    """A bucket and prefix; the client's credentials, region and retries are boto3's usual ones."""

    def __init__(self, bucket: str, prefix: str, endpoint_url: str | None) -> None:
        self._client: Any = boto3.client("s3", endpoint_url=endpoint_url)
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""

    def write(self, key: str, data: bytes) -> None:
        self._client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=data)

    def read(self, key: str) -> bytes:
        body: bytes = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"].read()
        return body

    def list(self, prefix: str) -> Iterator[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix + prefix
        )
        for page in pages:
            for found in page.get("Contents", ()):
                yield found["Key"].removeprefix(self._prefix)

    def remove(self, key: str) -> None:
        self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)


def open_storage(location: str | Path, *, endpoint_url: str | None = None) -> ObjectStorage:
    """Storage at a local folder or `s3://bucket/prefix`; or a topic of Kafka, `kafka://host:port/topic`, which gets
    the rows as messages.

    Without `endpoint_url` boto3 takes AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, if set. Raises ValueError for another
    scheme or an `s3://` address without a bucket.
    """
    text = str(location)
    if text.startswith("kafka://"):
        # Here, because its client is an extra.
        from lake_assets.demo.dms.topic import TopicStorage

        return TopicStorage(text.removeprefix("kafka://"))
    if not text.startswith("s3://"):
        if "://" in text:
            raise ValueError(f"location {text!r} is neither a folder nor s3://bucket/prefix")
        return LocalStorage(Path(text))
    bucket, _, prefix = text.removeprefix("s3://").partition("/")
    if not bucket:
        raise ValueError(f"location {text!r} names no bucket")
    return S3Storage(bucket, prefix, endpoint_url)

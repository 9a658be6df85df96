"""Where files are, and how new files of a source are found: by listing its location, and by S3's notifications.

A location has one spelling: Hadoop's schemes `s3a://` and `s3n://` mean what `s3://` means. Below a source's location
may be places that are not the source's, such as the warehouse. Not here: listing (`bronze/scan/object_listing.py`),
receiving (`bronze/scan/notifications.py`), paths relative to lake.yaml (`config_file.py`).
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Protocol

from pydantic import AfterValidator, Field

from lake_assets.config.aws.access import AwsAccess
from lake_assets.config.base import Mistake, matching
from lake_assets.table_name import TableName

_QueueUrl = Annotated[
    str,
    matching(
        r"(?is)https?://.*",
        "is no URL of a queue, such as https://sqs.eu-central-1.amazonaws.com/123456789012/files",
    ),
]


class NotificationsConfig(AwsAccess):
    """The SQS queue that the bucket's event notifications go to, directly, through SNS or through EventBridge."""

    queue_url: _QueueUrl
    dead_letter_queue_url: _QueueUrl | None = None
    """Where malformed messages are sent; without it they stay for the queue's own redrive policy."""


_SCHEME = re.compile(r"(?i)(?P<s3>s3[an]?)://|(?P<file>file)://")


def _in_one_spelling(location: str) -> str:
    found = _SCHEME.match(location)
    if found is None:
        return location
    return f"{'s3' if found['s3'] else 'file'}://{location[found.end() :]}"


Location = Annotated[str, Field(min_length=1), AfterValidator(_in_one_spelling)]
"""A folder or `s3://bucket/prefix`; `s3a://`, `s3n://` and schemes in upper case are read as `s3://`."""


_OF_THE_LAKE = re.compile(r"(?P<name>lake_ops|gold|silver_[^/]*)(\.db)?/")
"""Folders of a warehouse in which the lake makes tables."""


class Located(Protocol):
    """A source, as far as the places of its files are concerned."""

    @property
    def location(self) -> str: ...
    @property
    def tables(self) -> Mapping[str, object]: ...


def place_mistakes(source: Located, warehouse: str | None, not_own: Iterable[str]) -> Iterator[Mistake]:
    """What is wrong with a source's location: files of its tables must not be where others are. `not_own`: the places
    `below` the location."""
    own, folder = _place(source.location), _place(warehouse) if warehouse is not None else None
    inside = own.removeprefix(folder) if folder is not None and own.startswith(folder) else None
    if inside == "":
        yield ("location",), "is the catalog's warehouse: give one of them a folder of its own"
    elif inside is not None and (found := _OF_THE_LAKE.match(inside)) is not None:
        yield ("location",), f"is in {found['name']} of the warehouse, where the lake has tables: move it"
    for place in not_own:
        for table in source.tables:
            files = TableName.parse(table).prefix
            if files.startswith(place) or place.startswith(files):
                yield (
                    ("tables", table),
                    f"has its files in {files} below the location, and {place} is the lake's own or another source's: "
                    "move one of them",
                )


def below(location: str, folders: Iterable[str | None], files: Iterable[str | None] = ()) -> tuple[str, ...]:
    """The beginnings of the keys below a location that belong to these folders, prefixes and files."""
    own = _place(location)
    places = {_place(other) for other in folders if other is not None}
    places |= {_place(other).rstrip("/") for other in files if other is not None}
    return tuple(
        sorted(place.removeprefix(own) for place in places if place.startswith(own) and place != own)
    )


def _place(location: str) -> str:
    """A location for comparisons, with a slash at its end: `s3://bucket/prefix/`, or the resolved path of a folder."""
    if location.startswith("s3://"):
        return f"{location.rstrip('/')}/"
    if "://" in location and not location.startswith("file://"):
        return location
    return f"{os.path.realpath(location.removeprefix('file://')).rstrip('/')}/"

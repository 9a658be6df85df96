"""What S3 tells about objects that are gone: which keys, and why.

Here: the messages, as pure functions. Not here: receiving them, or concluding anything: events come at least once, late
and in any order, so that they are hints, and a listing is what counts (`bronze/vanished.py`). What only they know is
whether an object was deleted or a lifecycle rule expired it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lake_assets.bronze.keys import decode_event_key
from lake_assets.bronze.vanished import Removal

_EVENTS = {"ObjectRemoved": Removal.DELETED, "LifecycleExpiration": Removal.EXPIRED}
_REASONS = {"DeleteObject": Removal.DELETED, "Lifecycle Expiration": Removal.EXPIRED}


@dataclass(frozen=True, slots=True)
class RemovedObject:
    """An object that S3 says is gone, or hidden by a delete marker."""

    bucket: str
    key: str
    """As a listing spells it."""
    removal: Removal
    at: datetime
    """UTC."""


def removed_objects(message: str | Mapping[str, Any]) -> list[RemovedObject]:
    """The removals in a message: an event notification of S3, an event of EventBridge, or either of them in an
    envelope of SNS or the record of an SQS message. Messages of another kind have none. Raises ValueError for what is
    no JSON."""
    return list(_removed(json.loads(message) if isinstance(message, str) else message))


def removals_below(location: str, removed: Iterable[RemovedObject]) -> dict[str, Removal]:
    """By key relative to a source's location (`s3://bucket/prefix`), the newest removal told of it."""
    bucket, _, prefix = location.partition("://")[2].partition("/")
    prefix = f"{prefix.rstrip('/')}/" if prefix.rstrip("/") else ""
    return {
        entry.key.removeprefix(prefix): entry.removal
        for entry in sorted(removed, key=lambda entry: entry.at)
        if entry.bucket == bucket and entry.key.startswith(prefix)
    }


def _removed(content: Any) -> Iterator[RemovedObject]:
    if not isinstance(content, Mapping):
        return
    for envelope in ("Message", "body", "Body"):
        if isinstance(inside := content.get(envelope), str):
            yield from removed_objects(inside)
            return
    if content.get("source") == "aws.s3":
        yield from _event_bridge(content)
    records = content.get("Records")
    for record in records if isinstance(records, list) else ():
        if record.get("eventSource") == "aws:sqs":
            yield from _removed(record)
        elif removal := _EVENTS.get(record.get("eventName", "").removeprefix("s3:").partition(":")[0]):
            bucket, key = record["s3"]["bucket"]["name"], decode_event_key(record["s3"]["object"]["key"])
            yield RemovedObject(bucket, key, removal, datetime.fromisoformat(record["eventTime"]))


def _event_bridge(content: Mapping[str, Any]) -> Iterator[RemovedObject]:
    if content.get("detail-type") != "Object Deleted":
        return
    detail = content["detail"]
    removal = _REASONS.get(detail.get("reason", ""))
    if removal is not None:
        # Unlike a notification's, its keys are not encoded.
        at = datetime.fromisoformat(content["time"])
        yield RemovedObject(detail["bucket"]["name"], detail["object"]["key"], removal, at)

"""S3's events about objects: which keys are new, which are gone, and why.

Here: parsing the messages, as pure functions. Not here: receiving them (`notifications.py`), or acting on them: events
arrive at least once, late and in any order, so they are only hints, and a listing decides
(`bronze/scan/object_listing.py`, `bronze/scan/vanished.py`). Only events show whether an object was deleted or expired
by a lifecycle rule.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lake_assets.bronze.files.keys import decode_event_key
from lake_assets.bronze.scan.vanished import Removal

_EVENTS = {
    "ObjectCreated": None,
    "ObjectRestore": None,
    "ObjectRemoved": Removal.DELETED,
    "LifecycleExpiration": Removal.EXPIRED,
}
_REASONS = {"DeleteObject": Removal.DELETED, "Lifecycle Expiration": Removal.EXPIRED}
_DEPTH = 4
"""Nested envelopes that are opened; SNS in SQS has two."""


class MalformedMessage(ValueError):
    """The message is not one of S3's."""


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """An event of one object."""

    bucket: str
    key: str
    """Spelled as in a listing."""
    removal: Removal | None
    """Why the object is gone or hidden by a delete marker; None for an object that was written."""
    at: datetime
    """UTC."""


def object_events(message: str | Mapping[str, Any]) -> list[ObjectEvent]:
    """The events in a message: an event notification of S3, an event of EventBridge, or either of them in an envelope
    of SNS or the record of an SQS message. Other messages of S3 (tags, replication, its test event) have none. Raises
    MalformedMessage."""
    try:
        return list(_events(message, _DEPTH))
    except MalformedMessage:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise MalformedMessage(f"no message of S3: {type(error).__name__}") from error


def events_below(location: str, events: Iterable[ObjectEvent]) -> list[ObjectEvent]:
    """The events of objects below a source's location (`s3://bucket/prefix`), with keys relative to it, by time."""
    bucket, _, prefix = location.partition("://")[2].partition("/")
    prefix = f"{prefix.rstrip('/')}/" if prefix.rstrip("/") else ""
    return [
        replace(event, key=event.key.removeprefix(prefix))
        for event in sorted(events, key=lambda event: event.at)
        if event.bucket == bucket and event.key.startswith(prefix)
    ]


def _events(message: Any, depth: int) -> Iterator[ObjectEvent]:
    content = json.loads(message) if isinstance(message, str) else message
    if not isinstance(content, Mapping) or not depth:
        raise MalformedMessage("no message of S3: no object in JSON")
    for envelope in ("Message", "body", "Body"):
        if isinstance(inside := content.get(envelope), str):
            yield from _events(inside, depth - 1)
            return
    if content.get("source") == "aws.s3":
        yield from _event_bridge(content)
    elif isinstance(records := content.get("Records"), list):
        for record in records:
            if record.get("eventSource") == "aws:sqs":
                yield from _events(record, depth - 1)
            else:
                yield from _record(record)
    elif content.get("Event") != "s3:TestEvent":
        raise MalformedMessage("no message of S3: neither records nor an event of EventBridge")


def _record(record: Mapping[str, Any]) -> Iterator[ObjectEvent]:
    kind = record["eventName"].removeprefix("s3:").partition(":")[0]
    if kind in _EVENTS:
        bucket, key = record["s3"]["bucket"]["name"], decode_event_key(record["s3"]["object"]["key"])
        yield ObjectEvent(bucket, key, _EVENTS[kind], datetime.fromisoformat(record["eventTime"]))


def _event_bridge(content: Mapping[str, Any]) -> Iterator[ObjectEvent]:
    detail, created = content["detail"], content["detail-type"] == "Object Created"
    removal = _REASONS.get(detail.get("reason", "")) if content["detail-type"] == "Object Deleted" else None
    if created or removal is not None:
        # Unlike in a notification, the keys are not encoded.
        at = datetime.fromisoformat(content["time"])
        yield ObjectEvent(detail["bucket"]["name"], detail["object"]["key"], removal, at)

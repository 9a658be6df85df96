"""S3's messages about objects that are gone, in each of their envelopes."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lake_assets.aws.s3_events import RemovedObject, removals_below, removed_objects
from lake_assets.bronze.vanished import Removal

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def notification(event: str, key: str = "landing/public/Order+Lines/LOAD00000001.csv") -> dict[str, Any]:
    """As the S3 guide shows them ("Event message structure")."""
    return {
        "eventVersion": "2.3",
        "eventSource": "aws:s3",
        "awsRegion": "us-east-1",
        "eventTime": "2026-03-01T12:00:00.000Z",
        "eventName": event,
        "s3": {"bucket": {"name": "lake"}, "object": {"key": key, "sequencer": "0055AED6DCD90281E5"}},
    }


def event_bridge(reason: str, kind: str = "Object Deleted", key: str = "landing/a b=1.csv") -> dict[str, Any]:
    return {
        "version": "0",
        "detail-type": kind,
        "source": "aws.s3",
        "time": "2026-03-01T12:00:00Z",
        "detail": {
            "bucket": {"name": "lake"},
            "object": {"key": key, "sequencer": "0055AED6DCD90281E5"},
            "reason": reason,
            "deletion-type": "Permanently Deleted",
        },
    }


def removed(key: str, removal: Removal) -> list[RemovedObject]:
    return [RemovedObject("lake", key, removal, AT)]


ORDER_LINES = "landing/public/Order Lines/LOAD00000001.csv"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"Records": [notification("ObjectRemoved:Delete")]}, removed(ORDER_LINES, Removal.DELETED)),
        ({"Records": [notification("s3:ObjectRemoved:Delete")]}, removed(ORDER_LINES, Removal.DELETED)),
        (
            {"Records": [notification("ObjectRemoved:DeleteMarkerCreated")]},
            removed(ORDER_LINES, Removal.DELETED),
        ),
        ({"Records": [notification("LifecycleExpiration:Delete")]}, removed(ORDER_LINES, Removal.EXPIRED)),
        ({"Records": [notification("ObjectCreated:Put")]}, []),
        (
            {"Records": [notification("ObjectRemoved:Delete", "a%3D1%2B.csv")]},
            removed("a=1+.csv", Removal.DELETED),
        ),
        ({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "lake"}, []),
        (event_bridge("DeleteObject"), removed("landing/a b=1.csv", Removal.DELETED)),
        (event_bridge("Lifecycle Expiration"), removed("landing/a b=1.csv", Removal.EXPIRED)),
        (event_bridge("DeleteObject", "Object Created"), []),
        (event_bridge("DeleteObject", key="a+b%3D.csv"), removed("a+b%3D.csv", Removal.DELETED)),
        ({}, []),
        ([], []),
    ],
)
@pytest.mark.parametrize("envelope", ["none", "text", "sns", "sqs", "sns in sqs"])
def test_messages(message: Any, expected: list[RemovedObject], envelope: str) -> None:
    text = json.dumps(message)
    if "sns" in envelope:
        text = json.dumps({"Type": "Notification", "TopicArn": "arn:aws:sns:x", "Message": text})
    if "sqs" in envelope:
        text = json.dumps({"Records": [{"eventSource": "aws:sqs", "messageId": "1", "body": text}]})
    assert removed_objects(message if envelope == "none" else text) == expected


def test_what_is_no_message() -> None:
    with pytest.raises(ValueError, match="Expecting value"):
        removed_objects("no JSON")


def test_removals_of_a_location() -> None:
    later = AT.replace(hour=13)
    told = [
        RemovedObject("lake", "landing/a.csv", Removal.EXPIRED, later),
        RemovedObject("lake", "landing/a.csv", Removal.DELETED, AT),
        RemovedObject("lake", "landing2/b.csv", Removal.DELETED, AT),
        RemovedObject("other", "landing/c.csv", Removal.DELETED, AT),
    ]
    assert removals_below("s3://lake/landing/", told) == {"a.csv": Removal.EXPIRED}
    assert set(removals_below("s3://lake", told)) == {"landing/a.csv", "landing2/b.csv"}

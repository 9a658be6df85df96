"""S3's messages about objects, in each of their envelopes."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lake_assets.bronze.scan.s3_events import MalformedMessage, ObjectEvent, events_below, object_events
from lake_assets.bronze.scan.vanished import Removal
from lake_assets_tests.helpers.servers.s3_messages import event_bridge, notification

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def told(key: str, removal: Removal | None) -> list[ObjectEvent]:
    return [ObjectEvent("lake", key, removal, AT)]


ORDER_LINES = "landing/public/Order Lines/LOAD00000001.csv"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"Records": [notification("ObjectRemoved:Delete")]}, told(ORDER_LINES, Removal.DELETED)),
        ({"Records": [notification("s3:ObjectRemoved:Delete")]}, told(ORDER_LINES, Removal.DELETED)),
        (
            {"Records": [notification("ObjectRemoved:DeleteMarkerCreated")]},
            told(ORDER_LINES, Removal.DELETED),
        ),
        ({"Records": [notification("LifecycleExpiration:Delete")]}, told(ORDER_LINES, Removal.EXPIRED)),
        ({"Records": [notification("ObjectCreated:Put")]}, told(ORDER_LINES, None)),
        ({"Records": [notification("ObjectTagging:Put")]}, []),
        (
            {"Records": [notification("ObjectRemoved:Delete", "a%3D1%2B.csv")]},
            told("a=1+.csv", Removal.DELETED),
        ),
        ({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "lake"}, []),
        (event_bridge("DeleteObject"), told("landing/a b=1.csv", Removal.DELETED)),
        (event_bridge("Lifecycle Expiration"), told("landing/a b=1.csv", Removal.EXPIRED)),
        (event_bridge("PutObject", "Object Created"), told("landing/a b=1.csv", None)),
        (event_bridge("", "Object Tags Added"), []),
        (event_bridge("DeleteObject", key="a+b%3D.csv"), told("a+b%3D.csv", Removal.DELETED)),
    ],
)
@pytest.mark.parametrize("envelope", ["none", "text", "sns", "sqs", "sns in sqs"])
def test_messages(message: Any, expected: list[ObjectEvent], envelope: str) -> None:
    text = json.dumps(message)
    if "sns" in envelope:
        text = json.dumps({"Type": "Notification", "TopicArn": "arn:aws:sns:x", "Message": text})
    if "sqs" in envelope:
        text = json.dumps({"Records": [{"eventSource": "aws:sqs", "messageId": "1", "body": text}]})
    assert object_events(message if envelope == "none" else text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "{}",
        "[]",
        "1",
        '{"Records": [{"eventName": "ObjectCreated:Put"}]}',
        '{"Records": ["text"]}',
        '{"source": "aws.s3", "detail-type": "Object Created"}',
        json.dumps({"Records": [notification("ObjectCreated:Put", "%FF.csv")]}),
        json.dumps({"Records": [notification("ObjectCreated:Put") | {"eventTime": "yesterday"}]}),
        '{"Message": ' * 9 + '""' + "}" * 9,
    ],
)
def test_what_is_no_message(text: str) -> None:
    with pytest.raises(MalformedMessage):
        object_events(text)


def test_what_a_location_is_told() -> None:
    later = AT.replace(hour=13)
    events = [
        ObjectEvent("lake", "landing/a.csv", Removal.EXPIRED, later),
        ObjectEvent("lake", "landing/a.csv", None, AT),
        ObjectEvent("lake", "landing2/b.csv", Removal.DELETED, AT),
        ObjectEvent("other", "landing/c.csv", Removal.DELETED, AT),
    ]
    own = events_below("s3://lake/landing/", events)
    assert [(event.key, event.removal) for event in own] == [("a.csv", None), ("a.csv", Removal.EXPIRED)]
    assert {event.key for event in events_below("s3://lake", events)} == {"landing/a.csv", "landing2/b.csv"}

"""S3's messages about objects of the bucket `lake`, as it sends them to a queue."""

from typing import Any


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
    """As the EventBridge guide shows them."""
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

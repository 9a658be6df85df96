"""How new files of a source are found: by listing its location, and by S3's notifications.

Not here: listing (`bronze/scan/object_listing.py`), receiving (`bronze/scan/notifications.py`).
"""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from lake_assets.config.aws.access import AwsAccess
from lake_assets.config.base import Duration, Model, matching

_QueueUrl = Annotated[
    str,
    matching(
        r"(?s)https?://.*",
        "is no URL of a queue, such as https://sqs.eu-central-1.amazonaws.com/123456789012/files",
    ),
]


class ListingConfig(Model):
    """How a scan lists the location. On S3, a request lists a thousand objects."""

    whole_below: int = Field(default=5000, ge=0)
    """Up to this many files, every scan lists them all."""
    tails: int = Field(default=200, ge=1)
    """The number of tables whose newest files one scan lists: those with recent files, and others in rotation. With a
    consistent cut, each scan lists the newest files of all tables."""
    pages: int = Field(default=10, ge=1)
    """Further requests of one scan. Over several scans they make a full listing, which finds late files and files that
    are gone."""
    threads: int = Field(default=16, ge=1)
    """Parallel requests."""
    overlap: Duration = timedelta(minutes=15)
    """How far before its newest file a scan lists a table's files, by the times in their names; older names wait for
    the full listing."""


class NotificationsConfig(AwsAccess):
    """The SQS queue that the bucket's event notifications go to, directly, through SNS or through EventBridge."""

    queue_url: _QueueUrl
    dead_letter_queue_url: _QueueUrl | None = None
    """Where malformed messages are sent; without it they stay for the queue's own redrive policy."""

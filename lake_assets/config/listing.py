"""How new files of a source are found: looking through its location, and S3's notifications.

Not here: looking (`bronze/scan/object_listing.py`), receiving (`bronze/scan/notifications.py`).
"""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from lake_assets.config.base import Duration, Model, matching
from lake_assets.config.dms import AwsAccess

_QueueUrl = Annotated[
    str,
    matching(
        r"(?s)https?://.*",
        "is no URL of a queue, such as https://sqs.eu-central-1.amazonaws.com/123456789012/files",
    ),
]


class ListingConfig(Model):
    """Of S3, a request lists a thousand objects."""

    whole_below: int = Field(default=5000, ge=0)
    """Up to so many files, every look lists them all."""
    tails: int = Field(default=200, ge=1)
    """Tables whose newest files one look asks for: those with new files of late, and others in turn."""
    pages: int = Field(default=10, ge=1)
    """Further requests of one look, of a pass through everything: for files that came late, and ones that are gone."""
    threads: int = Field(default=16, ge=1)
    """Requests at a time."""
    overlap: Duration = timedelta(minutes=15)
    """A table's newest files are those since so long before its newest one; older names wait for the pass."""


class NotificationsConfig(AwsAccess):
    """The SQS queue that the bucket's event notifications go to, directly, through SNS or through EventBridge."""

    queue_url: _QueueUrl
    dead_letter_queue_url: _QueueUrl | None = None
    """Where messages go that are none of S3's; without it they stay for the queue's own redrive policy."""

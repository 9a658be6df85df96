"""S3's notifications from an SQS queue, standard or FIFO: hints which tables to list.

Correctness does not depend on them. A lost notification costs the time until the regular scan lists the table; a
repeated or late one costs an unnecessary listing. Here: receiving, deleting, and forwarding malformed messages to the
dead-letter queue. Not here: parsing a message (`s3_events.py`), listing (`bronze/scan/object_listing.py`).
"""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lake_assets.bronze.scan.s3_events import MalformedMessage, ObjectEvent, events_below, object_events
from lake_assets.bronze.scan.vanished import Removed
from lake_assets.config import NotificationsConfig
from lake_assets.errors import LakeError
from lake_assets.storage.aws_client import Aws
from lake_assets.storage.aws_faults import aws_errors, explained

PER_REQUEST = 10
"""The most messages that SQS delivers or deletes in one request."""
MAX_MESSAGES = 500
"""The most messages received before the bucket is listed."""
_ADVICE = {
    "AWS.SimpleQueueService.NonExistentQueue": "correct notifications.queue_url, or its region",
    "QueueDoesNotExist": "correct notifications.queue_url, or its region",
    "AccessDenied": "grant sqs:ReceiveMessage, sqs:DeleteMessage and sqs:ChangeMessageVisibility on the queue",
}

logger = logging.getLogger(__name__)


class QueueUnavailable(LakeError):
    """SQS cannot be reached. Scans find the files without it, only later."""


@dataclass(frozen=True, slots=True)
class Received:
    """Messages received from the queue, and their events for one location."""

    handles: tuple[str, ...] = ()
    """Receipt handles of all messages. The messages are deleted once the files that they name are in the log."""
    created: tuple[str, ...] = ()
    """Keys that are new."""
    removals: dict[str, Removed] = field(default_factory=dict)
    """The removals, by key that is gone."""
    malformed: int = 0


class Notifications:
    """The queue of one source. May be shared between threads."""

    def __init__(self, config: NotificationsConfig, location: str, aws: Aws | None = None) -> None:
        """`location`: the source's; events of others are ignored."""
        self._config = config
        self._location = location
        self._aws = aws or Aws()

    def receive(self, wait_seconds: float = 0.0) -> Received:
        """The messages in the queue; waits up to `wait_seconds` (20 s at most) for the first one. Malformed messages go
        to the dead-letter queue, or without one stay for the queue's own redrive policy. Raises QueueUnavailable."""
        handles: list[str] = []
        events: list[ObjectEvent] = []
        malformed: list[dict[str, Any]] = []
        wait = min(20, int(wait_seconds))
        while len(handles) + len(malformed) < MAX_MESSAGES:
            with self._errors():
                answer = self._client.receive_message(
                    QueueUrl=self._config.queue_url, MaxNumberOfMessages=PER_REQUEST, WaitTimeSeconds=wait
                )
            messages = answer.get("Messages", [])
            for message in messages:
                try:
                    events += object_events(message["Body"])
                except MalformedMessage as error:
                    logger.warning("%s: message %s is %s", self._name, message["MessageId"], error)
                    malformed.append(message)
                else:
                    handles.append(message["ReceiptHandle"])
            wait = 0
            if not messages:
                break
        self._forward_malformed(malformed)
        own = events_below(self._location, events)
        newest = {event.key: event for event in own}
        return Received(
            tuple(handles),
            tuple(key for key, event in newest.items() if event.removal is None),
            {key: Removed(e.removal, e.at) for key, e in newest.items() if e.removal is not None},
            len(malformed),
        )

    def keep(self, received: Received, seconds: int) -> None:
        """Hides the messages from other receivers for `seconds` from now, while their files are being applied. Raises
        QueueUnavailable."""
        for entries in _entries(received.handles, VisibilityTimeout=seconds):
            with self._errors():
                self._client.change_message_visibility_batch(QueueUrl=self._config.queue_url, Entries=entries)

    def done(self, received: Received) -> None:
        """Deletes the messages. One that cannot be deleted arrives again, and changes nothing. Raises
        QueueUnavailable."""
        self._delete(received.handles)

    def _forward_malformed(self, messages: Sequence[dict[str, Any]]) -> None:
        letters = self._config.dead_letter_queue_url
        if letters is None:
            return
        for message in messages:
            with self._errors():
                self._client.send_message(
                    QueueUrl=letters, MessageBody=message["Body"], **_group(letters, message)
                )
            # Deleted only now: if the process is killed in between, the message exists twice.
            self._delete([message["ReceiptHandle"]])

    def _delete(self, handles: Sequence[str]) -> None:
        for entries in _entries(handles):
            with self._errors():
                self._client.delete_message_batch(QueueUrl=self._config.queue_url, Entries=entries)

    @property
    def _name(self) -> str:
        return self._config.queue_url.rsplit("/", 1)[-1]

    @property
    def _client(self) -> Any:
        retries = {"mode": "standard", "max_attempts": 2}
        return self._aws.client("sqs", self._config, retries=retries, connect_timeout=5, read_timeout=30)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except aws_errors() as error:
            message = explained(
                error, "SQS", self._name, f"{self._name}: SQS", _ADVICE, "notifications.endpoint"
            )
            raise QueueUnavailable(message) from error


def _entries(handles: Sequence[str], **settings: Any) -> Iterator[list[dict[str, Any]]]:
    """The entries of batch requests, at most PER_REQUEST for each."""
    for first in range(0, len(handles), PER_REQUEST):
        some = handles[first : first + PER_REQUEST]
        yield [{"Id": str(n), "ReceiptHandle": handle, **settings} for n, handle in enumerate(some)]


def _group(queue_url: str, message: dict[str, Any]) -> dict[str, str]:
    """The attributes that a FIFO queue requires of a message."""
    if not queue_url.endswith(".fifo"):
        return {}
    once = hashlib.sha256(message["Body"].encode()).hexdigest()
    return {"MessageGroupId": "malformed", "MessageDeduplicationId": once}

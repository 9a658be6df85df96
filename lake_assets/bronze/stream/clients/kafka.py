"""A topic of Kafka.

Here: partitions, offsets, and what is gone. Not here: positions (`bronze/log/streams/`): the lake's log has
them, so there is no consumer group, and nothing is committed to Kafka.
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from lake_assets.bronze.log.streams.stream_positions import Ranges, Read
from lake_assets.bronze.stream.clients.client import (
    EXPIRED,
    MOST_BYTES,
    SILENT_SECONDS,
    Message,
    Polled,
    StreamFault,
    StreamLost,
    Unread,
)
from lake_assets.config import KafkaConfig

AT_ONCE = 1_000
"""Messages that are taken from the client's queue at a time."""
MEMORY = {"queued.max.messages.kbytes": "16384", "fetch.max.bytes": "16777216"}
"""librdkafka's settings for the messages that it has ready, and for one answer of a broker. A larger message comes
alone."""
GROWTH_SECONDS = 30.0
"""Seconds between two looks for new partitions."""
ANSWER_SECONDS = 10.0
"""Seconds that the broker has for an answer."""
T = TypeVar("T")

logger = logging.getLogger(__name__)


class KafkaClient:
    """Reads all partitions of a topic, only messages of committed transactions."""

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self._consumer: Any = None
        self._topic_id = ""
        self._partitions = 0
        self._looked = 0.0
        self._next: dict[int, int] = {}
        """By partition, the offset to read next; a partition without one is read from its beginning."""
        self._at_end: set[int] = set()
        """The partitions of which everything was read, once or more."""
        self._heard = 0.0
        """When the last message or end of a partition came."""
        self._has_warned = False
        self._error: Any = None
        """The first that librdkafka has reported since the poll began."""

    def seek(self, read: Ranges) -> None:
        self._open(read)
        self._next = _following(read)
        self._assign()

    def _open(self, read: Ranges) -> None:
        """Connects. Raises StreamLost if another topic was read."""
        from confluent_kafka import Consumer

        settings = self._settings() | {
            # Required, and used by nothing: partitions are assigned, and no offset is committed.
            "group.id": "lake_assets",
            "enable.auto.commit": "false",
            # Any other value would skip messages without a word.
            "auto.offset.reset": "error",
            "enable.partition.eof": "true",
            "isolation.level": "read_committed",
            "allow.auto.create.topics": "false",
            "error_cb": self._note,
        }
        self.close()
        self._consumer = self._answer(lambda: Consumer(settings, logger=silent_logger()))
        self._topic_id, self._partitions = self._described()
        known = {shard.rpartition("/")[0] for shard in read}
        if known and self._topic_id not in known:
            raise self._made_again(min(known))
        self._at_end = set()

    def _bounds(self) -> dict[int, tuple[int, int]]:
        """By partition, the offset of its first message, and the one behind its last message; without the partitions
        that have no broker now."""
        from confluent_kafka import TopicPartition

        found, end = {}, time.monotonic() + ANSWER_SECONDS
        for number in range(self._partitions):
            place, left = TopicPartition(self._config.topic, number), max(1.0, end - time.monotonic())
            ask = partial(self._consumer.get_watermark_offsets, place, timeout=left)
            with suppress(StreamFault):
                found[number] = self._answer(ask)
        return found

    def _settings(self) -> dict[str, Any]:
        own = {name: value.get_secret_value() for name, value in self._config.client.items()}
        return MEMORY | own | {"bootstrap.servers": self._config.bootstrap_servers}

    def _assign(self) -> None:
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        self._looked = self._heard = time.monotonic()
        self._has_warned = False
        numbers = range(self._partitions)
        places = [TopicPartition(self._config.topic, n, self._next.get(n, OFFSET_BEGINNING)) for n in numbers]
        self._answer(lambda: self._consumer.assign(places))

    def _made_again(self, before: str) -> StreamLost:
        return StreamLost(
            f"The topic {self._config.topic} was made again: its id was {before}, and is {self._topic_id}. Have DMS "
            "reload the tables, and use a new source for the new topic."
        )

    def _described(self) -> tuple[str, int]:
        from confluent_kafka import TopicCollection
        from confluent_kafka.admin import AdminClient

        admin = AdminClient(self._settings(), logger=silent_logger())
        topics = TopicCollection([self._config.topic])
        found = self._answer(
            lambda: admin.describe_topics(topics, request_timeout=ANSWER_SECONDS)[self._config.topic].result()
        )
        return str(found.topic_id), len(found.partitions)

    def poll(self, seconds: float, most: int) -> Polled:
        if time.monotonic() - self._looked > GROWTH_SECONDS:
            self._look_for_growth()
        self._error = None
        found: list[Message] = []
        size, end = 0, time.monotonic() + seconds
        while len(found) < most and size < MOST_BYTES:
            # Waits for one message only, and takes the others that are there.
            number, wait = min(AT_ONCE, most - len(found)), 0.0
            if not found:
                number, wait = 1, max(0.0, end - time.monotonic())
            taken = self._answer(partial(self._consumer.consume, number, timeout=wait))
            if not taken:
                break
            for message in self._messages(taken):
                found.append(message)
                size += len(message.value or b"")
        if not found and self._error is not None:
            self._refuse(self._error)
        return Polled(found)

    def _note(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        # Of one connection, which the client opens again.
        if error.code() != KafkaError._TRANSPORT and self._error is None:
            self._error = error

    def _messages(self, consumed: Sequence[Any]) -> list[Message]:
        from confluent_kafka import KafkaError

        found = []
        if consumed:
            self._heard = time.monotonic()
        for message in consumed:
            if (error := message.error()) is None:
                self._next[message.partition()] = message.offset() + 1
                shard = f"{self._topic_id}/{message.partition()}"
                found.append(Message(shard, str(message.offset()), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(message.partition())
            else:
                self._refuse(error, message.partition())
        return found

    def is_current(self, *, certainly: bool = False) -> bool:
        if self._consumer is None:
            return False
        waiting = sorted({*range(self._partitions)} - self._at_end)
        if not waiting:
            return True
        if certainly or time.monotonic() - self._heard < SILENT_SECONDS:
            return False
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "The topic %s has no broker for %s now: their messages land when it has one again.",
                self._config.topic,
                ", ".join(f"partition {number}" for number in waiting),
            )
        return True

    def unread(self, read: Ranges) -> list[Unread]:
        self._open(read)
        wanted, bounds = _following(read), self._bounds()
        self._next = wanted | {
            number: max(low, wanted.get(number, low)) for number, (low, _) in bounds.items()
        }
        self._assign()
        counts = {number: max(0, high - self._next[number]) for number, (_, high) in bounds.items()}
        lost = {number for number, (low, _) in bounds.items() if wanted.get(number, low) < low}
        since = self._oldest({number for number, count in counts.items() if count})
        return [
            self._unread(n, counts.get(n), since.get(n), n in lost, read) for n in range(self._partitions)
        ]

    def _unread(
        self, number: int, count: int | None, since: datetime | None, lost: bool, read: Ranges
    ) -> Unread:
        """`count`: how many messages, at most; None if its broker has not answered."""
        shard = f"{self._topic_id}/{number}"
        if count is None or (count and since is None and number not in self._at_end):
            last = read[shard].at if shard in read else None
            return Unread(shard, last or datetime.now(UTC), is_lost=lost, is_silent=True)
        return Unread(shard, since, count if since is not None else 0, lost)

    def _oldest(self, numbers: set[int]) -> dict[int, datetime]:
        """By partition that has messages, when the broker got the next one. The end of a partition may be marks of
        transactions alone."""
        found: dict[int, datetime] = {}
        end = time.monotonic() + ANSWER_SECONDS
        while numbers - {*found} - self._at_end and time.monotonic() < end:
            taken = self._answer(partial(self._consumer.consume, AT_ONCE, timeout=0.2))
            for message in taken:
                if message.error() is None:
                    at = datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)
                    found.setdefault(message.partition(), at)
            self._messages(taken)
        return found

    def past_expired(self, read: Ranges) -> Ranges:
        self._open(read)
        wanted = _following(read)
        lows = {number: low for number, (low, _) in self._bounds().items() if low > wanted.get(number, low)}
        shards = {number: f"{self._topic_id}/{number}" for number in lows}
        return {shards[n]: Read(read[shards[n]].through, str(low - 1), 0) for n, low in lows.items()}

    def kept_for(self) -> timedelta | None:
        from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

        admin = AdminClient(self._settings(), logger=silent_logger())
        topic = ConfigResource(ConfigResource.Type.TOPIC, self._config.topic)
        found = self._answer(
            lambda: admin.describe_configs([topic], request_timeout=ANSWER_SECONDS)[topic].result()
        )
        kept = int(found["retention.ms"].value)
        return None if kept < 0 else timedelta(milliseconds=kept)

    def _look_for_growth(self) -> None:
        before = self._topic_id
        self._topic_id, count = self._described()
        if self._topic_id != before:
            raise self._made_again(before)
        if count == self._partitions:
            self._looked = time.monotonic()
        else:
            self._partitions = count
            self._assign()

    def _refuse(self, error: Any, partition: int | None = None) -> None:
        from confluent_kafka import KafkaError

        gone = error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
        # librdkafka uses the same code where a broker did not answer what a partition's first offset is.
        if gone and partition in self._next:
            raise StreamLost(
                f"The topic {self._config.topic} has no message any more at a position up to which it was read "
                f"({error.str()}): its retention has passed. {EXPIRED}"
            )
        cause = self._error or error
        raise StreamFault(f"The topic {self._config.topic} cannot be read: {cause.str()}.")

    def _answer(self, ask: Callable[[], T]) -> T:
        from confluent_kafka import KafkaException

        try:
            return ask()
        except KafkaException as error:
            reason = error.args[0]
            raise StreamFault(
                f"The topic {self._config.topic} at {self._config.bootstrap_servers} cannot be read: {reason.str()}."
            ) from error

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()


def _following(read: Ranges) -> dict[int, int]:
    """By partition that was read, the offset to read next."""
    through = {int(shard.rpartition("/")[2]): r.through for shard, r in read.items()}
    return {number: int(offset) + 1 for number, offset in through.items() if offset is not None}


def silent_logger() -> logging.Logger:
    """For librdkafka, which prints what its caller learns anyway."""
    found = logging.getLogger("lake_assets.librdkafka")
    found.setLevel(logging.CRITICAL)
    return found

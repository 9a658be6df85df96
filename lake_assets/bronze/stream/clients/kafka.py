"""A topic of Kafka.

Here: partitions, offsets, and what is gone. Not here: positions (`bronze/log/stream_positions.py`): the lake's log has
them, so there is no consumer group, and nothing is committed to Kafka.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from lake_assets.bronze.log.stream_positions import Ranges
from lake_assets.bronze.stream.clients.client import Message, Polled, StreamFault, StreamLost
from lake_assets.config import KafkaConfig

GROWTH_SECONDS = 30.0
"""Seconds between two looks for new partitions."""
ANSWER_SECONDS = 10.0
"""Seconds that the broker has for an answer."""
T = TypeVar("T")


class KafkaClient:
    """Reads all partitions of a topic, only messages of committed transactions."""

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self._consumer: Any = None
        self._topic_id = ""
        self._partitions = 0
        self._looked = 0.0
        self._at_end: set[int] = set()
        """The partitions of which everything was read, once or more."""
        self._read: Ranges = {}

    def seek(self, read: Ranges) -> None:
        from confluent_kafka import Consumer

        self._read = read
        settings = self._settings() | {
            # Required, and used by nothing: partitions are assigned, and no offset is committed.
            "group.id": "lake_assets",
            "enable.auto.commit": "false",
            # Any other value would skip messages without a word.
            "auto.offset.reset": "error",
            "enable.partition.eof": "true",
            "isolation.level": "read_committed",
            "allow.auto.create.topics": "false",
        }
        self.close()
        self._consumer = self._answer(lambda: Consumer(settings, logger=_silent()))
        self._assign()

    def _settings(self) -> dict[str, Any]:
        own = {name: value.get_secret_value() for name, value in self._config.client.items()}
        return own | {"bootstrap.servers": self._config.bootstrap_servers}

    def _assign(self) -> None:
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        topic_id, count = self._described()
        known = {shard.rpartition("/")[0] for shard in self._read}
        if known and topic_id not in known:
            raise StreamLost(
                f"The topic {self._config.topic} was made again: its id was {min(known)}, and is {topic_id}. "
                "Have DMS reload the tables, and use a new source for the new topic."
            )
        self._at_end = set()
        self._topic_id, self._partitions, self._looked = topic_id, count, time.monotonic()
        places = []
        for number in range(count):
            read = self._read.get(self._shard(number))
            offset = OFFSET_BEGINNING if read is None or read.through is None else int(read.through) + 1
            places.append(TopicPartition(self._config.topic, number, offset))
        self._answer(lambda: self._consumer.assign(places))

    def _described(self) -> tuple[str, int]:
        from confluent_kafka import TopicCollection
        from confluent_kafka.admin import AdminClient

        admin = AdminClient(self._settings(), logger=_silent())
        topics = TopicCollection([self._config.topic])
        found = self._answer(
            lambda: admin.describe_topics(topics, request_timeout=ANSWER_SECONDS)[self._config.topic].result()
        )
        return str(found.topic_id), len(found.partitions)

    def _shard(self, partition: int) -> str:
        return f"{self._topic_id}/{partition}"

    def poll(self, seconds: float, most: int) -> Polled:
        from confluent_kafka import KafkaError

        if time.monotonic() - self._looked > GROWTH_SECONDS:
            self._look_for_growth()
        found = []
        for message in self._answer(lambda: self._consumer.consume(most, timeout=seconds)):
            if (error := message.error()) is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    self._refuse(error)
                self._at_end.add(message.partition())
                continue
            found.append(Message(self._shard(message.partition()), str(message.offset()), message.value()))
        return Polled(found)

    def is_current(self) -> bool:
        return self._consumer is not None and len(self._at_end) == self._partitions

    def _look_for_growth(self) -> None:
        topic_id, count = self._described()
        self._looked = time.monotonic()
        if (topic_id, count) != (self._topic_id, self._partitions):
            # The caller reads on from the log's positions, in all partitions that there are now.
            raise Regrown(f"The topic {self._config.topic} has other partitions than before.")

    def _refuse(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise StreamLost(
                f"The topic {self._config.topic} has no message any more at a position up to which it was read "
                f"({error.str()}): its retention has passed, or it was made again. Have DMS reload the tables."
            )
        raise StreamFault(f"The topic {self._config.topic} cannot be read: {error.str()}.")

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


class Regrown(StreamFault):
    """The topic has further partitions."""


def _silent() -> Any:
    import logging

    found = logging.getLogger("lake_assets.librdkafka")
    found.setLevel(logging.CRITICAL)
    return found

"""The streams that a history's messages are put into: in memory, moto's Kinesis, and a broker of Kafka.

Here: putting, resharding, readers that fall behind, and where each message is. Not here: the messages (`messages.py`).
"""

import atexit
import hashlib
import itertools
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, Protocol
from unittest.mock import patch
from uuid import uuid4

from lake_assets.bronze.stream.clients import Client, Polled, kafka, kinesis
from lake_assets.bronze.stream.clients.kafka import KafkaClient
from lake_assets.bronze.stream.clients.kinesis import KinesisClient
from lake_assets.commands.demo.kafka_broker import kafka_broker
from lake_assets.config import KafkaConfig, KinesisConfig
from lake_assets.storage.aws_client import Aws
from lake_assets_tests.helpers.files.dms_messages import MemoryStream
from lake_assets_tests.helpers.servers.s3 import ACCESS
from lake_assets_tests.helpers.servers.streams.kinesis import (
    PUT_OFF,
    Refusing,
    kinesis_client,
    kinesis_server,
    merge,
    open_shards,
    split,
)
from lake_assets_tests.soak.stream.messages import Sent

WHOLE = 1 << 128
"""How many hashes Kinesis has for keys."""


class Feed(Protocol):
    """A stream, and what is in it."""

    placed: dict[str, list[tuple[int, Sent]]]
    """By shard, the messages with their positions."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Of the stream in lake.yaml."""
        ...

    def put(self, sent: Sequence[Sent]) -> None: ...

    def reshard(self) -> None:
        """Splits a shard or merges two; of a topic, adds a partition."""
        ...

    def disturb(self) -> None:
        """Lets some shards be read later."""
        ...

    def calm(self) -> None:
        """All shards are read."""
        ...

    def client(self) -> Client: ...


class Memory:
    """Shards with a range of hashes each, as Kinesis has them."""

    def __init__(self, random: Random) -> None:
        self._random, self._stream = random, MemoryStream()
        self.placed: dict[str, list[tuple[int, Sent]]] = defaultdict(list)
        count = random.choice([1, 2, 3, 4])
        self._made = count
        self._open = {f"s{n}": (WHOLE * n // count, WHOLE * (n + 1) // count) for n in range(count)}
        for shard in self._open:
            self._stream.put(shard)

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"kafka": {"bootstrap_servers": "unused", "topic": "unused"}}

    def put(self, sent: Sequence[Sent]) -> None:
        for one in sent:
            place = int(hashlib.md5(one.key.encode()).hexdigest(), 16)
            shard = next(name for name, (begin, end) in self._open.items() if begin <= place < end)
            self.placed[shard].append((len(self.placed[shard]), one))
            self._stream.put(shard, one.value)

    def reshard(self) -> None:
        ranges = sorted(self._open, key=lambda name: self._open[name])
        place = self._random.randrange(len(ranges))
        closed = ranges[place : place + self._random.choice([1, 2])]
        begin, end = self._open[closed[0]][0], self._open[closed[-1]][1]
        borders = [begin, (begin + end) // 2, end] if len(closed) == 1 else [begin, end]
        opened = [f"s{self._made + n}" for n in range(len(borders) - 1)]
        self._made += len(opened)
        for shard in closed:
            del self._open[shard]
        self._open |= dict(zip(opened, itertools.pairwise(borders), strict=True))
        self._stream.reshard(closed, opened)

    def disturb(self) -> None:
        shards = [*self._stream.shards]
        self._stream.throttled = {shard for shard in shards if self._random.random() < 0.3}

    def calm(self) -> None:
        self._stream.throttled = set()

    def client(self) -> Client:
        return self._stream.client(self._random.randint(1, 40))


class Kinesis:
    """A stream of moto's server, or of another one."""

    def __init__(self, random: Random, address: str, name: str) -> None:
        self._random, self._address, self._name = random, address, name
        self._aws = kinesis_client(address)
        self._troubled = False
        self.placed: dict[str, list[tuple[int, Sent]]] = defaultdict(list)
        self._aws.create_stream(StreamName=name, ShardCount=random.choice([1, 2, 3]))
        self._aws.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"kinesis": {"name": self._name, "endpoint": self._address, **ACCESS}}

    def put(self, sent: Sequence[Sent]) -> None:
        # Kinesis refuses a message without a byte.
        full = [one for one in sent if one.value]
        if not full:
            return
        records = [{"Data": one.value, "PartitionKey": one.key} for one in full]
        answer = self._aws.put_records(StreamName=self._name, Records=records)
        assert not answer["FailedRecordCount"]
        for one, stored in zip(full, answer["Records"], strict=True):
            self.placed[stored["ShardId"]].append((int(stored["SequenceNumber"]), one))

    def reshard(self) -> None:
        number = len(open_shards(self._aws, self._name))
        if number > 1 and self._random.random() < 0.5:
            merge(self._aws, self._name, self._random.randrange(number - 1))
        else:
            split(self._aws, self._name, self._random.randrange(number))
        self._aws.get_waiter("stream_exists").wait(StreamName=self._name, WaiterConfig={"Delay": 1})

    def disturb(self) -> None:
        self._troubled = True

    def calm(self) -> None:
        self._troubled = False

    def client(self) -> Client:
        return KinesisClient(KinesisConfig.model_validate(self.settings["kinesis"]), _Troubled(self._refuses))

    def _refuses(self) -> str | None:
        return self._random.choice(PUT_OFF) if self._troubled and self._random.random() < 0.4 else None


class _Troubled(Aws):
    """Clients whose requests for records are put off, by chance."""

    def __init__(self, refuses: Any) -> None:
        super().__init__()
        self._refuses = refuses

    def client(self, *given: Any, **named: Any) -> Any:
        return Refusing(super().client(*given, **named), self._refuses)


class Kafka:
    """A topic of a broker."""

    def __init__(self, random: Random, address: str, name: str) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        self._random, self._address, self._name = random, address, name
        self._admin = AdminClient({"bootstrap.servers": address})
        self._partitions = random.choice([1, 2, 3])
        self._admin.create_topics([NewTopic(name, self._partitions)])[name].result()
        self._wait()
        self._producer = Producer({"bootstrap.servers": address, "topic.metadata.refresh.interval.ms": 100})
        self.placed: dict[str, list[tuple[int, Sent]]] = defaultdict(list)

    def _wait(self) -> None:
        """Until the broker knows all partitions, which it does a moment after it has made them."""
        from confluent_kafka import KafkaException, TopicCollection

        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                asked = self._admin.describe_topics(TopicCollection([self._name]))[self._name]
                if len(asked.result().partitions) == self._partitions:
                    return
            except KafkaException:
                pass
            time.sleep(0.05)
        raise TimeoutError(f"the broker does not know {self._name}")

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"kafka": {"bootstrap_servers": self._address, "topic": self._name}}

    def put(self, sent: Sequence[Sent]) -> None:
        for one in sent:
            self._producer.produce(self._name, one.value, key=one.key, on_delivery=partial(self._note, one))
        self._producer.flush()

    def _note(self, one: Sent, fault: Any, stored: Any) -> None:
        assert fault is None, fault
        self.placed[str(stored.partition())].append((stored.offset(), one))

    def reshard(self) -> None:
        from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

        self._partitions += 1
        self._admin.create_partitions([NewPartitions(self._name, self._partitions)])[self._name].result()
        self._wait()

    def disturb(self) -> None:
        pass

    def calm(self) -> None:
        pass

    def client(self) -> Client:
        return KafkaClient(KafkaConfig.model_validate(self.settings["kafka"]))


@contextmanager
def quick_clients() -> Iterator[None]:
    """Readers of this process do not wait as long as those of real servers must."""
    with (
        patch.object(kinesis, "PAUSE_SECONDS", 0.0),
        patch.object(kinesis, "RESHARD_SECONDS", 0.2),
        patch.object(kafka, "GROWTH_SECONDS", 0.5),
    ):
        yield


class Watched:
    """A reader; `polled` is called after each poll, before anything is landed."""

    def __init__(self, client: Client, polled: Any) -> None:
        self._client, self._polled = client, polled
        self.seek, self.is_current, self.close = client.seek, client.is_current, client.close

    def poll(self, seconds: float, most: int) -> Polled:
        found = self._client.poll(seconds, most)
        self._polled()
        return found


def opened_feed(server: str, random: Random, name: str) -> Feed:
    """A new stream. `server`: memory, kinesis or kafka; this process starts it once."""
    if server == "memory":
        return Memory(random)
    own = f"{name}-{uuid4().hex[:8]}"
    return (
        Kinesis(random, kinesis_address(), own)
        if server == "kinesis"
        else Kafka(random, kafka_address(), own)
    )


_servers = ExitStack()
atexit.register(_servers.close)


@cache
def kinesis_address() -> str:
    """Of a server that runs as long as this process."""
    return _servers.enter_context(kinesis_server())


@cache
def kafka_address() -> str:
    """Of a broker that runs as long as this process."""
    return _servers.enter_context(kafka_broker(Path(tempfile.mkdtemp(prefix="soak-kafka-"))))

"""A real broker of Kafka: each message lands once, whatever happens to partitions and topics."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]
from pydantic import SecretStr
from pyiceberg.catalog import Catalog

from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.log.streams.stream_positions import Ranges
from lake_assets.bronze.stream.clients import StreamFault, StreamLost
from lake_assets.bronze.stream.clients import kafka as kafka_client
from lake_assets.bronze.stream.clients.kafka import KafkaClient
from lake_assets.bronze.stream.landing import Landing
from lake_assets.commands.demo.kafka_broker import kafka_broker
from lake_assets.config import KafkaConfig
from lake_assets.spark.preflight import free_port
from lake_assets.storage.local_store import LocalStore
from lake_assets_tests.bronze.stream.test_landing import Shop
from lake_assets_tests.helpers.files.dms_messages import message

pytestmark = pytest.mark.slow
LARGE = {"max.message.bytes": str(12 << 20)}
_numbers = count(1)


class Topic:
    """A topic with DMS's messages, and a source that reads it."""

    def __init__(
        self,
        broker: str,
        folder: Path,
        open_catalog: Callable[[], Catalog],
        brokers: Sequence[Sequence[int]] = ((1,), (1,), (1,)),
    ) -> None:
        """`brokers`: of each partition."""
        self.name = f"topic-{next(_numbers)}"
        self.config = KafkaConfig(bootstrap_servers=broker, topic=self.name)
        self.admin = AdminClient({"bootstrap.servers": broker})
        self.producer = Producer({"bootstrap.servers": broker, "transactional.id": self.name})
        self.producer.init_transactions()
        self.shop = Shop(folder, open_catalog)
        self.create(brokers)
        self.sent = 0

    def create(self, brokers: Sequence[Sequence[int]]) -> None:
        places = [[*each] for each in brokers]
        new = NewTopic(self.name, len(places), replica_assignment=places, config=LARGE)
        for done in self.admin.create_topics([new]).values():
            done.result()
        end = time.monotonic() + 30
        while not self._is_known():
            assert time.monotonic() < end, "the broker does not know the topic"
            time.sleep(0.1)

    def _is_known(self) -> bool:
        """Whether the broker describes the topic, which it does a moment after it has created it."""
        try:
            self.admin.describe_topics(TopicCollection([self.name]))[self.name].result()
        except KafkaException:
            return False
        return True

    def send(self, number: int, *, commit: bool = True) -> None:
        self.producer.begin_transaction()
        for _ in range(number):
            self.sent += 1
            value = message("insert", {"id": self.sent}, transaction=self.sent)
            self.producer.produce(self.name, value, key=str(self.sent))
        if commit:
            self.producer.commit_transaction()
        else:
            self.producer.flush()
            self.producer.abort_transaction()

    def reader(self, client: KafkaClient | None = None) -> Landing:
        shop, client = self.shop, client or KafkaClient(self.config)
        log = FileLog(shop.open_catalog())
        return Landing("shop", shop.source, LocalStore(shop.folder), log, client)

    def landed(self, reader: Landing, rows: int) -> list[int]:
        """The ids after the reader has landed so many rows, and for a second nothing more. The client needs a moment
        after partitions are assigned."""
        end = time.monotonic() + 60
        while (taken := reader.land(0.5).messages) or len(self.shop.all_rows()) < rows:
            assert taken or time.monotonic() < end, f"less than {rows} rows have come"
        assert reader.land(1).messages == 0
        return sorted(int(id_) for _, id_ in self.shop.all_rows())


@pytest.fixture
def topic(kafka: str, tmp_path: Path, open_catalog: Callable[[], Catalog]) -> Topic:
    return Topic(kafka, tmp_path, open_catalog)


def test_messages_of_all_partitions_and_of_new_ones(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    topic.send(50)
    reader = topic.reader()
    assert topic.landed(reader, 50) == [*range(1, 51)]
    topic.send(5, commit=False)
    topic.send(10)
    assert topic.landed(topic.reader(), 60) == [*range(1, 51), *range(56, 66)], (
        "what was not committed is no message"
    )
    topic.admin.create_partitions([NewPartitions(topic.name, 5)])[topic.name].result()
    topic.send(100)
    monkeypatch.setattr(kafka_client, "GROWTH_SECONDS", 0.0)
    assert topic.landed(reader, 160) == [*range(1, 51), *range(56, 166)]


def test_a_topic_that_was_made_again(topic: Topic) -> None:
    topic.send(5)
    topic.landed(topic.reader(), 5)
    topic.admin.delete_topics([topic.name])[topic.name].result()
    topic.create([[1], [1], [1]])
    with pytest.raises(StreamLost, match="was made again"):
        topic.reader().land(1)


def test_messages_that_expired_unread(topic: Topic) -> None:
    from confluent_kafka import TopicPartition

    topic.send(30)
    topic.landed(topic.reader(), 30)
    topic.send(30)
    places = [TopicPartition(topic.name, number, -1) for number in range(3)]
    for done in topic.admin.delete_records(places).values():
        done.result()
    topic.send(3)
    reader = topic.reader()
    with pytest.raises(StreamLost, match="retention has passed"):
        topic.landed(reader, 33)
    waiting = KafkaClient(topic.config).unread(reader_positions(topic))
    assert any(shard.is_lost for shard in waiting)
    reader.skip_expired()
    assert topic.landed(reader, 33) == [*range(1, 31), 61, 62, 63]
    topic.send(2)
    assert topic.landed(topic.reader(), 35)[-2:] == [64, 65], "the others go on from there"


def reader_positions(topic: Topic) -> Ranges:
    """How far the topic was read."""
    return FileLog(topic.shop.open_catalog()).read("shop")


def test_what_has_not_landed(topic: Topic) -> None:
    began = datetime.now(UTC) - timedelta(seconds=2)
    topic.send(10)
    client = KafkaClient(topic.config)
    found = client.unread({})
    assert len(found) == 3
    assert sum(shard.messages or 0 for shard in found) >= 10
    assert min(shard.since for shard in found if shard.since is not None) >= began
    assert client.kept_for() == timedelta(days=7)
    client.close()
    topic.landed(topic.reader(), 10)
    topic.send(5, commit=False)
    found = KafkaClient(topic.config).unread(reader_positions(topic))
    assert [(shard.since, shard.messages, shard.is_lost) for shard in found] == [(None, 0, False)] * 3, (
        "what was not committed is no message"
    )


@pytest.fixture
def large(topic: Topic) -> Topic:
    """A topic with twelve messages of ten mebibytes."""
    producer = Producer({"bootstrap.servers": topic.config.bootstrap_servers, "message.max.bytes": 12 << 20})
    for number in range(12):
        value = message("insert", {"id": number, "v": "x" * (10 << 20)}, transaction=number + 1)
        producer.produce(topic.name, value, partition=number % 3)
        producer.flush()
    return topic


def test_large_messages_land_a_few_at_a_time(large: Topic) -> None:
    reader, sizes = large.reader(), list[int]()
    while sum(sizes) < 12:
        sizes.append(reader.land(2).messages)
    assert max(sizes) <= 6
    files = large.shop.log.files("shop")
    assert sum(file.rows or 0 for file in files) == 12
    assert max(file.rows or 0 for file in files) <= 3, "a file of more than 24 mebibytes is finished"


def test_a_message_that_is_larger_than_the_client_takes(large: Topic) -> None:
    small = {
        "receive.message.max.bytes": 2_000_000,
        "fetch.max.bytes": 1_000_000,
        "message.max.bytes": 1_000_000,
    }
    settings = {name: SecretStr(str(value)) for name, value in small.items()}
    client = KafkaClient(large.config.model_copy(update={"client": settings}))
    faults: list[str] = []
    # A connection that is dropped for one message takes other questions with it, whose answers may be first.
    while not any("increase receive.message.max.bytes" in fault for fault in faults):
        assert len(faults) < 10, faults
        client.seek({})
        with pytest.raises(StreamFault, match=r"The topic topic-\d+ cannot be read: ") as raised:
            _poll_for_long(client)
        assert not isinstance(raised.value, StreamLost)
        faults.append(str(raised.value))
    client.close()


def _poll_for_long(client: KafkaClient) -> None:
    for _ in range(20):
        client.poll(0.5, 100)


def test_a_broker_that_does_not_say_where_a_partition_begins(topic: Topic) -> None:
    """librdkafka reports it by the code of an offset that is gone."""
    client = KafkaClient(topic.config)
    with pytest.raises(StreamFault, match="cannot be read: failed to query logical offset") as raised:
        client._messages([_NoOffset()])
    assert not isinstance(raised.value, StreamLost), "nothing is missing"
    client._next = {1: 5}
    with pytest.raises(StreamLost, match="retention has passed"):
        client._messages([_NoOffset()])


class _NoOffset:
    """What the client gives for a message when it has no offset to read from."""

    def error(self) -> KafkaError:
        return KafkaError(
            KafkaError._AUTO_OFFSET_RESET, "failed to query logical offset: Local: Bad message format"
        )

    def partition(self) -> int:
        return 1


@pytest.mark.long  # it starts a broker of its own
def test_a_broker_that_is_gone_while_messages_are_read(tmp_path: Path) -> None:
    with kafka_broker(tmp_path) as address:
        admin = AdminClient({"bootstrap.servers": address})
        for done in admin.create_topics([NewTopic("t", 1)]).values():
            done.result()
        client = KafkaClient(KafkaConfig(bootstrap_servers=address, topic="t"))
        client.seek({})
        assert client.poll(2, 100).messages == []
    with pytest.raises(StreamFault, match=r"The topic t cannot be read: 1/1 brokers are down"):
        client.poll(5, 100)
    client.close()


@pytest.mark.long  # it starts two brokers of its own
def test_a_partition_whose_broker_is_gone(
    tmp_path: Path, open_catalog: Callable[[], Catalog], caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever wants all messages of now goes on without it, and it is named; it lands when its broker is back."""
    controller = free_port()
    with kafka_broker(tmp_path / "1", controller=controller) as address:
        with kafka_broker(tmp_path / "2", 2, controller):
            topic = Topic(address, tmp_path / "shop", open_catalog, [[1], [2], [1]])
            topic.send(30)
        client = KafkaClient(topic.config)
        reader = topic.reader(client)
        began = time.monotonic()
        while not client.is_current():
            reader.land(0.5)
            assert time.monotonic() - began < 60
        assert not client.is_current(certainly=True)
        landed = {int(id_) for _, id_ in topic.shop.all_rows()}
        assert 10 < len(landed) < 30
        assert "has no broker for partition 1 now" in caplog.text
        found = KafkaClient(topic.config).unread(reader_positions(topic))
        assert [shard.is_silent for shard in found] == [False, True, False]
        with kafka_broker(tmp_path / "2", 2, controller):
            assert topic.landed(reader, 30) == [*range(1, 31)]
            assert client.is_current(certainly=True)


def test_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "ANSWER_SECONDS", 2.0)
    client = KafkaClient(KafkaConfig(bootstrap_servers="127.0.0.1:1", topic="t"))
    with pytest.raises(StreamFault, match=r"The topic t at 127\.0\.0\.1:1 cannot be read"):
        client.seek({})

"""Kinesis: each message lands once, also while shards are split and merged, by several readers."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random

import pytest
from pyiceberg.catalog import Catalog

from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.log.streams.stream_positions import Read, parse_ranges
from lake_assets.bronze.stream.clients import StreamFault, StreamLost
from lake_assets.bronze.stream.clients import kinesis as kinesis_module
from lake_assets.bronze.stream.clients.kinesis import KinesisClient
from lake_assets.bronze.stream.landing import Landing
from lake_assets.config import KinesisConfig
from lake_assets.storage.aws_client import Aws
from lake_assets.storage.local_store import LocalStore
from lake_assets_tests.bronze.stream.test_landing import Shop
from lake_assets_tests.helpers.files.dms_messages import message
from lake_assets_tests.helpers.servers.s3 import ACCESS
from lake_assets_tests.helpers.servers.streams.kinesalite import kinesalite_server
from lake_assets_tests.helpers.servers.streams.kinesis import (
    PUT_OFF,
    Refusing,
    kinesis_client,
    kinesis_server,
    merge,
    open_shards,
    split,
)

_names = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with kinesis_server() as address:
        yield address


@pytest.fixture
def kinesalite() -> Iterator[str]:
    with kinesalite_server() as address:
        yield address


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinesis_module, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(kinesis_module, "THROTTLED_SECONDS", 0.0)
    monkeypatch.setattr(kinesis_module, "RESHARD_SECONDS", 0.2)


class Stream:
    """A stream with DMS's messages, and a source that reads it."""

    def __init__(self, server: str, folder: Path, open_catalog: Callable[[], Catalog]) -> None:
        self.name, self.aws = f"stream-{next(_names)}", kinesis_client(server)
        self.config = KinesisConfig(name=self.name, endpoint=server, **ACCESS)
        self.shop, self.sent = Shop(folder, open_catalog), 0
        self.create(2)

    def create(self, shards: int) -> None:
        self.aws.create_stream(StreamName=self.name, ShardCount=shards)
        self.wait()

    def wait(self) -> None:
        """Until it has the shards that were asked for."""
        self.aws.get_waiter("stream_exists").wait(StreamName=self.name, WaiterConfig={"Delay": 1})

    def send(self, number: int) -> None:
        records = []
        for _ in range(number):
            self.sent += 1
            value = message("insert", {"id": self.sent}, transaction=self.sent)
            records.append({"Data": value, "PartitionKey": str(self.sent)})
        if records:
            self.aws.put_records(StreamName=self.name, Records=records)

    def reader(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Landing:
        log = FileLog(self.shop.open_catalog(), clock=clock)
        client = KinesisClient(self.config, Aws())
        return Landing("shop", self.shop.source, LocalStore(self.shop.folder), log, client)

    def ids(self) -> list[int]:
        return sorted(int(id_) for _, id_ in self.shop.all_rows())


@pytest.fixture
def stream(server: str, tmp_path: Path, open_catalog: Callable[[], Catalog]) -> Stream:
    return Stream(server, tmp_path, open_catalog)


def test_shards_are_split_and_merged_while_two_readers_land(stream: Stream) -> None:
    split_and_merge_while_two_readers_land(stream)


@pytest.mark.long
def test_another_kinesis_splits_and_merges_shards(
    kinesalite: str, tmp_path: Path, open_catalog: Callable[[], Catalog]
) -> None:
    """Moto's server is patched where it closes shards; this one is not."""
    split_and_merge_while_two_readers_land(Stream(kinesalite, tmp_path, open_catalog))


def split_and_merge_while_two_readers_land(stream: Stream) -> None:
    random, readers = Random(1), [stream.reader(), stream.reader()]
    for step in range(24):
        stream.send(random.randint(0, 12))
        if step % 6 == 2:
            split(stream.aws, stream.name, random.randrange(len(open_shards(stream.aws, stream.name))))
        if step % 6 == 5:
            merge(stream.aws, stream.name, random.randrange(len(open_shards(stream.aws, stream.name)) - 1))
        stream.wait()
        place = random.randrange(2)
        if random.random() < 0.2:
            readers[place] = stream.reader()
        readers[place].land(0.1)
    last = stream.reader()
    for _ in range(20):
        last.land(0.3)
    assert stream.ids() == [*range(1, stream.sent + 1)]
    records = stream.shop.log.records("shop")
    drained = [
        shard
        for file in records
        if file.ranges is not None
        for shard, read in parse_ranges(file.ranges).items()
        if read.drained
    ]
    assert (
        len(drained)
        == len({*drained})
        == len(stream.aws.list_shards(StreamName=stream.name)["Shards"])
        - len(open_shards(stream.aws, stream.name))
    ), "each closed shard was read to its end, once"


def test_a_child_waits_for_its_parent(stream: Stream) -> None:
    stream.send(30)
    split(stream.aws, stream.name, 0)
    stream.send(30)
    client = KinesisClient(stream.config, Aws())
    client.seek({})
    seen: list[str] = []
    while not client.is_current():
        seen += [found.shard.partition("/")[2] for found in client.poll(0.1, 7).messages]
    (parent,) = {
        shard["ParentShardId"] for shard in open_shards(stream.aws, stream.name) if "ParentShardId" in shard
    }
    children = [n for n, shard in enumerate(seen) if shard not in (parent, "shardId-000000000001")]
    assert children
    assert max(n for n, shard in enumerate(seen) if shard == parent) < min(children)
    assert len(seen) == 60


@pytest.mark.parametrize("code", PUT_OFF)
def test_kinesis_puts_off_a_reader(stream: Stream, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    stream.send(20)
    asked: list[str] = []
    real = Aws.client

    def refuses() -> str | None:
        asked.append("")
        return code if len(asked) % 3 else None

    monkeypatch.setattr(
        Aws, "client", lambda self, *given, **named: Refusing(real(self, *given, **named), refuses)
    )
    reader = stream.reader()
    for _ in range(20):
        reader.land(0.1)
    assert stream.ids() == [*range(1, 21)]


def test_a_shard_that_gets_messages_all_the_time_is_current(stream: Stream) -> None:
    """`sync` would land for ever if it waited for an answer without messages."""
    client, seen = KinesisClient(stream.config, Aws()), 0
    client.seek({})
    for _ in range(3):
        stream.send(20)
        seen += len(client.poll(0.1, 1000).messages)
    assert seen == 60
    assert client.is_current()


def test_a_stream_that_was_made_again(stream: Stream) -> None:
    stream.send(5)
    reader = stream.reader()
    reader.land(0.1)
    reader.land(0.1)
    stream.aws.delete_stream(StreamName=stream.name)
    time.sleep(1.1)  # the time of its creation, in seconds, is what differs
    stream.create(2)
    with pytest.raises(StreamLost, match="was made again"):
        stream.reader().land(0.1)


def test_what_has_not_landed(stream: Stream) -> None:
    began = datetime.now(UTC) - timedelta(seconds=2)
    stream.send(20)
    client = KinesisClient(stream.config, Aws())
    found = client.unread({})
    assert len(found) == 2
    assert all(shard.since is not None and shard.since >= began for shard in found)
    assert client.kept_for() == timedelta(hours=24)
    reader = stream.reader()
    while reader.land(0.1).messages:
        pass
    read = FileLog(stream.shop.open_catalog()).read("shop")
    assert [shard.since for shard in KinesisClient(stream.config, Aws()).unread(read)] == [None, None]


def test_messages_that_expired_unread(stream: Stream) -> None:
    """Kinesis goes on with the first message that it still has, and does not say that others are gone."""
    stream.send(20)
    reader = stream.reader(clock=lambda: datetime.now(UTC) - timedelta(hours=25))
    while reader.land(0.1).messages:
        pass
    stream.send(5)
    with pytest.raises(StreamLost, match=r"keeps messages for 1 d, and .* so messages may be gone"):
        stream.reader().land(0.1)
    late = stream.reader()
    late.skip_expired()
    while late.land(0.1).messages:
        pass
    stream.send(5)
    while stream.reader().land(0.1).messages:
        pass
    assert stream.ids() == [*range(1, 31)]


def test_a_shard_that_expired_unread(stream: Stream) -> None:
    summary = stream.aws.describe_stream_summary(StreamName=stream.name)["StreamDescriptionSummary"]
    gone = f"{summary['StreamCreationTimestamp'].timestamp():.0f}/shardId-000000000009"
    client = KinesisClient(stream.config, Aws())
    with pytest.raises(StreamLost, match=r"has no shard .*9 any more, which was not read to its end"):
        client.seek({gone: Read(None, "5", 1)})
    past = client.past_expired({gone: Read(None, "5", 1)})
    assert past == {gone: Read("5", "5", 0, drained=True)}
    client.seek(past)


def test_no_stream(server: str) -> None:
    client = KinesisClient(KinesisConfig(name="none", endpoint=server, **ACCESS), Aws())
    with pytest.raises(StreamFault, match="The stream none cannot be read"):
        client.seek({})

"""Many shards with many messages: each is read in its turn, and the memory of a poll is bounded."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

from lake_assets.bronze.log.streams.stream_positions import Read
from lake_assets.bronze.stream.clients import MOST_BYTES, Polled, StreamFault
from lake_assets.bronze.stream.clients import kinesis as kinesis_module
from lake_assets.bronze.stream.clients.kinesis import AT_ONCE, LEAST_RECORDS, KinesisClient
from lake_assets.config import KinesisConfig
from lake_assets.storage.aws_client import Aws
from lake_assets_tests.helpers.servers.s3 import ACCESS
from lake_assets_tests.helpers.servers.streams.kinesis_answers import Answers, answering_server

MIB = 1 << 20
Opened = Callable[[Answers], KinesisClient]


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinesis_module, "PAUSE_SECONDS", 0.0)


@pytest.fixture
def opened() -> Iterator[Opened]:
    """A reader of a server with these answers, at the stream's beginning."""
    with ExitStack() as stack:

        def client(answers: Answers) -> KinesisClient:
            address = stack.enter_context(answering_server(answers))
            found = KinesisClient(KinesisConfig(name="changes", endpoint=address, **ACCESS), Aws())
            stack.callback(found.close)
            found.seek({})
            return found

        yield client


def by_shard(polled: Polled) -> Counter[str]:
    return Counter(message.shard.partition("/")[2] for message in polled.messages)


def test_records_are_those_that_botocore_would_have_read(opened: Opened) -> None:
    values = [b"", b"{}", bytes(range(256)), "\u00e9\U0001f600".encode(), b"x" * 3, b"\xf3\x89\x9a\xc2"]
    answers = Answers({"a": values})
    messages = opened(answers).poll(1, 100).messages
    with answering_server(answers) as address:
        client = boto3.client(
            "kinesis", endpoint_url=address, region_name="x", aws_access_key_id="x", aws_secret_access_key="x"
        )
        expected = client.get_records(ShardIterator="a/0", Limit=100)["Records"]
    assert [(m.position, m.value) for m in messages] == [(r["SequenceNumber"], r["Data"]) for r in expected]
    assert [m.value for m in messages] == values


def test_a_long_backlog_of_a_shard_leaves_room_for_the_others(opened: Opened) -> None:
    busy, quiet = {f"busy{n}": [b"{}"] * 100 for n in range(8)}, {f"quiet{n}": [b"{}"] for n in range(8)}
    answers = Answers(busy | quiet, times=500)
    polled = opened(answers).poll(1, 50_000)
    counts = by_shard(polled)
    assert len(polled.messages) <= 50_000
    assert all(counts[shard] >= 50_000 // 16 for shard in busy)
    assert all(counts[shard] == 500 for shard in quiet)


def test_one_shard_of_many_catches_up(opened: Opened) -> None:
    quiet = {f"quiet{n:02d}": [b"{}"] for n in range(40)}
    answers = Answers({"busy": [b"{}"] * 40_000} | quiet)
    client = opened(answers)
    counts = [by_shard(client.poll(1, 20_000))["busy"] for _ in range(4)]
    assert counts[1:] == [10_000] * 3


def test_more_shards_than_one_poll_can_read_take_turns(opened: Opened) -> None:
    answers = Answers({f"s{n}": [b"{}"] * 100 for n in range(30)}, times=200)
    client, counts = opened(answers), Counter[str]()
    for _ in range(5):
        counts += by_shard(client.poll(1, 6 * LEAST_RECORDS))
    assert len(counts) == 30
    assert max(counts.values()) <= 2 * LEAST_RECORDS


def test_a_throttled_shard_stops_no_other(opened: Opened) -> None:
    answers = Answers(
        {f"s{n}": [b"{}"] * 10 for n in range(6)}, times=1000, throttled=frozenset({"s0", "s3"})
    )
    client, counts = opened(answers), Counter[str]()
    for _ in range(5):
        counts += by_shard(client.poll(1, 1000))
    assert {*counts} == {"s1", "s2", "s4", "s5"}
    assert [shard for shard, _ in answers.requests].count("s0") == 1, "it has a second's rest, and no retry"


def test_who_wants_all_messages_goes_on_without_a_shard_that_does_not_answer(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`sync` would wait for it for ever."""
    monkeypatch.setattr(kinesis_module, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(kinesis_module, "THROTTLED_SECONDS", 0.05)
    client = opened(Answers({"s0": [b"{}"], "s1": [b"{}"]}, throttled=frozenset({"s0"})))
    assert by_shard(client.poll(0, 10)) == {"s1": 1}
    assert not client.is_current(), "it may answer soon"
    end = time.monotonic() + 10
    while not client.is_current() and time.monotonic() < end:
        client.poll(0.05, 10)
    assert client.is_current()
    (warning,) = caplog.records
    assert warning.message.startswith(
        "1770000000/s0 is not answered for, and its messages land when it is again."
    )


def test_what_has_not_landed_of_a_shard_that_does_not_answer(opened: Opened) -> None:
    client = opened(Answers({"s0": [b"{}"], "s1": [b"{}"]}, throttled=frozenset({"s0"})))
    landed = datetime.now(UTC) - timedelta(hours=1)
    known = client.unread({"1770000000/s0": Read(None, "4", 5, at=landed)})
    assert [(shard.shard, shard.is_silent) for shard in known] == [
        ("1770000000/s0", True),
        ("1770000000/s1", False),
    ]
    assert known[0].since == landed
    (never, _) = client.unread({})
    assert never.since is not None
    assert timedelta(0) <= datetime.now(UTC) - never.since - timedelta(hours=24) < timedelta(minutes=1)


def test_requests_for_small_answers_overlap(opened: Opened) -> None:
    answers = Answers({f"s{n}": [b"{}"] for n in range(12)}, delay=0.05)
    opened(answers).poll(1, 1000)
    assert answers.at_once == AT_ONCE


def test_a_poll_ends_when_it_has_many_bytes(opened: Opened) -> None:
    """Of five shards with 50 MiB each, whose answers have up to 10 MiB. Only one of them is under way at a time."""
    answers = Answers({f"s{n}": [b"x" * MIB] for n in range(5)}, times=50, delay=0.02)
    client, counts = opened(answers), Counter[str]()
    for _ in range(3):
        polled = client.poll(1, 50_000)
        assert MOST_BYTES <= sum(len(m.value or b"") for m in polled.messages) <= MOST_BYTES + 10 * MIB
        counts += by_shard(polled)
    assert len(counts) == 5
    assert answers.at_once == 1


def test_a_connection_that_was_closed_is_opened_again(opened: Opened) -> None:
    client = opened(Answers({"a": [b"{}"]}, lost=1))
    assert len(client.poll(1, 10).messages) == 1


def test_records_are_decoded_once() -> None:
    body = b'{"Records":[{"SequenceNumber":"1","Data":"eA==","ApproximateArrivalTimestamp":1.5}]}'
    response, own = {"status_code": 200, "body": body}, dict[str, Any]()
    for _ in range(2):
        kinesis_module._decode(response, own)
    assert [(record.sequence_number, record.data) for record in own["answer"].records] == [("1", b"x")]


def test_a_server_that_never_answers(opened: Opened) -> None:
    client = opened(Answers({"a": [b"{}"]}, lost=99))
    with pytest.raises(StreamFault, match=r"The stream changes cannot be read: .*onnection"):
        client.poll(1, 10)


def test_an_answer_that_cannot_be_read(opened: Opened) -> None:
    client = opened(Answers({"a": [b"{}"]}, garbled=True))
    with pytest.raises(StreamFault, match=r"An answer of the stream changes cannot be read: .* truncated"):
        client.poll(1, 10)

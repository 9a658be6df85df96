"""Kinesis and Kafka on this machine, with a stream of messages.

Here: serving and filling them. Not here: the messages (`messages.py`), who reads them (`reader.py`).
"""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.landing.messages import OPERATIONS, SIZE, messages
from lake_assets.commands.demo.kafka_broker import kafka_broker
from lake_assets_tests.helpers.servers.s3 import ACCESS
from lake_assets_tests.helpers.servers.streams.kinesis_answers import Answers, answering_server

MIB = 1 << 20
LARGEST = 10 * MIB


@dataclass(frozen=True)
class Case:
    """What a stream has."""

    count: int
    shards: int = 16
    size: int = SIZE
    transaction_rows: int = 10
    text: str = "x"
    """What fills a row."""
    operations: tuple[str, ...] = OPERATIONS
    delay: float = 0.0
    """Seconds of an answer of Kinesis."""

    def messages(self, count: int) -> Iterator[bytes]:
        """The first of them."""
        return messages(count, self.size, self.transaction_rows, self.text, self.operations)


HELD = 50_000
"""Messages that the server of Kinesis has in memory at most; a longer stream has them again and again."""


def answer(case: Case, address: "Connection") -> None:
    """Serves the case's stream; the body of a process."""
    distinct = min(case.count, HELD)
    shards: dict[str, list[bytes]] = {f"shardId-{n:012d}": [] for n in range(case.shards)}
    for number, value in enumerate(case.messages(distinct)):
        shards[f"shardId-{number % case.shards:012d}"].append(value)
    with answering_server(Answers(shards, case.count // distinct, case.delay)) as at:
        address.send(at)
        address.recv()


@contextmanager
def kinesis(case: Case, folder: Path) -> Iterator[dict[str, Any]]:
    """The stream of a lake.yaml, while a server has it."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=answer, args=(case, there), daemon=True)
    server.start()
    try:
        yield {"kinesis": {"name": "changes", "endpoint": here.recv(), **ACCESS}}
        here.send("end")
    finally:
        server.join(10)


@contextmanager
def kafka(case: Case, folder: Path) -> Iterator[dict[str, Any]]:
    """The same with a broker."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    with kafka_broker(folder / "kafka") as broker:
        settings = {"max.message.bytes": str(2 * LARGEST)} if case.size > MIB // 2 else {}
        topic = NewTopic("changes", case.shards, config=settings)
        admin = AdminClient({"bootstrap.servers": broker, "log_level": 0})
        for done in admin.create_topics([topic]).values():
            done.result()
        producer = Producer(
            {
                "bootstrap.servers": broker,
                "log_level": 0,
                "message.max.bytes": 2 * LARGEST,
                "queue.buffering.max.kbytes": 512 << 10,
            }
        )
        for number, value in enumerate(case.messages(case.count)):
            while True:
                try:
                    producer.produce("changes", value, partition=number % case.shards)
                    break
                except BufferError:
                    producer.poll(0.5)
        producer.flush()
        yield {"kafka": {"bootstrap_servers": broker, "topic": "changes"}}

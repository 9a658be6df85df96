"""The feed of `benchmarks/latency.py --stream`: DMS's messages in a topic of Kafka, and a process that lands them.

Each table gets its share of the changes, evenly. A change counts from its commit until PyIceberg has loaded a snapshot
of silver that has it. Here: the broker, the messages, the shares of landing and of silver.
"""

import argparse
import csv
import gzip
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import yaml
from confluent_kafka import Producer

from benchmarks.latency import MART, Feed, lake_config
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.commands.demo.kafka_broker import kafka_broker
from lake_assets.config import LANDED
from lake_assets.config.config_file import load_lake
from lake_assets.demo.dms.topic import TopicStorage
from lake_assets.orchestration.lake_definitions import Lake, open_lake

TOPIC = "bench"
TICKS = 10
"""Ticks a second."""
INTERVAL = "500ms"


class StreamFeed(Feed):
    """Sends each table's changes as messages; a table's messages are in one partition."""

    since = "commit"
    every = 1 / TICKS
    producer: Producer
    transaction = 0
    sent = 0
    at_once = 4
    """Changes of a table in a tick."""

    def second(self) -> None:
        for _ in range(self.at_once):
            for table in range(self.tables):
                self.transaction += 1
                self.number += 1
                key = self.chosen.randrange(self.keys)
                self.rows[table][key] = self.number
                self._send(table, "update", {"id": key, "n": self.number})
        self.producer.poll(0)

    def load(self) -> None:
        for table in range(self.tables):
            self.rows[table] = dict.fromkeys(range(self.keys), 0)
            for key in range(self.keys):
                self._send(table, "load", {"id": key, "n": 0})
        self.producer.flush()

    def _send(self, table: int, operation: str, data: dict[str, int]) -> None:
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        metadata = {
            "timestamp": now,
            "record-type": "data",
            "operation": operation,
            "partition-key-type": "schema-table",
            "schema-name": "public",
            "table-name": f"t{table}",
        }
        if operation != "load":
            metadata |= {
                "transaction-id": self.transaction,  # type: ignore[dict-item]
                "transaction-record-id": 1,  # type: ignore[dict-item]
                "prev-transaction-id": self.transaction - 1,  # type: ignore[dict-item]
                "prev-transaction-record-id": 1,  # type: ignore[dict-item]
                "commit-timestamp": now,
            }
        value = json.dumps({"data": data, "before-image": {}, "metadata": metadata})
        while True:
            try:
                self.producer.produce(TOPIC, value, key=f"public.t{table}")
                self.sent += 1
                return
            except BufferError:
                self.producer.poll(0.1)

    def has_landed(self, used: Lake) -> bool:
        """As in the lake's log, which counts the rows of each file."""
        log = used.runtime.file_log
        files = [file for target in used.targets for file in log.files("bench", target.table)]
        return sum(file.rows or 0 for file in files) == self.sent

    def oldest(self, file: LoggedFile) -> float:
        assert file.first_commit_ts is not None
        return file.first_commit_ts.timestamp()

    def waited(self, file: LoggedFile, readable: float) -> list[float]:
        return [readable - commit for commit in self._commits(file)]

    def _commits(self, file: LoggedFile) -> list[float]:
        with gzip.open(self.folder / file.key, "rt", encoding="utf-8", newline="") as text:
            reader = csv.reader(text)
            column = next(reader).index(LANDED.timestamp_column_name)
            return sorted(datetime.fromisoformat(f"{row[column]}+00:00").timestamp() for row in reader)

    def show_stages(self, silver: Sequence[tuple[LoggedFile, float]]) -> None:
        if not silver:
            return
        landing = [file.logged_at.timestamp() - one for file, _ in silver for one in self._commits(file)]
        applying = [readable - file.logged_at.timestamp() for file, readable in silver]
        print(
            f"of these, half within: landing {median(landing):.2f} s, silver {median(applying):.2f} s after it"
        )


@contextmanager
def stream_lake(
    folder: Path, given: argparse.Namespace, remote: str | None
) -> Iterator[tuple[Lake, StreamFeed]]:
    """The lake and its feed, with a broker and a process that lands."""
    with kafka_broker(folder / "kafka") as broker:
        config = lake_config(folder, given.tables, remote, given.large)
        source = config["sources"]["bench"]
        source["stream"] = {
            "kafka": {"bootstrap_servers": broker, "topic": TOPIC},
            "engine": "postgresql",
            "interval": INTERVAL,
        }
        source["dms"] = {
            "include_transaction_details": True,
            "include_null_and_empty": True,
            "before_image_settings": {"enable_before_image": True},
        }
        path = folder / "lake.yaml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        used = open_lake(load_lake(path), marts=(MART,))
        feed = StreamFeed(folder / "bronze", given.tables, given.keys)
        feed.at_once = given.changes // TICKS // given.tables
        TopicStorage(f"{broker}/{TOPIC}")
        feed.producer = Producer({"bootstrap.servers": broker, "linger.ms": 5})
        command = [sys.executable, "-m", "lake_assets.cli", "--config", str(path), "stream"]
        with (folder / "stream.log").open("wb") as log:
            reader = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            try:
                yield used, feed
            finally:
                reader.send_signal(signal.SIGINT)
                reader.wait()

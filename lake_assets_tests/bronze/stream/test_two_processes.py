"""Two processes of `lake-assets stream` on a real broker, one of which is killed again and again: each message lands
once. Not here: readers in one process that die at named steps (`soak/stream/`).
"""

import csv
import gzip
import io
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.log.streams.stream_positions import parse_ranges
from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.catalog import open_catalog
from lake_assets_tests.helpers.files.dms_messages import message
from lake_assets_tests.helpers.lakes.command_lake import command_lake
from lake_assets_tests.helpers.processes.child import environment

pytestmark = pytest.mark.slow
TABLE = {"columns": {"id": "long not null"}, "primary_key": ["id"]}
DMS = {
    "include_transaction_details": True,
    "include_null_and_empty": True,
    "before_image_settings": {"enable_before_image": True},
}
PATIENCE = 120.0


class Readers:
    """Two processes that land one topic."""

    def __init__(self, folder: Path) -> None:
        self._command = [
            *(sys.executable, "-m", "lake_assets.cli"),
            *("--config", str(folder / "lake.yaml"), "stream"),
        ]
        self._all = [self._started() for _ in range(2)]

    def _started(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(self._command, env=environment(), stderr=subprocess.DEVNULL)

    def kill_one(self) -> None:
        """Another takes its place."""
        self._all[0].kill()
        self._all[0].wait()
        self._all[0] = self._started()

    def end(self) -> None:
        for process in self._all:
            process.kill()
            process.wait()


@pytest.mark.parametrize("kills", [2, pytest.param(12, marks=pytest.mark.long)])
def test_each_message_lands_once(tmp_path: Path, kafka: str, kills: int) -> None:
    random, topic, sent = Random(kills), f"two-{kills}", 0
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 2)])[topic].result()
    producer = Producer({"bootstrap.servers": kafka})
    where = {"kafka": {"bootstrap_servers": kafka, "topic": topic}}
    stream = {**where, "engine": "mysql", "interval": "50ms"}
    source = {"location": "landed", "stream": stream, "dms": DMS, "tables": {"public.items": TABLE}}
    folder = command_lake(tmp_path, sources={"shop": source})
    lake = load_lake(folder / "lake.yaml")
    log = FileLog(open_catalog(lake.catalog))
    log.ensure()
    readers = Readers(folder)
    try:
        for kill in range(kills):
            before = _messages(log)
            end = time.monotonic() + PATIENCE
            while _messages(log) < before + 50:
                assert time.monotonic() < end, "nothing lands"
                for _ in range(random.randint(5, 60)):
                    sent += 1
                    producer.produce(topic, message("insert", {"id": sent}, transaction=sent), key=str(sent))
                producer.flush()
                time.sleep(0.05)
            readers.kill_one()
            if kill == kills // 2:
                admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
        end = time.monotonic() + PATIENCE
        while _messages(log) < sent:
            assert time.monotonic() < end, f"{_messages(log)} of {sent} messages have landed"
            time.sleep(0.1)
    finally:
        readers.end()
    assert Counter(_ids(folder / "landed", log)) == Counter(range(1, sent + 1))
    ranges = [parse_ranges(file.ranges) for file in log.records("shop") if file.ranges is not None]
    for shard in {shard for found in ranges for shard in found}:
        own = [found[shard] for found in ranges if shard in found]
        assert [r.after for r in own] == [None, *(r.through for r in own[:-1])]


def _messages(log: FileLog) -> int:
    ranges = [parse_ranges(file.ranges) for file in log.records("shop") if file.ranges is not None]
    return sum(read.messages for found in ranges for read in found.values())


def _ids(folder: Path, log: FileLog) -> Iterator[int]:
    """Of each row of each file in the log."""
    for file in log.files("shop", "public.items"):
        text = gzip.decompress((folder / file.key).read_bytes()).decode()
        yield from (int(row["id"]) for row in csv.DictReader(io.StringIO(text, newline="")))

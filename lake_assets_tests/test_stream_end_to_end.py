"""From a topic of Kafka to silver, by the commands of a user.

Here: one lake, a process that lands, and `sync`. Not here: histories by chance (`silver/test_stream_histories.py`).
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from pyspark.sql import SparkSession

from lake_assets.config import LakeConfig
from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.catalog import open_catalog
from lake_assets_tests.helpers.files.dms_messages import message
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake
from lake_assets_tests.helpers.processes.child import environment

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TABLE = {
    "columns": {
        "id": "long not null",
        "v": "string",
        "price": "decimal(38, 10)",
        "paid": "boolean",
        "born": "timestamp",
    },
    "primary_key": ["id"],
    "full_load_complete": "immediately",
}


def stream_lake(folder: Path, address: str, topic: str) -> Path:
    source = {
        "location": "landed",
        "stream": {
            "kafka": {"bootstrap_servers": address, "topic": topic},
            "engine": "mysql",
            "interval": "200ms",
        },
        "dms": {
            "include_transaction_details": True,
            "include_null_and_empty": True,
            "before_image_settings": {"enable_before_image": True},
        },
        "tables": {"public.items": TABLE},
    }
    return command_lake(folder, sources={"shop": source})


def rows(folder: Path) -> dict[int, tuple[object, ...]]:
    lake = load_lake(folder / "lake.yaml")
    found = open_catalog(lake.catalog).load_table("silver_shop.items").scan().to_arrow().to_pylist()
    return {row["id"]: (row["v"], str(row["price"]), row["paid"], str(row["born"])) for row in found}


def landed(lake: LakeConfig) -> int:
    """The rows of all files in the log."""
    files = open_catalog(lake.catalog).load_table("lake_ops.bronze_files").scan().to_arrow()
    return sum(rows or 0 for rows in files["rows"].to_pylist())


def test_from_a_topic_to_silver(
    spark: SparkSession, tmp_path: Path, kafka: str, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic("shop", 3)])["shop"].result()
    producer = Producer({"bootstrap.servers": kafka})
    folder = stream_lake(tmp_path, kafka, "shop")
    exact = {"id": 1, "v": "", "price": 0, "paid": "t", "born": "2026-03-01T10:00:00.123456Z"}
    first = message("load", exact).replace(b'"price": 0', b'"price": 12345678901234567890.1234567891')
    producer.produce("shop", first, partition=0)
    producer.produce("shop", message("load", {**exact, "id": 2, "v": None, "price": 2}), partition=1)
    producer.flush()
    assert call(folder, "validate") == 0
    assert call(folder, "status") == 0
    assert "shop: 2 of 3 shards have messages that have not landed" in capsys.readouterr().err
    assert call(folder, "sync") == 0
    assert rows(folder) == {
        1: ("", "12345678901234567890.1234567891", True, "2026-03-01 10:00:00.123456"),
        2: (None, "2.0000000000", True, "2026-03-01 10:00:00.123456"),
    }
    command = [sys.executable, "-m", "lake_assets.cli", "--config", str(folder / "lake.yaml"), "stream"]
    reader = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        # The later change arrives first.
        producer.produce(
            "shop", message("update", {"id": 3, "v": "moved"}, before={"id": 2}, transaction=9), partition=2
        )
        producer.produce(
            "shop", message("update", {"id": 2, "v": "before"}, before={}, transaction=7), partition=0
        )
        producer.produce("shop", message("delete", {"id": 1}, transaction=8), partition=1)
        producer.flush()
        lake = load_lake(folder / "lake.yaml")
        end = time.monotonic() + 60
        while landed(lake) < 5:
            assert time.monotonic() < end, "nothing has landed"
            time.sleep(0.2)
    finally:
        reader.send_signal(signal.SIGINT)
        _, printed = reader.communicate(timeout=30)
    assert "shop: " in printed
    assert reader.returncode == 0, printed
    assert call(folder, "sync") == 0
    assert rows(folder) == {3: ("moved", "2.0000000000", True, "2026-03-01 10:00:00.123456")}
    capsys.readouterr()
    assert call(folder, "status") == 0
    assert "shop: everything has landed, of 3 shards" in capsys.readouterr().err
    assert call(folder, "validate") == 0
    places = [TopicPartition("shop", number, -1) for number in range(3)]
    producer.produce("shop", message("delete", {"id": 3}, transaction=10), partition=2)
    producer.flush()
    for done in admin.delete_records(places).values():
        done.result()
    assert call(folder, "status") == 1
    assert "have expired that had not landed" in capsys.readouterr().err
    assert call(folder, "stream") == 1
    assert "its retention has passed" in capsys.readouterr().err
    assert call(folder, "stream", "--skip-expired") == 0
    assert "Have DMS reload the tables" in capsys.readouterr().err
    assert call(folder, "sync") == 0
    assert call(folder, "status") == 0


@pytest.mark.long
def test_messages_of_ten_mebibytes_reach_silver(spark: SparkSession, tmp_path: Path, kafka: str) -> None:
    texts = ["x" * (10 << 20), '"\u00e9\r\n' * 1_900_000, "\0\U0001f600" * 1_000_000]
    topic = NewTopic("large", 3, config={"max.message.bytes": str(30 << 20)})
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([topic])["large"].result()
    producer = Producer({"bootstrap.servers": kafka, "message.max.bytes": 30 << 20})
    folder = stream_lake(tmp_path, kafka, "large")
    large = [{"id": n, "v": text, "price": 1, "paid": None, "born": None} for n, text in enumerate(texts)]
    producer.produce("large", message("load", large[0]), partition=0)
    producer.produce("large", message("load", large[2] | {"v": "short"}), partition=0)
    producer.flush()
    assert call(folder, "sync") == 0
    producer.produce("large", message("insert", large[1], transaction=1), partition=1)
    producer.produce("large", message("update", large[2], before={"id": 2}, transaction=2), partition=1)
    producer.flush()
    assert call(folder, "sync") == 0
    found = rows(folder)
    assert [found[n][0] == text for n, text in enumerate(texts)] == [True] * 3


@pytest.mark.long
def test_a_transaction_of_a_million_rows(spark: SparkSession, tmp_path: Path, kafka: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic("transaction", 3)])["transaction"].result()
    producer = Producer({"bootstrap.servers": kafka, "queue.buffering.max.messages": 2_000_000})
    folder = stream_lake(tmp_path, kafka, "transaction")
    row = {"id": "ID", "v": "x", "price": 1, "paid": None, "born": None}
    producer.produce("transaction", message("load", row | {"id": 0}), partition=0)
    producer.flush()
    assert call(folder, "sync") == 0
    text = message("insert", row, transaction=7, record=999_999_999).decode().replace('"ID"', "999999999")
    for number in range(1, 1_000_001):
        producer.produce("transaction", text.replace("999999999", str(number)).encode(), partition=number % 3)
    producer.flush()
    assert call(folder, "sync") == 0
    found = rows(folder)
    assert [*sorted(found)] == [*range(1_000_001)]

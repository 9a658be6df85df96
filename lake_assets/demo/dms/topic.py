"""A topic of Kafka in the place of a bucket: what would be a file is sent as messages.

Here: DMS's metadata, keys of messages. Not here: the values (`dms_messages.py`), the broker
(`commands/demo/kafka_broker.py`).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from lake_assets.demo.dms.dms_controls import created
from lake_assets.demo.source.bike_schema import TABLES, SourceTable

OPERATIONS = {"I": "insert", "U": "update", "D": "delete"}
PARTITIONS = 3


class TopicStorage:
    """Sends the lines of `encode_messages` to `host:port/topic`, and creates the topic. It keeps nothing: it lists no
    object."""

    def __init__(self, address: str, tables: Mapping[str, SourceTable] = TABLES) -> None:
        """`tables`: by name, as DMS's records define them."""
        from confluent_kafka import KafkaException, Producer
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        servers, _, self._topic = address.partition("/")
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "log_level": 0})
        self._tables = tables
        self._created = set[str]()
        """The tables whose full load has begun."""
        admin = AdminClient({"bootstrap.servers": servers})
        try:
            admin.create_topics([NewTopic(self._topic, PARTITIONS)])[self._topic].result()
        except KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise

    def write(self, key: str, data: bytes) -> None:
        """Sends the rows of a file, and waits until the broker has them."""
        schema, table, name = key.split("/")
        said = {"record-type": "data", "schema-name": schema, "table-name": table}
        loaded = name.startswith("LOAD")
        lines = data.splitlines()
        if loaded and lines and table not in self._created:
            self._created.add(table)
            self.send(created(self._tables[table], json.loads(lines[0])["at"]), table)
        for line in lines:
            row = json.loads(line)
            own = {"operation": "load" if loaded else OPERATIONS[row["op"]]}
            own["timestamp"] = row["at"] if loaded else f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
            if not loaded:
                own["commit-timestamp"] = row["at"]
            begin = line.index(b'"data": ')
            # The tokens stay as they are: a decimal keeps its digits.
            message = b'{"metadata": ' + json.dumps(said | own).encode() + b", " + line[begin:]
            self._producer.produce(
                self._topic, message, key=f"{table}.{next(iter(row['data'].values()), '')}"
            )
            self._producer.poll(0)
        self.flush()

    def flush(self) -> None:
        """Waits until the broker has everything."""
        self._producer.flush()

    def send(self, messages: Iterable[bytes], key: str) -> None:
        """Sends messages as they are."""
        for message in messages:
            self._producer.produce(self._topic, message, key=key)
            self._producer.poll(0)

    def read(self, key: str) -> bytes:
        raise FileNotFoundError(key)

    def list(self, prefix: str) -> Iterator[str]:
        return iter(())

    def remove(self, key: str) -> None:
        raise FileNotFoundError(key)

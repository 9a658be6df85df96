"""A topic of Kafka in the place of a bucket: what would be a file is sent as messages.

Here: DMS's metadata, keys of messages. Not here: the values (`dms_messages.py`), the broker
(`commands/demo/kafka_broker.py`).
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

OPERATIONS = {"I": "insert", "U": "update", "D": "delete"}
PARTITIONS = 3


class TopicStorage:
    """Sends the lines of `encode_messages` to `host:port/topic`, and creates the topic. It keeps nothing: it lists no
    object."""

    def __init__(self, address: str) -> None:
        from confluent_kafka import KafkaException, Producer
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        servers, _, self._topic = address.partition("/")
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
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
        for line in data.splitlines():
            row = json.loads(line)
            loaded = name.startswith("LOAD")
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
        self._producer.flush()

    def read(self, key: str) -> bytes:
        raise FileNotFoundError(key)

    def list(self, prefix: str) -> Iterator[str]:
        return iter(())

    def remove(self, key: str) -> None:
        raise FileNotFoundError(key)

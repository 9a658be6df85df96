"""The stream that a replication task writes a source's changes to: Kinesis Data Streams, or a topic of Kafka.

Here: where it is, how it is reached, what its messages cannot say. Not here: the endpoint's settings (`dms.py`), and
which of them make the messages exact (`dms_rules.py`), reading a stream (`bronze/stream/`).
"""

from datetime import timedelta
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from lake_assets.config.aws.access import AwsAccess
from lake_assets.config.base import Duration, Model


class KinesisConfig(AwsAccess):
    """A stream of Kinesis Data Streams."""

    name: str = Field(min_length=1)


class KafkaConfig(Model):
    """A topic of Kafka."""

    bootstrap_servers: str = Field(min_length=1)
    topic: str = Field(min_length=1)
    client: dict[str, SecretStr] = Field(default_factory=dict)
    """Further settings of the client under librdkafka's names, such as `security.protocol` and `sasl.mechanism`."""


class StreamConfig(Model):
    """A source whose changes arrive in a stream."""

    kinesis: KinesisConfig | None = None
    kafka: KafkaConfig | None = None
    engine: Literal["mysql", "postgresql", "oracle", "sqlserver"]
    """The engine of the source database, which decides the order of its changes."""
    absent: Literal["null"] | None = None
    """What a column is that a message lacks, if the endpoint leaves out NULL and empty texts alike."""
    interval: Duration = timedelta(seconds=1)
    """How long messages are collected before they land."""

    @model_validator(mode="after")
    def _one_stream(self) -> Self:
        if (self.kinesis is None) == (self.kafka is None):
            raise ValueError("needs either kinesis or kafka")
        return self

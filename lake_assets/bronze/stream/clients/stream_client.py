"""Which reader a stream has."""

from lake_assets.bronze.stream.clients.client import Client
from lake_assets.config import StreamConfig
from lake_assets.storage.aws_client import Aws


def opened_client(stream: StreamConfig, aws: Aws) -> Client:
    """The reader of the stream; connects with the first use."""
    if stream.kafka is not None:
        from lake_assets.bronze.stream.clients.kafka import KafkaClient

        return KafkaClient(stream.kafka)
    from lake_assets.bronze.stream.clients.kinesis import KinesisClient

    assert stream.kinesis is not None, "the configuration has one of the two"
    return KinesisClient(stream.kinesis, aws)

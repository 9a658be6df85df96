"""Targets in Kinesis and Kafka: what their documents become in lake.yaml."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from lake_assets.config.config_file import ConfigError, load_lake
from lake_assets.errors import DocumentError
from lake_assets_tests.helpers.texts.dms_documents import SOURCE_ENDPOINT, TARGET_ARN, section, select, task

COLUMNS = "columns: {id: long not null}\n        primary_key: [id]"
KINESIS = {
    "EndpointIdentifier": "shop-stream",
    "EndpointType": "TARGET",
    "EngineName": "kinesis",
    "EndpointArn": TARGET_ARN,
    "KinesisSettings": {
        "StreamArn": "arn:aws:kinesis:eu-central-1:123456789012:stream/shop-changes",
        "MessageFormat": "json-unformatted",
        "ServiceAccessRoleArn": "arn:aws:iam::123456789012:role/dms",
        "IncludeTransactionDetails": True,
        "IncludeControlDetails": True,
        "IncludeTableAlterOperations": True,
        "IncludeNullAndEmpty": True,
        "UseLargeIntegerValue": True,
    },
}
KAFKA = {
    "EndpointIdentifier": "shop-topic",
    "EndpointType": "TARGET",
    "EngineName": "kafka",
    "EndpointArn": TARGET_ARN,
    "KafkaSettings": {
        "Broker": "b-1:9096,b-2:9096",
        "Topic": "shop",
        "SecurityProtocol": "sasl-ssl",
        "SaslUsername": "dms",
        "SaslPassword": "hidden",
        "IncludeTransactionDetails": "true",
        "IncludeNullAndEmpty": "true",
    },
}
NO_LOBS: Any = {"SupportLobs": False}
IMAGES: Any = {"EnableBeforeImage": True, "FieldName": "before", "ColumnFilter": "pk-only"}


def text_of(target: dict[str, Any]) -> str:
    own = task(select("public", "orders"), TargetMetadata=NO_LOBS, BeforeImageSettings=IMAGES)
    return section({"Endpoints": [SOURCE_ENDPOINT, target]}, {"ReplicationTasks": [own]})


def opened(text: str, folder: Path) -> Any:
    file = folder / "lake.yaml"
    decided = text.replace("columns: undecided", COLUMNS).replace("location: undecided", "location: landed")
    file.write_text("catalog: {uri: c.db, warehouse: w}\n" + decided)
    (source,) = load_lake(file, environ={}).sources.values()
    return source


def test_a_stream_of_kinesis(tmp_path: Path) -> None:
    source = opened(text_of(KINESIS), tmp_path)
    assert source.stream.kinesis.name == "shop-changes"
    assert source.stream.kinesis.region == "eu-central-1"
    assert source.stream.engine == "postgresql"
    assert source.dms.model_dump(exclude_defaults=True) == {
        "lob_mode": "none",
        "message_format": "json-unformatted",
        "include_transaction_details": True,
        "include_control_details": True,
        "include_table_alter_operations": True,
        "include_null_and_empty": True,
        "use_large_integer_value": True,
        "before_image_settings": {"enable_before_image": True, "field_name": "before"},
    }


def test_a_topic_of_kafka(tmp_path: Path) -> None:
    text = text_of(KAFKA)
    assert "hidden" not in text
    source = opened(text, tmp_path)
    assert (source.stream.kafka.bootstrap_servers, source.stream.kafka.topic) == ("b-1:9096,b-2:9096", "shop")
    client = {name: value.get_secret_value() for name, value in source.stream.kafka.client.items()}
    assert client == {"security.protocol": "SASL_SSL"}
    assert "# the lake reads the topic with its own credentials" in text


def test_where_the_messages_land_is_undecided(tmp_path: Path) -> None:
    file = tmp_path / "lake.yaml"
    decided = text_of(KINESIS).replace("columns: undecided", COLUMNS)
    file.write_text("catalog: {uri: c.db, warehouse: w}\n" + decided)
    with pytest.raises(
        ConfigError, match="location: is undecided: an endpoint for a stream does not say where"
    ):
        load_lake(file, environ={})


def test_a_source_that_is_not_described() -> None:
    text = section(KINESIS)
    assert yaml.safe_load(text)["sources"]["shop_stream"]["stream"]["engine"] == "undecided"
    assert "# the source database's engine is not described: one of mysql, postgresql" in text


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (
            KINESIS | {"KinesisSettings": {"StreamArn": "shop"}},
            "names no stream: its KinesisSettings need StreamArn",
        ),
        (KAFKA | {"KafkaSettings": {}}, "names no broker: its KafkaSettings need Broker"),
        (
            KINESIS | {"KinesisSettings": KINESIS["KinesisSettings"] | {"NoHexPrefix": "maybe"}},  # type: ignore[operator]
            "NoHexPrefix is 'maybe', expected true or false",
        ),
    ],
)
def test_what_cannot_be_translated(target: dict[str, Any], reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        text_of(target)

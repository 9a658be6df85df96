"""Translates the settings of a target in Kinesis or Kafka to lake.yaml.

Here: KinesisSettings and KafkaSettings of the API. Not here: an S3 target's settings (`s3_settings.py`), the task's
(`task_settings.py`).
"""

from typing import Any

from lake_assets.config import UNDECIDED
from lake_assets.errors import DocumentError
from lake_assets.onboarding.endpoint_import.documents import Endpoint, SourceEndpoint
from lake_assets.onboarding.endpoint_import.s3_settings import converted, flag, our_name

FLAGS = (
    "IncludeTransactionDetails",
    "IncludePartitionValue",
    "PartitionIncludeSchemaTable",
    "IncludeTableAlterOperations",
    "IncludeControlDetails",
    "IncludeNullAndEmpty",
    "NoHexPrefix",
    "UseLargeIntegerValue",
)
_ENGINES = {
    "mysql": ("mysql", "mariadb", "aurora", "aurora-mysql"),
    "postgresql": ("postgres", "postgresql", "aurora-postgresql"),
    "oracle": ("oracle",),
    "sqlserver": ("sqlserver", "babelfish"),
}
"""By the engine in lake.yaml, DMS's names of it."""
PROTOCOLS = {
    "plaintext": None,
    "ssl-encryption": "SSL",
    "ssl-authentication": "SSL",
    "sasl-ssl": "SASL_SSL",
}


def stream_settings(endpoint: Endpoint) -> tuple[dict[str, Any], list[str]]:
    """The settings of `dms:` by their names in lake.yaml, and notes. Raises DocumentError for an invalid value."""
    found: dict[str, Any] = {}
    for name in FLAGS:
        if endpoint.settings.get(name) is not None:
            found[our_name(name)] = converted(endpoint, name, endpoint.settings[name], flag)
    if form := endpoint.settings.get("MessageFormat"):
        found["message_format"] = str(form).lower().replace("_", "-")
    return found, []


def stream_section(endpoint: Endpoint, source: SourceEndpoint | None) -> tuple[dict[str, Any], list[str]]:
    """The `stream:` of a source, and notes. Raises DocumentError for an endpoint without a stream."""
    section, notes = _kinesis(endpoint) if endpoint.engine == "kinesis" else _kafka(endpoint)
    engines = [own for own, names in _ENGINES.items() if source is not None and source.engine in names]
    if not engines:
        notes.append(f"the source database's engine is not described: one of {', '.join(_ENGINES)}")
    return {**section, "engine": engines[0] if engines else UNDECIDED}, notes


def _kinesis(endpoint: Endpoint) -> tuple[dict[str, Any], list[str]]:
    arn = str(endpoint.settings.get("StreamArn") or "")
    _, _, service, region, _, resource, *_ = [*arn.split(":", 5), *[""] * 6]
    kind, _, name = resource.partition("/")
    if service != "kinesis" or kind != "stream" or not name:
        raise DocumentError(
            f"the endpoint {endpoint.name} names no stream: its KinesisSettings need StreamArn."
        )
    return {"kinesis": {"name": name, "region": region}}, []


def _kafka(endpoint: Endpoint) -> tuple[dict[str, Any], list[str]]:
    broker, topic = endpoint.settings.get("Broker"), endpoint.settings.get("Topic")
    if not broker:
        raise DocumentError(f"the endpoint {endpoint.name} names no broker: its KafkaSettings need Broker.")
    kafka: dict[str, Any] = {"bootstrap_servers": str(broker), "topic": str(topic or "kafka-default-topic")}
    protocol = PROTOCOLS.get(str(endpoint.settings.get("SecurityProtocol") or "plaintext").lower())
    if protocol is None:
        return {"kafka": kafka}, []
    kafka["client"] = {"security.protocol": protocol}
    return {"kafka": kafka}, [
        "the lake reads the topic with its own credentials: add them to kafka.client under librdkafka's names, such as "
        "sasl.username and ssl.ca.location, with secrets from the environment"
    ]

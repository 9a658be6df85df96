"""The JSON documents of AWS DMS; a file's content shows which document it is.

Here: `describe-endpoints`, `describe-replication-tasks`, `describe-replication-configs` (serverless), and the files of
table mappings and task settings that tasks are created from. Not here: their settings (`s3_settings.py`,
`stream_settings.py`, `task_settings.py`, `table_mappings.py`).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lake_assets.errors import DocumentError

_LISTS = {
    "Endpoints": "Endpoint",
    "ReplicationTasks": "ReplicationTask",
    "ReplicationConfigs": "ReplicationConfig",
}
_SETTINGS = {
    "TargetMetadata",
    "FullLoadSettings",
    "ControlTablesSettings",
    "ChangeProcessingTuning",
    "ValidationSettings",
}

_TARGETS = {"s3": "S3Settings", "kinesis": "KinesisSettings", "kafka": "KafkaSettings"}
"""By the engine of a target that the lake can read, where its settings are."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A target."""

    name: str
    arn: str | None
    settings: Mapping[str, Any]
    """S3Settings, KinesisSettings or KafkaSettings."""
    extra: str
    """ExtraConnectionAttributes."""
    engine: str = "s3"
    """s3, kinesis or kafka."""


@dataclass(frozen=True, slots=True)
class SourceEndpoint:
    """A source database."""

    arn: str | None
    engine: str
    """DMS's name of it, such as `aurora-postgresql`."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """By name in lower case, also those of ExtraConnectionAttributes; values in lower case."""


@dataclass(frozen=True, slots=True)
class Task:
    """A replication task, or a serverless replication."""

    name: str
    source_arn: str | None = None
    target_arn: str | None = None
    migration_type: str | None = None
    rules: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Documents:
    endpoints: list[Endpoint] = field(default_factory=list)
    sources: list[SourceEndpoint] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    loose_settings: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    """Settings files, by file name."""

    def tasks_of(self, endpoint: Endpoint) -> list[Task]:
        """The tasks that write to the endpoint. A task without a known target writes to the only endpoint."""
        alone = len(self.endpoints) == 1
        return [
            task
            for task in self.tasks
            if (task.target_arn is None and alone)
            or (task.target_arn is not None and task.target_arn == endpoint.arn)
        ]

    def source_of(self, task: Task) -> SourceEndpoint | None:
        """The task's source. A task without a known source reads the only one."""
        if task.source_arn is None:
            return self.sources[0] if len(self.sources) == 1 else None
        return next((source for source in self.sources if source.arn == task.source_arn), None)


def read_documents(texts: Mapping[str, str]) -> Documents:
    """The documents in the files; `texts` are by file name. Raises DocumentError for a file that is not JSON or not a
    document of DMS, for files without a target, and for a task that writes to none of the targets."""
    found = Documents()
    for file, text in texts.items():
        before = len(found.endpoints), len(found.tasks), len(found.loose_settings)
        others = 0
        for entry in _entries(_json(text, file)):
            others += not _take(entry, file, found)
        if not others and before == (len(found.endpoints), len(found.tasks), len(found.loose_settings)):
            raise DocumentError(
                f"{file} is not a document of DMS: expected the output of describe-endpoints, "
                "describe-replication-tasks or describe-replication-configs, table mappings, or task settings."
            )
    for file, settings in found.loose_settings:
        if len(found.tasks) != 1:
            raise DocumentError(
                f"{file} holds the settings of a task, but {len(found.tasks)} tasks are described: give the settings "
                "together with the one task's description or table mappings."
            )
        found.tasks[0] = replace(found.tasks[0], settings={**found.tasks[0].settings, **settings})
    if not found.endpoints:
        raise DocumentError(
            f"{', '.join(texts)} describe no target endpoint in S3, Kinesis or Kafka: add the output of "
            "`aws dms describe-endpoints`."
        )
    for task in found.tasks:
        if not any(task in found.tasks_of(endpoint) for endpoint in found.endpoints):
            raise DocumentError(
                f"the task {task.name} writes to none of the targets {', '.join(e.name for e in found.endpoints)}: "
                "add the description of its target endpoint, or leave the task out."
            )
    return found


def _json(text: str, file: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DocumentError(f"{file} is not JSON: {error}.") from error


def _entries(document: Any) -> Iterator[Mapping[str, Any]]:
    """The described objects, without the lists and objects that the API wraps them in."""
    if isinstance(document, list):
        for item in document:
            yield from _entries(item)
    elif isinstance(document, dict):
        for many, one in _LISTS.items():
            if many in document or one in document:
                yield from _entries(document.get(many, document.get(one)))
                return
        yield document


def _take(entry: Mapping[str, Any], file: str, found: Documents) -> bool:
    """Adds the entry to `found`. Returns False for an endpoint that is no target in S3, Kinesis or Kafka; only a source
    is of use."""
    if "TableMappings" in entry:
        found.tasks.append(_task(entry, file))
    elif "EndpointIdentifier" in entry or "EngineName" in entry or {*_TARGETS.values()} & {*entry}:
        is_target = str(entry.get("EndpointType", "target")).lower() == "target"
        told = next((name for name, settings in _TARGETS.items() if settings in entry), "s3")
        engine = str(entry.get("EngineName", told)).lower()
        if not is_target:
            found.sources.append(
                SourceEndpoint(entry.get("EndpointArn"), engine, _source_settings(entry, file))
            )
        if not is_target or engine not in _TARGETS:
            return False
        own = _TARGETS[engine]
        found.endpoints.append(
            Endpoint(
                name=str(entry.get("EndpointIdentifier") or "dms"),
                arn=entry.get("EndpointArn"),
                settings=_embedded(entry.get(own) or {}, f"{file}: {own}"),
                extra=str(entry.get("ExtraConnectionAttributes") or ""),
                engine=engine,
            )
        )
    elif isinstance(entry.get("rules"), list):
        found.tasks.append(Task(name=file, rules=_rules(entry, file)))
    elif _SETTINGS & set(entry):
        found.loose_settings.append((file, entry))
    return True


def _source_settings(entry: Mapping[str, Any], file: str) -> dict[str, str]:
    """PostgreSQLSettings, OracleSettings and their kind, and the extra connection attributes."""
    found: dict[str, Any] = {
        name.strip(): value.strip()
        for name, separator, value in (
            part.partition("=") for part in str(entry.get("ExtraConnectionAttributes") or "").split(";")
        )
        if separator
    }
    for name, value in entry.items():
        if name.endswith("Settings") and value:
            found |= _embedded(value, f"{file}: {name}")
    return {name.lower(): str(value).lower() for name, value in found.items()}


def _task(entry: Mapping[str, Any], file: str) -> Task:
    name = str(
        entry.get("ReplicationTaskIdentifier") or entry.get("ReplicationConfigIdentifier") or "unnamed"
    )
    mappings = _embedded(entry["TableMappings"], f"{file}: TableMappings of {name}")
    settings = entry.get("ReplicationTaskSettings") or entry.get("ReplicationSettings") or {}
    return Task(
        name=name,
        source_arn=entry.get("SourceEndpointArn"),
        target_arn=entry.get("TargetEndpointArn"),
        migration_type=entry.get("MigrationType") or entry.get("ReplicationType"),
        rules=_rules(mappings, f"{file}: TableMappings of {name}"),
        settings=_embedded(settings, f"{file}: settings of {name}"),
    )


def _rules(mappings: Mapping[str, Any], where: str) -> tuple[Mapping[str, Any], ...]:
    rules = mappings.get("rules", [])
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise DocumentError(f"{where}: rules is not a list of JSON objects.")
    return tuple(rules)


def _embedded(value: Any, where: str) -> Mapping[str, Any]:
    """The document in the value: the API returns it as a string, and edited files have it as a JSON object."""
    parsed = _json(value, where) if isinstance(value, str) else value
    if not isinstance(parsed, dict):
        raise DocumentError(f"{where} is not a JSON object.")
    return parsed

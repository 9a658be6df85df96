"""The endpoint, table mappings and task settings of AWS DMS for a source of lake.yaml.

Here: each setting by its name in the API. Not here: writing files (`commands/dms/dms_cli.py`), or comparing with what
AWS has (`differences.py`).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import count
from typing import Any

from lake_assets.config import DmsSettings, SourceConfig
from lake_assets.errors import LakeError
from lake_assets.onboarding.endpoint_import.s3_settings import MEANINGS, our_name
from lake_assets.onboarding.endpoint_import.stream_settings import FLAGS, PROTOCOLS
from lake_assets.onboarding.endpoint_import.table_mappings import CHANGE_SEQUENCE, escaped
from lake_assets.table_name import TableName

Json = dict[str, Any]
_ACCOUNT = "ACCOUNT_ID"
_UPPER = ("DatePartitionSequence", "DatePartitionDelimiter")
_ESCAPES = {"\t": "\\t", "\r": "\\r", "\n": "\\n"}
_OF_CSV = {"AddColumnName", "CsvDelimiter", "CsvNullValue", "CsvRowDelimiter", "Rfc4180"}
_OF_PARQUET = {"ParquetTimestampInMillisecond"}
_OF_DATES = {"DatePartitionSequence", "DatePartitionDelimiter", "DatePartitionTimezone"}
_LIKE = str.maketrans({"*": "%", "?": "_", "_": "[_]", "%": "[%]"})
_EVERYTHING = {"schema-name": "%", "table-name": "%"}


@dataclass(frozen=True, slots=True)
class Plan:
    """Documents of DMS, as `aws dms` takes them."""

    endpoint: Json
    """For `create-endpoint --cli-input-json`."""
    mappings: Json
    """For `create-replication-task --table-mappings`."""
    task: Json
    """For `create-replication-task --replication-task-settings`."""
    notes: tuple[str, ...]
    """What lake.yaml does not say, or what one endpoint cannot do."""

    @property
    def documents(self) -> dict[str, Json]:
        """By the name of a file, without its ending."""
        return {"endpoint": self.endpoint, "table-mappings": self.mappings, "task-settings": self.task}


def plan(name: str, source: SourceConfig) -> Plan:
    """The documents for the source `name`. Raises LakeError for a location that is no bucket."""
    return Plan(
        _endpoint(name, source),
        {"rules": list(_rules(source))},
        _task(source),
        tuple(_notes(source)),
    )


def identifier(name: str) -> str:
    """A source's name as DMS takes it: letters, digits and single hyphens, beginning with a letter."""
    plain = re.sub("[-_]+", "-", name).strip("-")
    return plain if plain[:1].isalpha() else f"dms-{plain}".rstrip("-")


def written_by(source: SourceConfig, table: str) -> DmsSettings:
    """The settings with which DMS writes the changes of a table (`schema.table`)."""
    return source.dms if source.stream is not None else source.settings(table)


def settings_of(dms: DmsSettings, *, to_stream: bool) -> list[str]:
    """The endpoint's settings that affect what DMS writes, by their names in the API."""
    if to_stream:
        return [*FLAGS, "MessageFormat"]
    left_out = _OF_PARQUET if dms.data_format == "csv" else _OF_CSV
    left_out = left_out | (set() if dms.date_partition_enabled else _OF_DATES)
    return [name for name in MEANINGS if name not in left_out]


def _endpoint(name: str, source: SourceConfig) -> Json:
    found: Json = {"EndpointIdentifier": identifier(name), "EndpointType": "target"}
    if (stream := source.stream) is None:
        return found | {"EngineName": "s3", "S3Settings": {**_bucket(source), **_written(source.dms)}}
    settings = {api: getattr(source.dms, our_name(api)) for api in settings_of(source.dms, to_stream=True)}
    if stream.kinesis is not None:
        region = stream.kinesis.region or "REGION"
        arn = f"arn:aws:kinesis:{region}:{_ACCOUNT}:stream/{stream.kinesis.name}"
        return found | {"EngineName": "kinesis", "KinesisSettings": {"StreamArn": arn, **settings}}
    assert stream.kafka is not None, "the configuration has one of the two"
    where = {"Broker": stream.kafka.bootstrap_servers, "Topic": stream.kafka.topic}
    given = stream.kafka.client.get("security.protocol")
    protocol = given.get_secret_value().upper() if given is not None else None
    by_ours = {ours: theirs for theirs, ours in PROTOCOLS.items() if ours is not None}
    if protocol in by_ours:
        where["SecurityProtocol"] = by_ours[protocol]
    return found | {"EngineName": "kafka", "KafkaSettings": {**where, **settings}}


def _bucket(source: SourceConfig) -> Json:
    if not source.location.startswith("s3://"):
        raise LakeError(
            f"{source.location} is a folder, and DMS writes to a bucket: set location to s3://bucket/prefix."
        )
    bucket, _, folder = source.location.removeprefix("s3://").strip("/").partition("/")
    found = {"BucketName": bucket} | ({"BucketFolder": folder} if folder else {})
    if source.consistent_cut is not None:
        found["CdcMaxBatchInterval"] = max(1, int(source.consistent_cut.interval.total_seconds()))  # type: ignore[assignment]
    return found


def _written(dms: DmsSettings) -> Json:
    found: Json = {}
    for name in settings_of(dms, to_stream=False):
        value = getattr(dms, our_name(name))
        if value is None:
            continue
        if name in _UPPER:
            value = value.upper()
        elif name in ("CsvDelimiter", "CsvRowDelimiter"):
            value = "".join(_ESCAPES.get(letter, letter) for letter in value)
        found[name] = value
    if dms.csv_no_sup_value is not None and dms.data_format == "csv":
        found |= {"UseCsvNoSupValue": True, "CsvNoSupValue": dms.csv_no_sup_value}
    return found


def _task(source: SourceConfig) -> Json:
    dms = source.dms
    # DMS has no LOB settings of a table for such targets: the largest limit is the task's.
    written = [written_by(source, text) for text in source.tables]
    limits = [each.lob_max_size for each in written if each.lob_mode == "limited"]
    target: Json = {"SupportLobs": any(each.lob_mode not in (None, "none") for each in written)}
    if any(each.lob_mode == "full" for each in written):
        target |= {"FullLobMode": True, "LimitedSizeLobMode": False}
    elif limits:
        target |= {"FullLobMode": False, "LimitedSizeLobMode": True, "LobMaxSize": max(limits)}
    found: Json = {"TargetMetadata": target | {"BatchApplyEnabled": dms.batch_apply_enabled}}
    if source.stream is not None:
        images = dms.before_image_settings
        found["BeforeImageSettings"] = {
            "EnableBeforeImage": images.enable_before_image,
            "FieldName": images.field_name,
            "ColumnFilter": images.column_filter,
        }
        return found
    # With DO_NOTHING, a reload leaves the parts of an earlier, bigger load.
    found["FullLoadSettings"] = {"TargetTablePrepMode": "DROP_AND_CREATE"}
    return found | {"ValidationSettings": {"EnableValidation": dms.validation_enabled}}


def _rules(source: SourceConfig) -> Iterator[Json]:
    """The rules, each with its number."""
    numbers = count(1)
    for rule in (*_selections(source), *_transformations(source)):
        number = str(next(numbers))
        yield {"rule-id": number, "rule-name": number, **rule}


def _selections(source: SourceConfig) -> Iterator[Json]:
    for text in source.tables:
        own, globs = TableName.parse(text), source.tables[text].folders
        for where in _locators(source, text):
            yield {"rule-type": "selection", "object-locator": where, "rule-action": "include"}
        if any(fnmatchcase(own.table, glob) for glob in globs):
            root = {"schema-name": escaped(own.schema), "table-name": escaped(own.table)}
            yield {"rule-type": "selection", "object-locator": root, "rule-action": "exclude"}


def _transformations(source: SourceConfig) -> Iterator[Json]:
    for where, column in _by_table(source, ("change_sequence_column",)):
        if column["change_sequence_column"] is not None:
            yield _of_columns(where, "add-column") | {
                "value": column["change_sequence_column"],
                "expression": CHANGE_SEQUENCE,
                "data-type": {"type": "string", "length": 35},
            }
    if source.stream is not None:
        return
    for where, images in _by_table(source, ("before_image_prefix", "before_image_columns")):
        if images["before_image_prefix"] is not None:
            definition = {
                "column-prefix": images["before_image_prefix"],
                "column-suffix": "",
                "column-filter": images["before_image_columns"].replace("_", "-"),
            }
            yield _of_columns(where, "add-before-image-columns") | {"before-image-def": definition}


def _of_columns(where: Json, action: str) -> Json:
    return {
        "rule-type": "transformation",
        "rule-target": "column",
        "rule-action": action,
        "object-locator": where,
    }


def _by_table(source: SourceConfig, names: Sequence[str]) -> list[tuple[Json, Json]]:
    """These settings with the locator of the tables that have them: one for all tables, if they agree."""
    found = {
        text: {name: getattr(written_by(source, text), name) for name in names} for text in source.tables
    }
    first = next(iter(found.values()))
    if all(each == first for each in found.values()):
        return [(_EVERYTHING, first)]
    return [(where, each) for text, each in found.items() for where in _locators(source, text)]


def _locators(source: SourceConfig, text: str) -> list[Json]:
    """Where a table's changes come from. Of a partitioned table, from the partitions only: a load of the table itself
    has all of their rows."""
    name = TableName.parse(text)
    patterns = [_like(text, glob) for glob in source.tables[text].folders] or [escaped(name.table)]
    return [{"schema-name": escaped(name.schema), "table-name": pattern} for pattern in patterns]


def _like(table: str, glob: str) -> str:
    """The pattern of a selection rule. Raises LakeError for a class that such a pattern does not have."""
    parts = re.split(r"(\[[^\]]*\])", glob)
    if wrong := [part for part in parts if part.startswith("[") and not re.fullmatch(r"\[[\w-]+\]", part)]:
        raise LakeError(
            f"{table}: folders has {wrong[0]}, which no selection rule of DMS can say: name the letters."
        )
    return "".join(part if part.startswith("[") else part.translate(_LIKE) for part in parts)


def _notes(source: SourceConfig) -> Iterator[str]:
    if source.stream is None:
        yield "add the role with which DMS writes to the bucket: S3Settings.ServiceAccessRoleArn"
    elif source.stream.kinesis is not None:
        yield f"replace {_ACCOUNT}, and REGION if it is there, in StreamArn"
        yield "add the role with which DMS writes to the stream: KinesisSettings.ServiceAccessRoleArn"
    elif source.stream.kafka is not None and source.stream.kafka.client:
        yield "add the credentials with which DMS writes to the topic to KafkaSettings"
    if source.dms.lob_mode == "limited":
        yield "limited LOB mode cuts longer values: compare LobMaxSize with the longest value at the source"
    for text, table in source.tables.items():
        dms = written_by(source, text)
        if table.source_filter is not None:
            yield f"{text} has a source_filter: add it to its selection rule as filters"
        added = [name for name in dms.added_columns if name != dms.change_sequence_column]
        if added and source.stream is None:
            yield f"{text} has the added columns {', '.join(added)}: add a rule for each, in the order of lake.yaml"
        if other := sorted(_of_other_endpoint(source.dms, dms)):
            yield f"{text} has {', '.join(other)} of its own: that needs an endpoint of its own"


def _of_other_endpoint(shared: DmsSettings, own: DmsSettings) -> Iterator[str]:
    for name in (our_name(api) for api in (*MEANINGS, "CsvNoSupValue")):
        if getattr(shared, name) != getattr(own, name):
            yield name

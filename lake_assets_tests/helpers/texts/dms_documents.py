"""Documents as the API reference of AWS DMS shows them, and the lake that their section opens when everything
undecided is decided."""

import json
from pathlib import Path
from typing import Any

from lake_assets.config import DmsSettings, SourceConfig
from lake_assets.config.config_file import load_lake
from lake_assets.onboarding.endpoint_import.documents import read_documents
from lake_assets.onboarding.endpoint_import.lake_section import lake_section

TARGET_ARN = "arn:aws:dms:eu-west-1:123456789012:endpoint:TARGET"
S3_SETTINGS = {
    "ServiceAccessRoleArn": "arn:aws:iam::123456789012:role/dms",
    "CsvRowDelimiter": "\\n",
    "CsvDelimiter": ",",
    "BucketFolder": "raw/shop",
    "BucketName": "lake-bucket",
    "CompressionType": "GZIP",
    "EnableStatistics": True,
    "IncludeOpForFullLoad": True,
    "CdcInsertsOnly": False,
    "TimestampColumnName": "commit_ts",
    "ParquetTimestampInMillisecond": False,
    "CdcInsertsAndUpdates": False,
    "DatePartitionEnabled": True,
    "DatePartitionSequence": "YYYYMMDDHH",
    "DatePartitionDelimiter": "DASH",
    "DatePartitionTimezone": "Asia/Seoul",
    "AddColumnName": True,
    "CdcMaxBatchInterval": 60,
    "CsvNullValue": "\\N",
    "Rfc4180": True,
    "MaxFileSize": 1048576,
}
ENDPOINT = {
    "EndpointIdentifier": "Shop-Lake",
    "EndpointType": "TARGET",
    "EngineName": "s3",
    "EngineDisplayName": "Amazon S3",
    "ExtraConnectionAttributes": "bucketFolder=raw/shop;bucketName=lake-bucket;compressionType=GZIP;",
    "Status": "active",
    "EndpointArn": TARGET_ARN,
    "SslMode": "none",
    "S3Settings": S3_SETTINGS,
}
SOURCE_ENDPOINT = {
    "EndpointIdentifier": "shop-db",
    "EndpointType": "SOURCE",
    "EngineName": "aurora-postgresql",
    "EndpointArn": "arn:aws:dms:eu-west-1:123456789012:endpoint:SOURCE",
}


def locator(schema: str, table: str, **more: str) -> dict[str, str]:
    """The tables that a rule is about."""
    return {"schema-name": schema, "table-name": table, **more}


def select(schema: str, table: str, action: str = "include") -> dict[str, Any]:
    """A selection rule."""
    return {
        "rule-type": "selection",
        "rule-id": "1",
        "rule-name": "1",
        "object-locator": locator(schema, table),
        "rule-action": action,
        "filters": [],
    }


def transform(action: str, schema: str, table: str, target: str = "column", /, **more: Any) -> dict[str, Any]:
    """A transformation rule."""
    return {
        "rule-type": "transformation",
        "rule-id": "2",
        "rule-name": "2",
        "rule-target": target,
        "object-locator": locator(schema, table),
        "rule-action": action,
        **more,
    }


SEQUENCE = transform(
    "add-column",
    "%",
    "%",
    value="change_seq",
    expression="$AR_H_CHANGE_SEQ",
    **{"data-type": {"type": "string", "length": 50}},
)
BEFORE = transform(
    "add-before-image-columns",
    "%",
    "%",
    **{"before-image-def": {"column-prefix": "BI_", "column-filter": "pk-only"}},
)
TASK_SETTINGS = {
    "TargetMetadata": {
        "TargetSchema": "",
        "SupportLobs": True,
        "FullLobMode": False,
        "LobChunkSize": 64,
        "LimitedSizeLobMode": True,
        "LobMaxSize": 64,
        "InlineLobMaxSize": 0,
        "BatchApplyEnabled": False,
    },
    "FullLoadSettings": {"TargetTablePrepMode": "DROP_AND_CREATE"},
    "ValidationSettings": {"EnableValidation": False},
    "BeforeImageSettings": None,
}


def task(*rules: dict[str, Any], name: str = "shop-task", **settings: Any) -> dict[str, Any]:
    """A task as DescribeReplicationTasks returns it."""
    return {
        "ReplicationTaskIdentifier": name,
        "SourceEndpointArn": SOURCE_ENDPOINT["EndpointArn"],
        "TargetEndpointArn": TARGET_ARN,
        "MigrationType": "full-load-and-cdc",
        "TableMappings": json.dumps({"rules": rules}),
        "ReplicationTaskSettings": json.dumps(TASK_SETTINGS | settings),
        "Status": "running",
    }


def endpoint(extra: str = "", **settings: Any) -> dict[str, Any]:
    """An S3 endpoint as DescribeEndpoints returns it."""
    return {
        "EndpointIdentifier": "lake",
        "EndpointType": "target",
        "EngineName": "s3",
        "EndpointArn": TARGET_ARN,
        "ExtraConnectionAttributes": extra,
        "S3Settings": {"BucketName": "b", **settings},
    }


def section(*documents: Any) -> str:
    """The text that `import-endpoint` makes of the documents."""
    return lake_section(
        read_documents({f"{n}.json": json.dumps(document) for n, document in enumerate(documents)})
    )


def lake(text: str, tmp_path: Path) -> dict[str, SourceConfig]:
    """The sources that the section describes, after everything undecided was decided in one and the same way."""
    decided = text.replace("columns: undecided", "columns: {id: long}\n        mode: append_log")
    decided = decided.replace(
        "tables: undecided", "tables: {any.table: {columns: {id: long}, mode: append_log}}"
    )
    decided = decided.replace("lob_mode: limited", "lob_mode: limited\n      longest_lob: 1")
    file = tmp_path / "lake.yaml"
    file.write_text(f"catalog: {{uri: c.db, warehouse: w}}\n{decided}")
    return load_lake(file, environ={}).sources


def dms(text: str, tmp_path: Path, table: str | None = None) -> dict[str, Any]:
    """The settings in force that are not DMS's defaults."""
    (source,) = lake(text, tmp_path).values()
    found = source.settings(table or next(iter(source.tables))).model_dump()
    return {key: value for key, value in found.items() if value != DmsSettings().model_dump()[key]}

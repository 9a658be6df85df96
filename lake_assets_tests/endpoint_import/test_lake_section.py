"""From DMS's documents to a section of lake.yaml: documents of the shapes that the API reference shows, and what loads
once everything undecided is decided."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lake_assets.commands.import_endpoint import import_endpoint
from lake_assets.config import DmsSettings, SourceConfig
from lake_assets.config_file import ConfigError, load_lake
from lake_assets.endpoint_import.documents import read_documents
from lake_assets.endpoint_import.lake_section import lake_section
from lake_assets.errors import DocumentError

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
    return {"schema-name": schema, "table-name": table, **more}


def select(schema: str, table: str, action: str = "include") -> dict[str, Any]:
    return {
        "rule-type": "selection",
        "rule-id": "1",
        "rule-name": "1",
        "object-locator": locator(schema, table),
        "rule-action": action,
        "filters": [],
    }


def transform(action: str, schema: str, table: str, target: str = "column", /, **more: Any) -> dict[str, Any]:
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
    return {
        "EndpointIdentifier": "lake",
        "EndpointType": "target",
        "EngineName": "s3",
        "EndpointArn": TARGET_ARN,
        "ExtraConnectionAttributes": extra,
        "S3Settings": {"BucketName": "b", **settings},
    }


def section(*documents: Any) -> str:
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


def test_a_task_and_its_endpoints(tmp_path: Path) -> None:
    rules = [select("public", "orders"), select("public", "order[_]lines"), SEQUENCE, BEFORE]
    text = section({"Endpoints": [SOURCE_ENDPOINT, ENDPOINT]}, {"ReplicationTasks": [task(*rules)]})
    sources = lake(text, tmp_path)
    assert list(sources) == ["shop_lake"]
    assert sources["shop_lake"].location == "s3://lake-bucket/raw/shop"
    assert list(sources["shop_lake"].tables) == ["public.orders", "public.order_lines"]
    assert dms(text, tmp_path) == {
        "compression_type": "gzip",
        "add_column_name": True,
        "include_op_for_full_load": True,
        "timestamp_column_name": "commit_ts",
        "date_partition_enabled": True,
        "date_partition_sequence": "yyyymmddhh",
        "date_partition_delimiter": "dash",
        "date_partition_timezone": "Asia/Seoul",
        "csv_null_value": "\\N",
        "change_sequence_column": "change_seq",
        "before_image_prefix": "BI_",
        "lob_mode": "limited",
        "lob_max_size": 64,
        "longest_lob": 1,
    }


def test_what_is_undecided_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "lake.yaml"
    file.write_text("catalog: {uri: c.db, warehouse: w}\n" + section(ENDPOINT, task(select("a", "t"))))
    with pytest.raises(ConfigError) as caught:
        load_lake(file, environ={})
    (mistake,) = caught.value.mistakes
    assert mistake.startswith(
        'sources.shop_lake.tables["a.t"].columns: is undecided: an endpoint does not tell'
    )
    file.write_text(
        file.read_text().replace("columns: undecided", "columns: {id: long}\n        primary_key: [id]")
    )
    with pytest.raises(ConfigError, match="lob_mode: is limited, which cuts values after 64 KB"):
        load_lake(file, environ={})


def test_extra_connection_attributes(tmp_path: Path) -> None:
    extra = (
        "dataformat=parquet; TIMESTAMPCOLUMNNAME=ts ;cdcInsertsOnly=true;datePartitionEnabled=Y;csvDelimiter=;;"
        "UseCsvNoSupValue=true;CsvNoSupValue=NOSUP;parquetTimestampInMillisecond=true"
    )
    text = section(endpoint(extra))
    assert dms(text, tmp_path) == {
        "data_format": "parquet",
        "timestamp_column_name": "ts",
        "cdc_inserts_only": True,
        "date_partition_enabled": True,
        "csv_delimiter": ";",
        "csv_no_sup_value": "NOSUP",
        "parquet_timestamp_in_millisecond": True,
    }


@pytest.mark.parametrize(
    ("settings", "key", "value"),
    [
        ({"CsvDelimiter": "\\t"}, "csv_delimiter", "\t"),
        ({"CsvRowDelimiter": "\\r\\n"}, "csv_row_delimiter", "\r\n"),
        ({"CsvRowDelimiter": "\r\n"}, "csv_row_delimiter", "\r\n"),
        ({"CsvNullValue": ""}, "csv_null_value", ""),
        ({"CsvNullValue": "no"}, "csv_null_value", "no"),
        ({"CsvNullValue": "${HOME}: #"}, "csv_null_value", "${HOME}: #"),
        ({"Rfc4180": False}, "rfc_4180", False),
        ({"CdcPath": "cdc/", "PreserveTransactions": True}, "cdc_path", "cdc"),
        ({"TimestampColumnName": "über ts"}, "timestamp_column_name", "über ts"),
        ({"UseTaskStartTimeForFullLoadTimestamp": True}, "use_task_start_time_for_full_load_timestamp", True),
    ],
)
def test_one_setting(settings: dict[str, Any], key: str, value: Any, tmp_path: Path) -> None:
    assert dms(section(endpoint(**settings)), tmp_path)[key] == value


def test_a_timestamp_column_without_a_name_is_none(tmp_path: Path) -> None:
    assert dms(section(endpoint(TimestampColumnName="", CsvNullValue="NULL")), tmp_path) == {}


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ([endpoint()], "CsvNullValue is not set"),
        ([endpoint()], "no task is described"),
        ([endpoint(TimestampColumnName="t")], "the zone of its commit times"),
        ([endpoint(UseCsvNoSupValue=True)], "without CsvNoSupValue"),
        ([endpoint(AddTrailingPaddingCharacter=True)], "the padding of their source columns"),
        ([endpoint(ShinyNewSetting=1)], "ShinyNewSetting of S3Settings is not known here"),
        ([endpoint("compressionType=GZIP", CompressionType="NONE")], "disagree about CompressionType"),
        (
            [endpoint(), task(BEFORE, BeforeImageSettings={"EnableBeforeImage": True})],
            "has no effect on an S3",
        ),
        (
            [endpoint(), task(FullLoadSettings={"TargetTablePrepMode": "DO_NOTHING"})],
            "empty the table's folder",
        ),
        ([endpoint(), task() | {"MigrationType": "cdc"}], "the task has no full load"),
        ([endpoint(), {"rules": []}], "its LOB mode and BatchApplyEnabled are not known"),
        ([endpoint(), task(TargetMetadata={"TargetSchema": "x"})], "TargetSchema is x"),
        ([endpoint(), task(select("a", "t")), task(select("a", "t"), name="other")], "selected twice"),
    ],
)
def test_what_could_not_be_decided_is_a_comment(documents: list[Any], said: str, tmp_path: Path) -> None:
    text = section(*documents)
    comments = " ".join(
        line.strip().lstrip("# ") for line in text.splitlines() if line.strip().startswith("#")
    )
    assert said in comments
    assert lake(text, tmp_path)


@pytest.mark.parametrize(
    ("rules", "tables"),
    [
        ([select("a", "t")], ["a.t"]),
        ([select("a", "t"), select("a", "u"), select("a", "u", "exclude")], ["a.t"]),
        ([select("a", "t", "explicit")], ["a.t"]),
        ([select("a", "t"), transform("rename", "a", "t", "table", value="v")], ["a.v"]),
        ([select("A", "T"), transform("convert-lowercase", "%", "%", "table")], ["A.t"]),
        (
            [
                select("A", "T"),
                transform("convert-lowercase", "%", "%", "table"),
                {
                    **transform("convert-lowercase", "%", "%", "schema"),
                    "object-locator": {"schema-name": "%"},
                },
            ],
            ["a.t"],
        ),
        ([select("a", "t"), transform("convert-uppercase", "a", "%", "schema")], ["A.t"]),
        ([select("a", "t"), transform("add-prefix", "a", "%", "table", value="x_")], ["a.x_t"]),
        ([select("a", "t"), transform("add-suffix", "b", "%", "table", value="_x")], ["a.t"]),
        ([select("a", "tmp_t"), transform("remove-prefix", "a", "tmp[_]%", "table", value="tmp_")], ["a.t"]),
        (
            [
                select("a", "t_old"),
                transform("replace-suffix", "a", "%", "table", **{"value": "_new", "old-value": "_old"}),
            ],
            ["a.t_new"],
        ),
        # a rule that names one of the tables that a pattern selects
        ([select("a", "%"), transform("rename", "a", "t", "table", value="v")], ["a.v"]),
        (
            [
                select("a", "%"),
                select("a", "t", "exclude"),
                transform("rename", "a", "t", "table", value="v"),
            ],
            [],
        ),
        ([select("a", "t__"), select("b", "%")], ["a.t__"]),
    ],
)
def test_tables_of_a_mapping(rules: list[dict[str, Any]], tables: list[str], tmp_path: Path) -> None:
    (source,) = lake(section(endpoint(), {"rules": rules}), tmp_path).values()
    assert list(source.tables) == (tables or ["any.table"])


def test_patterns_are_told_and_no_table_is_invented(tmp_path: Path) -> None:
    text = section(endpoint(), task(select("public", "%"), select("public", "tmp%", "exclude"), SEQUENCE))
    assert "# the mapping selects public.% (without public.tmp%): name each of these tables" in text
    assert "tables: undecided" in text
    assert dms(text, tmp_path)["change_sequence_column"] == "change_seq", "which holds for all of them"


def test_what_concerns_one_table_is_its_own(tmp_path: Path) -> None:
    rules = [
        select("a", "%"),
        SEQUENCE,
        BEFORE,
        transform("add-column", "a", "t", value="region", expression="$SOURCE"),
        {
            "rule-type": "table-settings",
            "rule-id": "9",
            "object-locator": locator("a", "u"),
            "lob-settings": {"mode": "limited", "bulk-max-size": 512},
            "parallel-load": {"type": "partitions-auto"},
        },
        transform(
            "define-primary-key", "a", "u", "table", **{"primary-key-def": {"name": "k", "columns": ["id"]}}
        ),
        transform(
            "remove-column", "a", "u", **{"object-locator": locator("a", "u", **{"column-name": "secret"})}
        ),
    ]
    text = section(endpoint(AddColumnName=True), task(*rules))
    (source,) = lake(text, tmp_path).values()
    assert source.dms.lob_max_size == 64
    assert source.dms.change_sequence_column == "change_seq"
    assert source.tables["a.t"].dms == {"added_columns": ("region",)}
    assert source.tables["a.u"].dms == {"lob_max_size": 512}
    assert source.tables["a.u"].primary_key == ("id",)
    assert "# the mapping has remove-column for column secret" in text
    assert "# loaded in parallel: its full-load files are in a folder for each segment" in text


def test_two_tasks_into_one_endpoint(tmp_path: Path) -> None:
    """Each table has the settings of its own task."""
    text = section(
        endpoint(AddColumnName=True),
        {"ReplicationTasks": [task(select("a", "t"), SEQUENCE), task(select("a", "u"), name="other")]},
    )
    assert dms(text, tmp_path, "a.t")["change_sequence_column"] == "change_seq"
    assert "change_sequence_column" not in dms(text, tmp_path, "a.u")


def test_the_place_of_the_sequence_among_added_columns(tmp_path: Path) -> None:
    region = transform("add-column", "a", "t", value="region", expression="'eu'")
    for rules, added in (([SEQUENCE, region], ("region",)), ([region, SEQUENCE], ("region", "change_seq"))):
        text = section(endpoint(), {"rules": [select("a", "t"), *rules]})
        assert dms(text, tmp_path, "a.t")["added_columns"] == added
        assert "compare with a file" in text


@pytest.mark.parametrize(
    ("settings", "endpoint_settings", "refused"),
    [
        ({"TargetMetadata": {"BatchApplyEnabled": True}}, {}, "BatchApplyEnabled"),
        ({"TargetMetadata": {"FullLobMode": True}}, {}, "does not support full LOB mode"),
        ({"rules": [], "TargetMetadata": {"FullLobMode": True}}, {}, "does not support full LOB mode"),
        ({"ValidationSettings": {"EnableValidation": True}}, {}, "DMS validates"),
        ({}, {"PreserveTransactions": True}, "needs cdc_path"),
        ({}, {"CdcInsertsOnly": True, "CdcInsertsAndUpdates": True}, "exclude each other"),
    ],
)
def test_what_dms_loses_is_imported_and_refused_by_validate(
    settings: dict[str, Any], endpoint_settings: dict[str, Any], refused: str, tmp_path: Path
) -> None:
    rules = settings.pop("rules", [select("a", "t")])
    text = section(endpoint(**endpoint_settings), task(*rules, **settings))
    with pytest.raises(ConfigError, match=refused):
        lake(text, tmp_path)


def test_a_serverless_replication(tmp_path: Path) -> None:
    config = {
        "ReplicationConfigIdentifier": "serverless",
        "TargetEndpointArn": TARGET_ARN,
        "ReplicationType": "full-load-and-cdc",
        "ReplicationSettings": json.dumps(TASK_SETTINGS),
        "TableMappings": json.dumps({"rules": [select("a", "t")]}),
    }
    (source,) = lake(section(endpoint(), {"ReplicationConfigs": [config]}), tmp_path).values()
    assert (list(source.tables), source.dms.lob_max_size) == (["a.t"], 64)


def test_loose_files_of_mappings_and_settings(tmp_path: Path) -> None:
    (source,) = lake(section(TASK_SETTINGS, {"rules": [select("a", "t")]}, endpoint()), tmp_path).values()
    assert (list(source.tables), source.dms.lob_max_size) == (["a.t"], 64)


def test_several_endpoints(tmp_path: Path) -> None:
    other = endpoint() | {"EndpointIdentifier": "Lake!", "EndpointArn": "arn:other"}
    text = section({"Endpoints": [endpoint(), other]}, task(select("a", "t")))
    sources = lake(text, tmp_path)
    assert {name: list(source.tables) for name, source in sources.items()} == {
        "lake": ["a.t"],
        "lake_2": ["any.table"],
    }


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"a.json": "{"}, "a.json is no JSON"),
        ({"a.json": "{}"}, "a.json is none of the documents of DMS"),
        ({"a.json": '"text"'}, "a.json is none of the documents of DMS"),
        ({"a.json": json.dumps({"Endpoints": [SOURCE_ENDPOINT]})}, "a.json describe no S3 target endpoint"),
        ({"a.json": json.dumps({"rules": []})}, "describe no S3 target endpoint"),
        ({"a.json": json.dumps([ENDPOINT, TASK_SETTINGS])}, "0 tasks are described"),
        (
            {"a.json": json.dumps([ENDPOINT, task() | {"TargetEndpointArn": "x"}])},
            "writes to none of the S3 targets Shop-Lake",
        ),
        (
            {"a.json": json.dumps([ENDPOINT, task() | {"TableMappings": "{"}])},
            "TableMappings of shop-task is no JSON",
        ),
        ({"a.json": json.dumps([ENDPOINT, task() | {"TableMappings": "[]"}])}, "is no JSON object"),
        ({"a.json": json.dumps([ENDPOINT, {"rules": ["x"]}])}, "rules is no list"),
        (
            {"a.json": json.dumps(endpoint(AddColumnName="maybe"))},
            "AddColumnName is 'maybe', expected true or false",
        ),
        ({"a.json": json.dumps(endpoint() | {"S3Settings": {}})}, "names no bucket"),
    ],
)
def test_documents_that_cannot_be_used(texts: dict[str, str], reason: str) -> None:
    with pytest.raises(DocumentError) as caught:
        lake_section(read_documents(texts))
    assert reason in str(caught.value)


def test_text_of_a_document_cannot_become_yaml(tmp_path: Path) -> None:
    """A name from a document stays a comment or a value, whatever is in it."""
    evil = "t\nmalicious: true # \u2028${HOME}x"
    text = section(
        endpoint() | {"EndpointIdentifier": "a\nb: c"},
        task(select("a", evil), select("b\n", "%"), transform("remove-column", "a", "%", value="x\ny: z")),
    )
    (source,) = lake(
        text.replace("\n        columns:", "\n        name: evil\n        columns:"), tmp_path
    ).values()
    assert [name.split(".", 1)[1] for name in source.tables] == [evil]


# --- the shapes are those that boto3 returns


@pytest.fixture
def dms_client():
    import boto3

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    client = boto3.client(
        "dms",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="eu-west-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )
    try:
        import time

        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield client
    finally:
        server.terminate()
        server.wait()


def test_what_boto3_describes(dms_client: Any, tmp_path: Path) -> None:
    writable = {key: value for key, value in S3_SETTINGS.items() if key != "EnableStatistics"}
    created = dms_client.create_endpoint(
        EndpointIdentifier="shop-lake", EndpointType="target", EngineName="s3", S3Settings=writable
    )["Endpoint"]
    dms_client.create_replication_task(
        ReplicationTaskIdentifier="shop-task",
        SourceEndpointArn="arn:source",
        TargetEndpointArn=created["EndpointArn"],
        ReplicationInstanceArn="arn:instance",
        MigrationType="full-load-and-cdc",
        TableMappings=json.dumps({"rules": [select("public", "orders"), SEQUENCE, BEFORE]}),
        ReplicationTaskSettings=json.dumps(TASK_SETTINGS),
    )
    files = []
    for name, answer in (
        ("endpoints", dms_client.describe_endpoints()),
        ("tasks", dms_client.describe_replication_tasks()),
    ):
        files.append(tmp_path / f"{name}.json")
        # As the command line prints it: without the metadata of the answer.
        answer.pop("ResponseMetadata")
        files[-1].write_text(json.dumps(answer, default=str))
    output = tmp_path / "section.yaml"
    text = import_endpoint(files, output)
    assert output.read_text() == text
    settings = dms(text, tmp_path, "public.orders")
    assert (settings["compression_type"], settings["lob_max_size"]) == ("gzip", 64)
    assert (settings["change_sequence_column"], settings["before_image_prefix"]) == ("change_seq", "BI_")
    with pytest.raises(DocumentError, match="is there already"):
        import_endpoint(files, output)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"nothing\.json cannot be read: No such file"):
        import_endpoint([tmp_path / "nothing.json"])
    (tmp_path / "latin.json").write_bytes(b'{"x": "\xe9"}')
    with pytest.raises(DocumentError, match=r"latin\.json is not UTF-8"):
        import_endpoint([tmp_path / "latin.json"])

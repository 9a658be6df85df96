"""Documents that cannot be used, text that means to be YAML, and the shapes that boto3 returns."""

import json
from pathlib import Path
from typing import Any

import pytest

from lake_assets.commands.dms.import_endpoint import import_endpoint
from lake_assets.config import S3Config
from lake_assets.errors import DocumentError
from lake_assets.onboarding.endpoint_import.documents import read_documents
from lake_assets.onboarding.endpoint_import.lake_section import lake_section
from lake_assets_tests.helpers.servers.s3 import client
from lake_assets_tests.helpers.texts.dms_documents import (
    BEFORE,
    ENDPOINT,
    S3_SETTINGS,
    SEQUENCE,
    SOURCE_ENDPOINT,
    TASK_SETTINGS,
    dms,
    endpoint,
    lake,
    section,
    select,
    task,
    transform,
)


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"a.json": "{"}, "a.json is not JSON"),
        ({"a.json": "{}"}, "a.json is not a document of DMS"),
        ({"a.json": '"text"'}, "a.json is not a document of DMS"),
        (
            {"a.json": json.dumps({"Endpoints": [SOURCE_ENDPOINT]})},
            "a.json describe no target endpoint in S3, Kinesis or Kafka",
        ),
        ({"a.json": json.dumps({"rules": []})}, "describe no target endpoint in S3, Kinesis or Kafka"),
        ({"a.json": json.dumps([ENDPOINT, TASK_SETTINGS])}, "0 tasks are described"),
        (
            {"a.json": json.dumps([ENDPOINT, task() | {"TargetEndpointArn": "x"}])},
            "writes to none of the targets Shop-Lake",
        ),
        (
            {"a.json": json.dumps([ENDPOINT, task() | {"TableMappings": "{"}])},
            "TableMappings of shop-task is not JSON",
        ),
        ({"a.json": json.dumps([ENDPOINT, task() | {"TableMappings": "[]"}])}, "is not a JSON object"),
        ({"a.json": json.dumps([ENDPOINT, {"rules": ["x"]}])}, "rules is not a list"),
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
def dms_client(s3: S3Config) -> Any:
    """In a region where no other test has endpoints or tasks."""
    return client("dms", s3.endpoint, region_name="eu-west-1")


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
    with pytest.raises(DocumentError, match="exists already"):
        import_endpoint(files, output)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"nothing\.json cannot be read: No such file"):
        import_endpoint([tmp_path / "nothing.json"])
    (tmp_path / "latin.json").write_bytes(b'{"x": "\xe9"}')
    with pytest.raises(DocumentError, match=r"latin\.json is not UTF-8"):
        import_endpoint([tmp_path / "latin.json"])

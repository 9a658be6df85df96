"""What S3 refuses to Spark or to the client of the catalog's tables: one sentence with the object, the request and the
right. Not here: what it refuses to the lake's own client (`test_unreachable_objects.py`)."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lake_assets.iceberg.catalog_faults import fault_of
from lake_assets.spark.causes import root_cause
from lake_assets_tests.helpers.lakes.guide_project import LAKE, load_of_trips
from lake_assets_tests.helpers.processes.child import PATIENCE, environment, run_python
from lake_assets_tests.helpers.servers.s3 import ACCESS, client, files_in_s3, watched_server

REFUSAL = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
OF_PYARROW = (
    "When uploading object with key 'in/data/1.parquet' in bucket 'lake': AWS Error ACCESS_DENIED during PutObject "
    "operation: Access Denied (Request ID: X)"
)
OF_SPARK = """An error occurred while calling o1.append.
: org.apache.spark.SparkException: Writing job aborted
\tat org.apache.spark.sql.execution.Writes.run(Writes.scala:1)
Caused by: java.nio.file.AccessDeniedException: s3a://lake/in/a.csv: getFileStatus on s3a://lake/in/a.csv: refused
\tat org.apache.hadoop.fs.s3a.S3AUtils.translateException(S3AUtils.java:1)
Caused by: software.amazon.awssdk.services.s3.model.S3Exception: %s (Service: S3, Status Code: 403, Request ID: X)
\tat software.amazon.awssdk.services.s3.DefaultS3Client.headObject(DefaultS3Client.java:1)
"""


def test_a_sentence_for_the_text_of_each_client() -> None:
    kms = "for objects under a KMS key, kms:Decrypt and kms:GenerateDataKey on it, too"
    assert str(fault_of(OSError(OF_PYARROW))) == (
        "s3://lake/in/data/1.parquet: S3 answered AccessDenied to PutObject; grant s3:PutObject on the bucket's "
        f"objects; {kms}."
    )
    assert root_cause(RuntimeError(OF_SPARK % "Access Denied")) == (
        "s3a://lake/in/a.csv: S3 answered AccessDenied to HeadObject; grant s3:GetObject on the bucket's objects and "
        f"s3:ListBucket on the bucket; {kms}"
    )
    named = (
        "User: arn:aws:iam::1:user/me is not authorized to perform: kms:GenerateDataKey on resource: a key"
    )
    assert root_cause(RuntimeError(OF_SPARK % named)).endswith("to HeadObject; grant kms:GenerateDataKey")
    busy = "When reading key 'a/b' in bucket 'lake': AWS Error SLOW_DOWN during GetObject operation: slower"
    said = "S3 failed GetObject, also when it was repeated"
    assert str(fault_of(OSError(busy))) == f"s3://lake/a/b: {said} (SLOW_DOWN); try again later."
    bare = "AWS Error UNKNOWN (HTTP status 500) during GetObject operation: "
    where = "the warehouse or the bucket of the files"
    assert str(fault_of(OSError(bare))) == f"{where}: {said} (UNKNOWN, HTTP 500); try again later."
    assert (
        fault_of(OSError("When reading key 'a' in bucket 'b': AWS Error NO_SUCH_KEY during GetObject"))
        is None
    )


@pytest.mark.parametrize(
    ("said", "to_do"),
    [
        ("The provided token has expired.", "renew the session token, or give a role"),
        ("The AWS Access Key Id you provided does not exist in our records.", "correct the access key"),
        (
            "The request signature we calculated does not match the signature you provided.",
            "correct the secret access",
        ),
        ("arn:aws:kms:us-east-1:1:key/2 is disabled.", "enable the KMS key"),
        ("arn:aws:kms:us-east-1:1:key/2 is pending deletion.", "cancel the deletion of the KMS key"),
        ("Access Denied because object protected by object lock.", "a bucket without Object Lock"),
        ("The difference between the request time and the current time is too large.", "set the clock"),
        (
            "Bucket is requester pays bucket but no requester pays header provided.",
            "Requester Pays is not supported",
        ),
    ],
)
def test_what_s3_says_itself(said: str, to_do: str) -> None:
    for status in ("400", "403"):
        text = (OF_SPARK % said).replace("Status Code: 403", f"Status Code: {status}")
        found = root_cause(RuntimeError(text))
        assert found.startswith("s3a://lake/in/a.csv: S3 answered ")
        assert to_do in found
        assert "grant" not in found
    asked = "AWS Error UNKNOWN (HTTP status 400) during GetObject operation"
    of_pyarrow = f"When reading key 'a' in bucket 'b': {asked}: {said}"
    assert str(fault_of(OSError(of_pyarrow))).startswith("s3://b/a: S3 answered UNKNOWN to GetObject; ")
    assert to_do in str(fault_of(OSError(of_pyarrow)))


@pytest.fixture
def refusing() -> Iterator[tuple[str, list[str]]]:
    """A server of AWS, and expressions for the method and path of the requests that it refuses."""
    refused: list[str] = []

    def watch(environ: dict[str, Any]) -> bytes | None:
        asked = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        return REFUSAL if any(re.search(each, asked) for each in refused) else None

    with watched_server(watch) as endpoint:
        yield endpoint, refused


@pytest.mark.long
@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (
            "PUT .*bronze_files/data/",
            r"^s3://guide/warehouse/lake_ops/bronze_files/data/\S+parquet: S3 .* PutObject; grant s3:PutObject",
        ),
        (
            "PUT .*trips/metadata/",
            "trips failed: .*S3 answered AccessDenied to PutObject; grant s3:PutObject",
        ),
        (
            "GET .*/in/.*csv",
            r"trips failed: s3://guide/in/public/trips/LOAD00000001.csv: .*; grant s3:GetObject",
        ),
    ],
)
def test_what_a_command_says(
    refusing: tuple[str, list[str]], tmp_path: Path, request_: str, said: str
) -> None:
    endpoint, refused = refusing
    s3 = client("s3", endpoint)
    s3.create_bucket(Bucket="guide")
    body = "".join(f"{line}\n" for line in load_of_trips()).encode()
    s3.put_object(Bucket="guide", Key="in/public/trips/LOAD00000001.csv", Body=body)
    access = ACCESS | {"endpoint": endpoint, "path_style": True}
    source = LAKE["sources"]["bikes"] | {"location": "s3://guide/in", "s3": access}
    files = {"warehouse": "s3://guide/warehouse", **files_in_s3(endpoint)}
    catalog = {"name": "guide", "type": "sqlite", "uri": "catalog.db", **files}
    (tmp_path / "lake.yaml").write_text(
        yaml.safe_dump({**LAKE, "catalog": catalog, "sources": {"bikes": source}})
    )
    refused.append(request_)
    sync = ("-m", "lake_assets.cli", "sync")
    done = run_python(*sync, timeout=PATIENCE, cwd=tmp_path, env=environment())
    assert done.returncode != 0
    assert re.search(said, done.stderr, re.MULTILINE), done.stderr[-2000:]
    assert "Traceback" not in done.stderr

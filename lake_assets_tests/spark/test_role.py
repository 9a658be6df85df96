"""Spark with a role: it reads DMS files and writes tables in S3 with the keys that STS hands out.

Here: a Spark of its own, since a role is a setting of its JVM. Not here: boto3 (`storage/test_secret_values.py`).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyiceberg.catalog import load_catalog

from lake_assets.bronze.reader.staging import PREFIX
from lake_assets_tests.helpers.lakes.guide_project import LAKE, TRIPS, load_of_trips
from lake_assets_tests.helpers.processes.child import PATIENCE, environment, output_of, run_python
from lake_assets_tests.helpers.servers.s3 import ACCESS, client, files_in_s3, watched_server

ROLE = "arn:aws:iam::123456789012:role/lake"
WRITTEN = r"/warehouse/silver_bikes/trips/data/.*\.parquet$"
Asked = list[tuple[str, str, str]]
"""Of each request: the method, the path, and the access key."""


@pytest.fixture
def recorded() -> Iterator[tuple[str, Asked]]:
    """A server of AWS, and what it is asked."""
    asked: Asked = []

    def watch(environ: dict[str, Any]) -> None:
        key = re.search(r"Credential=([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
        asked.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], key[1] if key else ""))

    with watched_server(watch) as endpoint:
        yield endpoint, asked


@pytest.mark.spark
@pytest.mark.slow
def test_files_and_tables_by_the_keys_of_a_role(tmp_path: Path, recorded: tuple[str, Asked]) -> None:
    endpoint, asked = recorded
    s3 = client("s3", endpoint)
    s3.create_bucket(Bucket="of-a-role")
    body = "".join(f"{line}\n" for line in load_of_trips()).encode()
    s3.put_object(Bucket="of-a-role", Key="in/public/trips/LOAD00000001.csv", Body=body)
    asked.clear()

    (tmp_path / "lake.yaml").write_text(yaml.safe_dump(lake_of_a_role(endpoint)))
    keys = {
        "AWS_ACCESS_KEY_ID": ACCESS["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": ACCESS["secret_access_key"],
    }
    sync = ("-m", "lake_assets.cli", "sync")
    output_of(run_python(*sync, timeout=PATIENCE, cwd=tmp_path, env=environment(**keys)))

    catalog = load_catalog(
        "guide", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", **files_in_s3(endpoint)
    )
    found = catalog.load_table("silver_bikes.trips").scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["bike_id"]) for row in found) == [(id, bike) for id, bike, _ in TRIPS]
    read = {key[:4] for method, path, key in asked if "/in/" in path}
    by_spark = [(method, path, key) for method, path, key in asked if PREFIX not in path]
    written = {key[:4] for method, path, key in by_spark if method == "PUT" and re.search(WRITTEN, path)}
    assert read == {"ASIA"}, asked
    assert written == {"ASIA"}, asked


def lake_of_a_role(endpoint: str) -> dict[str, Any]:
    """Its keys may only assume the role, in Spark; PyIceberg's tables are by the keys themselves."""
    access = ACCESS | {"endpoint": endpoint, "path_style": True, "role_arn": ROLE, "sts_endpoint": endpoint}
    source = LAKE["sources"]["bikes"] | {"location": "s3://of-a-role/in", "s3": access}
    tables = {
        **LAKE["catalog"],
        **files_in_s3(endpoint),
        "warehouse": "s3://of-a-role/warehouse",
        "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
        "client.assume-role.arn": ROLE,
        "client.assume-role.region": ACCESS["region"],
    }
    return LAKE | {"catalog": tables, "sources": {"bikes": source}}

"""The lake as resources of Dagster: what an own asset gets, what the UI shows, and replacing them.

Here: real runs, moto for AWS. Not here: secrets and roles themselves (`storage/test_secret_values.py`).
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster_aws.s3 import S3Resource
from dagster_aws.secretsmanager import SecretsManagerResource
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from lake_assets import LakeResource, LakeS3Resource, LakeSecretsManagerResource, lake_definitions
from lake_assets.config import S3Config
from lake_assets.orchestration.resources import _opened
from lake_assets.storage.object_store import S3Store
from lake_assets_tests.helpers.lakes.guide_project import LAKE, spark_section, write_lake
from lake_assets_tests.helpers.processes.child import output_of, run_python
from lake_assets_tests.helpers.servers.s3 import ACCESS
from lake_assets_tests.helpers.servers.secrets import Secret

ASKED: dict[str, Any] = {}
"""What the asset `asking` was given."""


@dg.asset
def asking(lake: LakeResource, pyspark: LazyPySparkResource, s3: S3Resource) -> None:
    ASKED.update(lake=lake, pyspark=pyspark, s3=s3.get_client())


@pytest.fixture
def keys(s3: S3Config) -> Secret:
    return Secret(s3, {"id": "an-access-key", "key": "a-hidden/key", "token": "a-hidden-token"})


@pytest.fixture
def bucket(new_bucket: Callable[[], Any]) -> Any:
    found = new_bucket()
    found.put_object(Key="in/public/trips/LOAD00000001.csv", Body=b"Op,commit_ts,id,bike_id,started_at\n")
    return found


@pytest.fixture
def file(tmp_path: Path, s3: S3Config, bucket: Any, keys: Secret) -> Path:
    """A lake with its files in S3, by keys in Secrets Manager."""
    source = LAKE["sources"]["bikes"] | {
        "location": f"s3://{bucket.name}/in",
        "s3": {
            "region": s3.region,
            "endpoint": s3.endpoint,
            "path_style": True,
            "access_key_id": f"${{secret:{keys.name}:id}}",
            "secret_access_key": f"${{secret:{keys.name}:key}}",
        },
    }
    lake = LAKE | {
        "sources": {"bikes": source},
        "secrets": {"endpoint": s3.endpoint, **ACCESS},
        "spark": spark_section({"spark.own.token": f"${{secret:{keys.name}:token}}"}),
    }
    path = tmp_path / "lake.yaml"
    path.write_text(yaml.safe_dump(lake))
    return path


def run(defs: dg.Definitions, **arguments: Any) -> None:
    job = dg.Definitions.merge(defs, dg.Definitions(assets=[asking])).resolve_implicit_global_asset_job_def()
    instance = dg.DagsterInstance.ephemeral()
    assert job.execute_in_process(asset_selection=[asking.key], instance=instance, **arguments).success


@pytest.mark.spark
def test_an_own_asset_gets_the_lakes_own(spark: SparkSession, file: Path, bucket: Any) -> None:
    defs = lake_definitions(file)
    run(defs)
    runtime = _opened[str(file)]
    assert ASKED["lake"].runtime is runtime
    assert ASKED["lake"].catalog is runtime.catalog
    assert ASKED["lake"].file_log is runtime.file_log
    assert ASKED["pyspark"].spark_session is runtime.sessions.root()
    found = ASKED["s3"].list_objects_v2(Bucket=bucket.name)
    assert [entry["Key"] for entry in found["Contents"]] == ["in/public/trips/LOAD00000001.csv"]
    assert ASKED["s3"] is runtime.store("bikes")._client


def test_keys_that_are_rotated(file: Path, keys: Secret) -> None:
    s3: LakeS3Resource = lake_definitions(file).resources["s3"]  # type: ignore[index]
    assert access_key(s3.get_client()) == "an-access-key"
    keys.rotate({"id": "another-key", "key": "hidden too"})
    _opened[str(file)].aws.secrets.forget()
    assert access_key(s3.get_client()) == "another-key"


def access_key(client: Any) -> str:
    return str(client._request_signer._credentials.access_key)


def test_secrets_of_an_own_asset(file: Path, keys: Secret) -> None:
    found: LakeSecretsManagerResource = lake_definitions(file).resources["secretsmanager"]  # type: ignore[index]
    assert found.value(keys.name, "key") == "a-hidden/key"
    text = found.get_client().get_secret_value(SecretId=keys.name)["SecretString"]
    assert json.loads(text)["id"] == "an-access-key"


def test_the_ui_shows_names_and_settings_and_no_secret(file: Path) -> None:
    defs = lake_definitions(file)
    _opened[str(file)].sessions._of_now()  # the secrets have been read
    shown = resources_in_the_ui(defs)
    assert {name: entry["resourceType"].rpartition(".")[2] for name, entry in shown.items()} == {
        "bronze_io_manager": "bronze_files",
        "iceberg_io_manager": "iceberg_tables",
        "lake": "LakeResource",
        "pyspark": "LakePySparkResource",
        "s3": "LakeS3Resource",
        "secretsmanager": "LakeSecretsManagerResource",
    }
    values = {entry["key"]: entry["value"] for entry in shown["s3"]["configuredValues"]}
    assert values["source"] == json.dumps("bikes")
    assert values["region_name"] == json.dumps("us-east-1")
    assert all(entry["description"] for entry in shown.values())
    for secret in ("a-hidden", ACCESS["secret_access_key"], "${secret"):
        assert secret not in json.dumps(shown)


def resources_in_the_ui(defs: dg.Definitions) -> dict[str, dict[str, Any]]:
    repository = defs.get_repository_def()
    found = {}
    from dagster._core.remote_representation.external_data import RepositorySnap

    for entry in RepositorySnap.from_def(repository).resources or ():
        found[entry.name] = {
            "resourceType": entry.resource_type,
            "description": entry.resource_snapshot.description,
            "configuredValues": [
                {"key": key, "value": value} for key, value in entry.configured_values.items()
            ],
        }
    return found


def test_a_run_with_another_setting(file: Path, spark: SparkSession) -> None:
    other = {"s3": {"config": {"endpoint_url": "http://127.0.0.1:9"}}}
    run(lake_definitions(file), run_config={"resources": other})
    assert ASKED["s3"].meta.endpoint_url == "http://127.0.0.1:9"
    run(lake_definitions(file))
    assert ASKED["s3"].meta.endpoint_url != "http://127.0.0.1:9"


PROFILE = """[profile of-the-lake]
region = eu-north-1
aws_access_key_id = of-the-profile
aws_secret_access_key = hush
"""
GIVEN: dict[str, dict[str, Any]] = {
    "profile": {"profile_name": "of-the-lake", "region_name": None},
    "keys": {"aws_access_key_id": "given", "aws_secret_access_key": "hush"},
    "keys before a profile": {
        "profile_name": "of-the-lake",
        "aws_access_key_id": "given",
        "aws_secret_access_key": "hush",
    },
    "temporary keys": {
        "aws_access_key_id": "given",
        "aws_secret_access_key": "hush",
        "aws_session_token": "for an hour",
    },
}
EXPECTED = {
    "profile": ("of-the-profile", None, "us-east-1"),
    "keys": ("given", None, "us-east-1"),
    "keys before a profile": ("given", None, "us-east-1"),
    "temporary keys": ("given", "for an hour", "us-east-1"),
}
"""Access key, session token and region of the client; the region is the source's."""


@pytest.fixture
def s3_resource(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LakeS3Resource:
    """The lake's resource, whose source has keys, beside a profile of the AWS configuration."""
    (tmp_path / "aws").write_text(PROFILE)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws"))
    found: LakeS3Resource = lake_definitions(file).resources["s3"]  # type: ignore[index]
    return found


@pytest.mark.parametrize("case", GIVEN)
def test_access_that_the_resource_sets(s3_resource: LakeS3Resource, case: str) -> None:
    client = s3_resource.model_copy(update=GIVEN[case]).get_client()
    credentials = client._request_signer._credentials
    assert (credentials.access_key, credentials.token, client.meta.region_name) == EXPECTED[case]


def test_a_role_of_the_resource(s3: S3Config, s3_resource: LakeS3Resource, bucket: Any) -> None:
    file = Path(s3_resource.lake.file)
    lake = yaml.safe_load(file.read_text())
    access = lake["sources"]["bikes"]["s3"]
    access["sts_endpoint"] = s3.endpoint
    del access["region"]
    file.write_text(yaml.safe_dump(lake))
    resource = lake_definitions(file).resources["s3"]  # type: ignore[index]
    given = {"role_arn": "arn:aws:iam::123456789012:role/reader", "profile_name": "of-the-lake"}
    client = resource.model_copy(update=given).get_client()
    assert client._request_signer._credentials.access_key.startswith("ASIA"), "a key of STS"
    assert client._request_signer._credentials.token
    assert client.meta.region_name == "eu-north-1", "the region of the profile, beside the role's keys"
    found = client.list_objects_v2(Bucket=bucket.name)
    assert [entry["Key"] for entry in found["Contents"]] == ["in/public/trips/LOAD00000001.csv"]


def test_one_key_without_the_other(s3_resource: LakeS3Resource) -> None:
    with pytest.raises(ValueError, match="access_key_id and secret_access_key go together") as caught:
        s3_resource.model_copy(update={"aws_access_key_id": "given"}).get_client()
    assert "given" not in str(caught.value)


def test_other_resources_serve_the_lake_too(
    file: Path, s3: S3Config, keys: Secret, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_ENDPOINT", str(s3.endpoint))
    access: dict[str, Any] = {
        "aws_access_key_id": "of-the-user",
        "aws_secret_access_key": "hush",
        "region_name": s3.region,
    }
    own = S3Resource(endpoint_url=dg.EnvVar("OWN_ENDPOINT"), **access)
    manager = SecretsManagerResource(endpoint_url=s3.endpoint, **access)
    defs = lake_definitions(file, resources={"s3": own, "secretsmanager": manager, "pyspark": None})
    assert defs.resources is not None
    assert defs.resources["s3"] is own
    assert "pyspark" not in defs.resources
    runtime = _opened[str(file)]
    assert [obj.key for obj in runtime.store("bikes").list()] == ["public/trips/LOAD00000001.csv"]
    store = runtime.store("bikes")
    assert isinstance(store, S3Store)
    assert access_key(store._client) == "of-the-user"
    assert access_key(runtime.aws.secrets_manager()) == "of-the-user"
    assert runtime.aws.secrets.value(keys.name, "id") == "an-access-key"
    merged = dg.Definitions.merge(defs, dg.Definitions(resources={"s3": own, "pyspark": 3}))
    assert merged.resources is not None
    assert merged.resources["pyspark"] == 3


def test_sources_with_different_access(tmp_path: Path) -> None:
    def in_s3(region: str) -> dict[str, Any]:
        return LAKE["sources"]["bikes"] | {"location": f"s3://{region}/in", "s3": {"region": region}}

    local = LAKE["sources"]["bikes"]
    sources = {"here": local, "east": in_s3("us-east-1"), "west": in_s3("us-west-1")}
    (tmp_path / "lake.yaml").write_text(yaml.safe_dump(LAKE | {"sources": sources}))
    found = lake_definitions(tmp_path / "lake.yaml").resources or {}
    assert {key: found[key].source for key in found if key.startswith("s3")} == {
        "s3": "east",
        "s3_west": "west",
    }
    assert found["s3_west"].get_client().meta.region_name == "us-west-1"


def test_a_lake_without_its_definitions(tmp_path: Path) -> None:
    write_lake(tmp_path)
    lake = LakeResource(file=str(tmp_path / "lake.yaml"))
    assert lake.runtime.lake.catalog.name == "guide"
    assert LakeResource(file=str(tmp_path / "lake.yaml")).runtime is lake.runtime


def test_a_sync_does_not_import_them(tmp_path: Path) -> None:
    program = "import lake_assets.orchestration.sync, sys; print('dagster_aws' in sys.modules)"
    assert output_of(run_python("-c", program, timeout=120, cwd=tmp_path)).strip() == "False"

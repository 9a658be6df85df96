"""Dagster's instance of `deploy/aws/`: its history in a real PostgreSQL server, the output of its runs in moto's S3.

Not here: the stack (`test_stack.py`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa
import yaml

from lake_assets_tests.helpers.processes.child import ROOT
from lake_assets_tests.helpers.servers.s3 import ACCESS, client, s3_server


@dg.op
def speak() -> None:
    print("said by the run")


@dg.job
def speaking() -> None:
    speak()


def test_runs_are_in_postgresql_and_their_output_in_s3(
    tmp_path: Path, new_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config: dict[str, Any] = yaml.safe_load((ROOT / "deploy/aws/dagster.yaml").read_text(encoding="utf-8"))
    address = sa.make_url(new_database("SELECT 1"))
    # The tests' server has another port and user, and no certificate.
    database = config["storage"]["postgres"]["postgres_db"]
    database |= {
        "port": int(str(address.query["port"])),
        "username": address.username,
        "db_name": address.database,
    }
    database["params"] = {}
    config["compute_logs"]["config"]["local_dir"] = str(tmp_path / "logs")
    config["local_artifact_storage"]["config"]["base_dir"] = str(tmp_path / "artifacts")
    # The launcher starts processes, and this test launches nothing (`orchestration/launcher/`).
    del config["run_launcher"]
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    with s3_server() as endpoint:
        client("s3", endpoint).create_bucket(Bucket="tables")
        values = {
            "DAGSTER_DATABASE_HOST": "127.0.0.1",
            "DAGSTER_DATABASE_PASSWORD": str(address.password),
            "COMPUTE_LOGS": "tables",
            "AWS_ENDPOINT_URL_S3": endpoint,
            **{f"AWS_{name.upper()}": str(value) for name, value in ACCESS.items()},
        }
        for name, value in values.items():
            monkeypatch.setenv(name, value)
        with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
            done = speaking.execute_in_process(instance=instance)
            assert [run.run_id for run in instance.get_runs()] == [done.run_id]
            keys = [
                found["Key"]
                for found in client("s3", endpoint).list_objects_v2(Bucket="tables").get("Contents", [])
            ]
            said = [
                client("s3", endpoint).get_object(Bucket="tables", Key=key)["Body"].read()
                for key in keys
                if key.endswith(".out")
            ]
    assert all(key.startswith(f"dagster/storage/{done.run_id}/") for key in keys)
    assert any(b"said by the run" in text for text in said)

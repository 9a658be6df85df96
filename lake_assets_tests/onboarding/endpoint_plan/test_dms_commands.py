"""`lake-assets dms`: what it prints, writes and asks.

Here: the command line, with files and with moto's server. Not here: what is planned and compared (`test_dms_plan.py`).
"""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from lake_assets.cli import app
from lake_assets.commands.doctor.examinations import dms_of
from lake_assets.config import S3Config
from lake_assets.config.config_file import load_lake
from lake_assets.errors import DocumentError, LakeError
from lake_assets.lake import open_lake
from lake_assets.onboarding.endpoint_plan.dms_plan import plan
from lake_assets_tests.helpers.servers.s3 import ACCESS, client
from lake_assets_tests.onboarding.endpoint_plan.test_dms_plan import SEQUENCE, TABLES, source


@pytest.fixture
def lake_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake of one source, in the working directory."""
    path = tmp_path / "lake.yaml"
    given = {"location": "s3://lake-bucket/raw/shop", "dms": SEQUENCE, "tables": TABLES}
    lake = {"catalog": {"uri": "c.db", "warehouse": "w"}, "sources": {"shop": given}}
    path.write_text(yaml.safe_dump(lake), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return path


def run(path: Path, *arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["--config", str(path), "dms", *arguments])
    if isinstance(done.exception, LakeError | DocumentError):
        return 1, "", str(done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def examined(path: Path) -> list[tuple[str, str | None]]:
    """What `lake-assets doctor` finds of DMS."""
    return [*dms_of("shop")(open_lake(load_lake(path)))]


def test_the_command_line(lake_yaml: Path, tmp_path: Path) -> None:
    code, printed, said = run(lake_yaml, "plan")
    assert (code, {*json.loads(printed)}) == (0, {"endpoint", "table-mappings", "task-settings"})
    assert "note: add the role" in said
    code, printed, _ = run(lake_yaml, "plan", "--output", "out")
    assert "--cli-input-json file://out/endpoint.json" in printed
    files = sorted(map(str, (tmp_path / "out").iterdir()))
    code, printed, _ = run(lake_yaml, "diff", *files)
    assert (code, "as lake.yaml expects" in printed) == (0, True)
    endpoint = Path(files[0])
    endpoint.write_text(endpoint.read_text().replace('"Rfc4180": true', '"Rfc4180": false'))
    code, printed, said = run(lake_yaml, "diff", files[0])
    assert (code, printed) == (1, "rfc_4180 is true in lake.yaml, and false at the endpoint shop\n")
    assert "No task of the endpoint is described" in said
    assert run(lake_yaml, "diff") == (
        1,
        "",
        "shop has no dms_task: set it to the ARN of its task, or name files with what `aws dms describe-endpoints` and "
        "`describe-replication-tasks` print.",
    )
    assert "lake.yaml has no source x: it has shop" in run(lake_yaml, "plan", "--source", "x")[2]


def test_what_dms_itself_says(lake_yaml: Path, s3: S3Config) -> None:
    """moto's server gets the planned documents, and a lake with its task reads them back."""
    planned, dms = plan("shop", source()), client("dms", s3.endpoint)
    target = dms.create_endpoint(**planned.endpoint)["Endpoint"]["EndpointArn"]
    at_source = dms.create_endpoint(EndpointIdentifier="db", EndpointType="source", EngineName="postgres")
    task = dms.create_replication_task(
        ReplicationTaskIdentifier="shop",
        SourceEndpointArn=at_source["Endpoint"]["EndpointArn"],
        TargetEndpointArn=target,
        ReplicationInstanceArn="arn:aws:dms:us-east-1:123456789012:rep:INSTANCE",
        MigrationType="full-load-and-cdc",
        TableMappings=json.dumps(planned.mappings),
        ReplicationTaskSettings=json.dumps(planned.task),
    )["ReplicationTask"]["ReplicationTaskArn"]
    lake = yaml.safe_load(lake_yaml.read_text())
    keys = {name: ACCESS[name] for name in ("access_key_id", "secret_access_key")}
    lake["sources"]["shop"]["dms_task"] = {"arn": task, "endpoint": s3.endpoint, **keys}
    lake_yaml.write_text(yaml.safe_dump(lake), encoding="utf-8")
    try:
        code, printed, said = run(lake_yaml, "diff")
        assert (code, printed) == (0, "shop and shop: as lake.yaml expects\n")
        assert examined(lake_yaml) == [("shop and shop: as lake.yaml expects", None)]
        assert "note: an endpoint does not state the zone" in said
        lake["sources"]["shop"]["dms"] |= {"csv_null_value": ""}
        lake_yaml.write_text(yaml.safe_dump(lake), encoding="utf-8")
        sentence = 'csv_null_value is "" in lake.yaml, and "NULL" at the endpoint shop\n'
        assert run(lake_yaml, "diff")[:2] == (1, sentence)
        remedy = "`lake-assets dms plan --source shop` prints what lake.yaml expects of DMS."
        assert examined(lake_yaml) == [(sentence.rstrip(), remedy)]
        # The task of each table, once.
        one = lake["sources"]["shop"].pop("dms_task")
        lake["sources"]["shop"]["tables"] = {n: t | {"dms_task": one} for n, t in TABLES.items()}
        lake_yaml.write_text(yaml.safe_dump(lake), encoding="utf-8")
        assert run(lake_yaml, "diff")[:2] == (1, sentence)
        lake["sources"]["shop"] |= {"dms_task": one, "tables": TABLES}
        lake["sources"]["shop"]["dms_task"]["arn"] = task + "X"
        lake_yaml.write_text(yaml.safe_dump(lake), encoding="utf-8")
        assert "correct dms_task.arn, or its region" in run(lake_yaml, "diff")[2]
    finally:
        dms.delete_replication_task(ReplicationTaskArn=task)
        dms.delete_endpoint(EndpointArn=target)

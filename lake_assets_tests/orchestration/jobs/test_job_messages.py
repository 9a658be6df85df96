"""What runs and jobs send each other, what a service is asked for, and the section `jobs` of lake.yaml: no job runs."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.commands.package.package import project_files
from lake_assets.config.aws.jobs import EmrServerlessJobs, GlueJobs, JobKind, JobsConfig
from lake_assets.errors import ApplyConflict, LakeError, RowCountMismatch, TableStopped
from lake_assets.orchestration.jobs.job_client import emr_parameters, glue_parameters
from lake_assets.orchestration.jobs.job_messages import (
    REQUEST,
    JobRequest,
    read_error,
    read_result,
    written_error,
    written_result,
)
from lake_assets.silver.batch.result import BatchResult, TableResult
from lake_assets.silver.table.position import Position
from lake_assets_tests.helpers.files.records import logged
from lake_assets_tests.helpers.lakes.small_lakes import lake_config, small_lake

NOW = datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=UTC)
POSITION = Position(7, 2, "20261129", NOW, 1 << 62, 12, 3, NOW, 4, 5, "v: hash", "a,b")
BATCH = BatchResult(
    kind="cdc",
    strategy="append",
    reason="none",
    files=2,
    first_key="a",
    last_key=None,
    bytes=10,
    rows_counted=3,
    rows_read=3,
    by_op={"I": 3},
    keys=3,
    rows_written=3,
    rows_removed=1,
    rows_before=9,
    position=POSITION,
    schema_changes=("v was added",),
    vanished=(logged(1, "LOAD1"),),
    first_file_at=NOW,
    published_at=NOW,
    seconds={"read": 0.25},
)
EMR: dict[str, Any] = {
    "application": "00abc",
    "role": "arn:aws:iam::123456789012:role/jobs",
    "program": "s3://jobs/job.py",
    "environment": "s3://jobs/environment.tar.gz",
}


@pytest.mark.parametrize(
    "error",
    [None, TableStopped("public.items", "one, two.", "Do it."), ApplyConflict("lost"), RuntimeError("x")],
)
def test_a_turn_is_the_same_after_its_journey(tmp_path: Path, error: Exception | None) -> None:
    lake = small_lake(tmp_path)
    (target,) = lake.targets
    result = TableResult(target, [BATCH, replace(BATCH, files=3)], "waits", error, POSITION)
    sent = json.loads(json.dumps(written_result(result)))
    got = read_result(sent, {target.identifier: target})
    assert replace(got, error=None) == replace(result, error=None)
    assert str(got.error) == str(error)
    if error is not None:
        assert type(got.error) is (type(error) if isinstance(error, LakeError) else LakeError)


def test_an_error_is_of_its_own_class() -> None:
    error = RowCountMismatch("public.items", "3 rows are missing.", "Look at it.")
    got = read_error(json.loads(json.dumps(written_error(error))))
    assert type(got) is RowCountMismatch
    assert str(got) == "public.items: 3 rows are missing. Look at it."


def test_a_request_is_the_same_after_its_journey() -> None:
    for request in (
        JobRequest(tables=("silver_shop.items",), as_of=NOW),
        JobRequest(mart="daily", partitions=("2026-03-01", "2026-03-02"), run_id="r", lineage=True),
    ):
        assert REQUEST.validate_python(json.loads(REQUEST.dump_json(request))) == request


def test_a_job_of_emr_serverless_is_as_large_as_its_kind() -> None:
    jobs = EmrServerlessJobs(
        **EMR,
        conf={"spark.executor.memory": "2g", "spark.speculation": True},
        full_load={"spark.executor.memory": "8g", "spark.driver.extraJavaOptions": "-Da=1 -Db=2"},
    )
    load = emr_parameters(jobs, JobKind.FULL_LOAD, "t" * 300)
    changes = emr_parameters(jobs, JobKind.CHANGES, "silver_shop.items")
    given = [job["jobDriver"]["sparkSubmit"]["sparkSubmitParameters"] for job in (load, changes)]
    assert "--conf spark.executor.memory=8g" in given[0]
    assert "--conf 'spark.driver.extraJavaOptions=-Da=1 -Db=2'" in given[0]
    assert "--conf spark.executor.memory=2g" in given[1]
    assert "--conf spark.speculation=true" in given[1]
    assert "--conf 'spark.archives=s3://jobs/environment.tar.gz#environment'" in given[1]
    assert changes["name"] == "changes: silver_shop.items"
    assert len(load["name"]) == 256
    assert (load["applicationId"], load["executionRoleArn"]) == (EMR["application"], EMR["role"])


def test_a_run_of_glue_has_the_workers_of_its_kind() -> None:
    jobs = GlueJobs.model_validate({"job": "lake", "mart": {"worker_type": "G.4X", "number": 3}})
    assert glue_parameters(jobs, JobKind.MART) == {
        "JobName": "lake",
        "WorkerType": "G.4X",
        "NumberOfWorkers": 3,
    }
    assert glue_parameters(jobs, JobKind.CHANGES) == {"JobName": "lake"}


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ({"messages": "s3://jobs"}, "needs one of emr_serverless and glue"),
        ({"messages": "s3://jobs", "glue": {"job": "a"}, "emr_serverless": EMR}, "needs one of"),
        ({"messages": "s3://jobs/messages", "glue": {"job": "a"}}, "is no bucket"),
        ({"messages": "s3://jobs", "emr_serverless": EMR | {"role": "jobs"}}, "is no role"),
        ({"messages": "s3://jobs", "emr_serverless": EMR | {"program": "job.py"}}, "is no object in S3"),
    ],
)
def test_a_mistake_is_named(jobs: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        JobsConfig.model_validate(jobs)


def test_a_continuous_run_has_no_jobs(tmp_path: Path) -> None:
    jobs = {"messages": "s3://jobs", "glue": {"job": "lake"}}
    lake_config(tmp_path, jobs=jobs)
    with pytest.raises(ValidationError, match=r"is for runs that apply tables themselves"):
        lake_config(tmp_path, jobs=jobs, automation={"continuous": True})


def test_only_the_project_is_packaged(tmp_path: Path) -> None:
    for name in (
        *("lake.yaml", "daily.sql", "marts/hourly.py", "marts/notes.txt", ".lake/catalog.yaml"),
        *("env/pyvenv.cfg", "env/lib/a.py", "build/job.py", "marts/__pycache__/hourly.py"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = {str(path.relative_to(tmp_path)) for path in project_files(tmp_path, tmp_path / "build")}
    assert found == {"lake.yaml", "daily.sql", "marts/hourly.py"}

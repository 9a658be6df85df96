"""Starts a job of EMR Serverless or Glue from a step of a run, waits for it, and returns what it has sent.

Dagster Pipes carries the request and the messages, and stops the job if the run is stopped. Here: the parameters of a
job by service and kind. Not here: the step (`job_steps.py`), the program of the job (`job_program.py`).
"""

import shlex
from collections.abc import Sequence
from typing import Any, cast

import dagster as dg
from dagster_aws.pipes import (
    PipesEMRServerlessClient,
    PipesGlueClient,
    PipesS3ContextInjector,
    PipesS3MessageReader,
)

from lake_assets.config.aws.jobs import EmrServerlessJobs, GlueJobs, JobKind, JobsConfig
from lake_assets.config.secrets import hidden_in
from lake_assets.errors import LakeError
from lake_assets.orchestration.jobs.job_messages import REQUEST, JobRequest, read_error
from lake_assets.runtime import LakeRuntime
from lake_assets.storage.aws_faults import aws_errors

POLL_SECONDS = 2
"""How often EMR Serverless is asked whether a job has ended."""
READ_SECONDS = 0.5
"""How often the bucket is asked for new messages: more often than a job writes them, so that none are left when it has
ended."""
RETRIES = {"mode": "standard", "max_attempts": 8}
NOT_SUPPORTED = "is not supported for EMR Serverless"
"""A warning of the client about readers that do not read CloudWatch; this one reads S3."""
LONGEST_NAME = 256
"""Characters of the name of a job run."""
ENVIRONMENT = "environment"
"""The folder of a job in which the packaged environment is."""


class _Context(dg.AssetExecutionContext):
    """A step's context, without Pipes' demand that the step yields each of its outputs and checks: a step of silver has
    none for a table that failed, and logs its checks (`silver_assets.py`)."""

    def set_requires_typed_event_stream(self, *, error_message: str | None = None) -> None:
        pass


class JobFailed(LakeError):
    """A job of EMR Serverless or Glue did not end well. What it had published is published."""


def run_job(
    context: dg.AssetExecutionContext,
    runtime: LakeRuntime,
    jobs: JobsConfig,
    kind: JobKind,
    request: JobRequest,
) -> list[dict[str, Any]]:
    """The messages of the job. Raises the job's own error, and JobFailed if the job could not send all of them."""
    s3 = runtime.aws.client("s3", jobs)
    reader = PipesS3MessageReader(bucket=jobs.bucket, client=s3, interval=READ_SECONDS)
    # By a RuntimeError, the clients say that the job has failed.
    failures: tuple[type[Exception], ...] = (RuntimeError, *aws_errors())
    extras = {"request": REQUEST.dump_python(request, mode="json")}
    try:
        if jobs.glue is not None:
            glue = runtime.aws.client("glue", jobs, retries=RETRIES)
            client: Any = PipesGlueClient(PipesS3ContextInjector(bucket=jobs.bucket, client=s3), reader, glue)
            parameters = glue_parameters(jobs.glue, kind)
        else:
            assert jobs.emr_serverless is not None, "one of both is configured"
            service = _WithoutDashboard(runtime.aws.client("emr-serverless", jobs, retries=RETRIES))
            client = PipesEMRServerlessClient(
                cast("Any", service), message_reader=reader, poll_interval=POLL_SECONDS
            )
            context.log.addFilter(lambda record: NOT_SUPPORTED not in record.getMessage())
            name = request.mart or ", ".join(request.tables)
            parameters = emr_parameters(jobs.emr_serverless, kind, name)
        own = _Context(context.op_execution_context)
        done = client.run(context=own, start_job_run_params=parameters, extras=extras)
    except failures as error:
        said = hidden_in(runtime.lake, " ".join(str(error).split()).rstrip(":. "))
        raise JobFailed(f"{said}. The run's log names the job, whose own log has the cause.") from None
    messages: Sequence[dict[str, Any]] = done.get_custom_messages()
    for message in messages:
        if "error" in message:
            raise read_error(message["error"])
    if not messages or messages[-1] != {"sent": len(messages) - 1}:
        raise JobFailed(
            "The job has ended, and not all of its messages arrived. What it has published is there."
        )
    return list(messages[:-1])


class _WithoutDashboard:
    """The service's client. Pipes would log the address of a job's Spark UI, which is signed: whoever reads the log
    could open it."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_dashboard_for_job_run(self, **_: str) -> str:
        return "in the console of EMR Serverless"


def emr_parameters(jobs: EmrServerlessJobs, kind: JobKind, name: str) -> dict[str, Any]:
    """The parameters of `StartJobRun` of EMR Serverless."""
    python = f"./{ENVIRONMENT}/bin/python"
    settings = {
        "spark.archives": f"{jobs.environment}#{ENVIRONMENT}",
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": python,
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": python,
        "spark.executorEnv.PYSPARK_PYTHON": python,
        "spark.emr-serverless.driverEnv.LAKE_CONFIG": f"./{ENVIRONMENT}/project/lake.yaml",
        **jobs.settings(kind),
    }
    return {
        "applicationId": jobs.application,
        "executionRoleArn": jobs.role,
        "name": f"{kind}: {name}"[:LONGEST_NAME],
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": jobs.program,
                "sparkSubmitParameters": " ".join(
                    f"--conf {shlex.quote(f'{key}={value}')}" for key, value in settings.items()
                ),
            }
        },
    }


def glue_parameters(jobs: GlueJobs, kind: JobKind) -> dict[str, Any]:
    """The parameters of `StartJobRun` of Glue."""
    workers = jobs.workers(kind)
    size = {} if workers is None else {"WorkerType": workers.worker_type, "NumberOfWorkers": workers.number}
    return {"JobName": jobs.job, **size}

"""Jobs of AWS's services, EMR Serverless or Glue, that do the work of Dagster's runs.

Not here: starting them (`orchestration/jobs/job_client.py`), or the program that they run
(`orchestration/jobs/job_program.py`).
"""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from lake_assets.config.aws.access import AwsAccess, RoleArn
from lake_assets.config.base import Model, matching, refuse, setting_text

InS3 = Annotated[str, matching(r"s3://[^/]+/.+", "is no object in S3: write s3://BUCKET/KEY")]
SparkSettings = dict[str, str | int | float | bool]


class JobKind(StrEnum):
    """What a job does, by which it gets its size."""

    FULL_LOAD = "full_load"
    """Applies tables, one of which has a full load to be applied."""
    CHANGES = "changes"
    """Applies tables that have changes only."""
    MART = "mart"


class EmrServerlessJobs(Model):
    """Job runs of an application of EMR Serverless; `lake-assets package` builds `program` and `environment`."""

    application: str
    """The application's id."""
    role: RoleArn
    """The role with which the jobs read and write the lake."""
    program: InS3
    """The object `job.py`."""
    environment: InS3
    """The object `environment.tar.gz`."""
    conf: SparkSettings = Field(default_factory=dict)
    """Spark settings of every job."""
    full_load: SparkSettings = Field(default_factory=dict)
    """Further Spark settings of a job that applies a full load."""
    changes: SparkSettings = Field(default_factory=dict)
    """Further Spark settings of a job that applies changes only."""
    mart: SparkSettings = Field(default_factory=dict)
    """Further Spark settings of a job that computes a mart."""

    def settings(self, kind: JobKind) -> dict[str, str]:
        """The Spark settings of a job, as texts."""
        own = {**self.conf, **getattr(self, kind.value)}
        return {name: setting_text(value) for name, value in own.items()}


class GlueWorkers(Model):
    """The workers of a run of a Glue job."""

    worker_type: str
    """Such as `G.1X`."""
    number: int = Field(ge=2)


class GlueJobs(Model):
    """Runs of a Glue job whose script is `job.py` of `lake-assets package`."""

    job: str
    """The job's name."""
    full_load: GlueWorkers | None = None
    """The workers of a run that applies a full load; by default those of the job."""
    changes: GlueWorkers | None = None
    """The workers of a run that applies changes only."""
    mart: GlueWorkers | None = None
    """The workers of a run that computes a mart."""

    def workers(self, kind: JobKind) -> GlueWorkers | None:
        found: GlueWorkers | None = getattr(self, kind.value)
        return found


class JobsConfig(AwsAccess):
    """The service whose jobs apply tables and compute marts for Dagster's runs, and how it is reached."""

    messages: Annotated[str, matching(r"s3://[^/]+/?", "is no bucket: write s3://BUCKET")]
    """The bucket through which a run and its job exchange messages. Its objects are needed only while the job runs."""
    emr_serverless: EmrServerlessJobs | None = None
    glue: GlueJobs | None = None

    @property
    def bucket(self) -> str:
        return self.messages.removeprefix("s3://").rstrip("/")

    @model_validator(mode="after")
    def _one_service(self) -> Self:
        if (self.emr_serverless is None) == (self.glue is None):
            refuse([((), "needs one of emr_serverless and glue")])
        return self

"""The lake as Dagster resources: `lake`, `pyspark`, `s3` and `secretsmanager`, for any asset of the project.

Here: the resources that an asset requests by parameters of these names. Not here: IO managers (`io_managers/`). No
field of a resource has a secret, because Dagster shows the fields in its UI: a resource finds its lake by its file.
"""

import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import dagster as dg
from dagster_aws.s3 import S3Resource
from dagster_aws.secretsmanager import SecretsManagerResource
from dagster_pyspark import LazyPySparkResource
from pydantic import Field
from pyiceberg.catalog import Catalog

from lake_assets.bronze.log.file_log import FileLog
from lake_assets.config import LakeConfig, S3Config
from lake_assets.config.config_file import load_lake
from lake_assets.config.secrets import shown
from lake_assets.lake import open_runtime
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.session import SparkSessions
from lake_assets.storage.object_store import s3_client

_opened: WeakValueDictionary[str, LakeRuntime] = WeakValueDictionary()
"""The lakes whose definitions this process has loaded, by their files."""
_kept: list[LakeRuntime] = []
"""The lakes that only resources have opened."""


class LakeResource(dg.ConfigurableResource[None]):
    """A lake: its catalog, its log of files, and its Spark sessions, each opened on first use."""

    file: str = Field(default="lake.yaml", description="The lake.yaml of the lake.")

    @property
    def runtime(self) -> LakeRuntime:
        """The runtime of the lake's own assets, if this process has loaded their definitions; else one of its own."""
        found = _opened.get(self.file)
        if found is None:
            found = _opened[self.file] = open_runtime(load_lake(Path(self.file)))
            _kept.append(found)
        return found

    @property
    def catalog(self) -> Catalog:
        """PyIceberg's catalog of the lake's tables. Raises CatalogUnavailable."""
        return self.runtime.catalog

    @property
    def file_log(self) -> FileLog:
        """The log of all DMS files, with their offsets."""
        return self.runtime.file_log

    @property
    def sessions(self) -> SparkSessions:
        """`root()` is the shared session, and `isolated()` one with temporary views and settings of its own."""
        return self.runtime.sessions


class LakePySparkResource(LazyPySparkResource):
    """dagster-pyspark's lazy resource with the lake's shared session: in this process, or by Spark Connect."""

    lake: dg.ResourceDependency[LakeResource]
    spark_config: dict[str, Any] = Field(
        default={}, description="spark.conf of lake.yaml, which is where to change it."
    )

    @property
    def spark_session(self) -> Any:
        """The session. Raises PreflightError without a supported Java, or without a server."""
        return self.lake.sessions.root()

    @property
    def spark_context(self) -> Any:
        """Raises PySpark's own error on Spark Connect, which has none."""
        return self.spark_session.sparkContext


class LakeS3Resource(S3Resource):
    """dagster-aws's resource with the access that a source of the lake has: its region, address, profile, role and
    keys. A field of these that is set replaces the source's; a profile or keys replace the source's profile and keys.
    Retries and SSL are the lake's."""

    lake: dg.ResourceDependency[LakeResource]
    source: str | None = Field(default=None, description="The source of lake.yaml whose access it has.")
    role_arn: str | None = Field(default=None, description="A role that is assumed.")

    def get_client(self) -> Any:
        """A new client with the present keys: keys may be rotated, and those of a role expire. Raises
        SecretUnavailable, RoleRefused, and ValueError for one key without the other."""
        runtime = self.lake.runtime
        access = runtime.lake.sources[self.source].s3 if self.source is not None else S3Config()
        keys = {
            "profile": None if self.aws_access_key_id else self.profile_name,
            "access_key_id": self.aws_access_key_id,
            "secret_access_key": self.aws_secret_access_key,
            "session_token": self.aws_session_token,
        }
        own = {"region": self.region_name, "endpoint": self.endpoint_url, "role_arn": self.role_arn}
        given: dict[str, str | None] = {name: value for name, value in own.items() if value}
        if any(keys.values()):
            given |= {name: value or None for name, value in keys.items()}
        return s3_client(S3Config.model_validate({**dict(access), **given}), runtime.aws)


class LakeSecretsManagerResource(SecretsManagerResource):
    """dagster-aws's resource with the access of the section `secrets` of lake.yaml."""

    lake: dg.ResourceDependency[LakeResource]

    def get_client(self) -> Any:
        """The client with which the lake reads its own secrets."""
        return self.lake.runtime.aws.secrets_manager()

    def value(self, name: str, key: str | None = None) -> str:
        """A secret, or a key of its JSON, as `${secret:NAME:key}` in lake.yaml; it is hidden in the lake's messages.
        Raises SecretUnavailable."""
        return self.lake.runtime.aws.secrets.value(name, key)


def lake_resources(runtime: LakeRuntime, file: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The resources of a lake by key. `given`: resources that replace them; None leaves one out. The lake itself also
    uses the given `s3` and `secretsmanager`."""
    # dagster-aws's resource for secrets is in beta.
    warnings.filterwarnings("ignore", category=dg.BetaWarning, message=".*SecretsManagerResource.*")
    _opened[file] = runtime
    config, lake = runtime.lake, LakeResource(file=file)
    secrets = config.secrets
    found: dict[str, Any] = {
        "lake": lake,
        "pyspark": LakePySparkResource(lake=lake, spark_config=shown(config.spark.conf)),
        **_of_s3(config, lake),
        "secretsmanager": LakeSecretsManagerResource(
            lake=lake,
            region_name=secrets.region,
            endpoint_url=secrets.endpoint,
            profile_name=secrets.profile,
        ),
    }
    for service in ("s3", "secretsmanager"):
        if (own := (given or {}).get(service)) is not None:
            runtime.aws.use(service, partial(_client_of, own))
    return {**found, **(given or {})}


def _client_of(resource: Any) -> Any:
    """The client of a user's resource for a service of AWS."""
    return resource.process_config_and_initialize().get_client()


def _of_s3(config: LakeConfig, lake: LakeResource) -> dict[str, LakeS3Resource]:
    """`s3` for the first source in S3, and `s3_<source>` for each other one."""
    sources = [name for name, source in config.sources.items() if source.location.startswith("s3")]
    found = {"s3": _s3(config, lake, sources[0] if sources else None)}
    return found | {f"s3_{name}": _s3(config, lake, name) for name in sources[1:]}


def _s3(config: LakeConfig, lake: LakeResource, source: str | None) -> LakeS3Resource:
    access = config.sources[source].s3 if source is not None else S3Config()
    return LakeS3Resource(
        lake=lake,
        source=source,
        region_name=access.region,
        endpoint_url=access.endpoint,
        profile_name=access.profile,
        role_arn=access.role_arn,
    )

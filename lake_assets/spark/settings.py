"""Settings that Spark is started with: those of lake.yaml, and those that the engine relies on.

Here: the settings of a lake. Not here: which jars (`jars.py`), sessions (`session.py`), a Spark Connect server
(`connect_server.py`).
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from lake_assets.config import LakeConfig, S3Config
from lake_assets.config.aws.secret_references import Value, with_values
from lake_assets.config.base import setting_text
from lake_assets.config.spark import EXACT, OF_SESSIONS
from lake_assets.spark.catalog_conf import spark_catalog_conf
from lake_assets.spark.jars import S3_EXCLUDES, packages, uses_s3

CLASS_ARCHIVE = Path(sys.prefix) / "spark_classes.jsa"
"""Classes of Spark in the form in which Java loads them fastest, as `fetch.py` has written them."""
CHEAP_PROCESSES = "-Djdk.lang.Process.launchMechanism=VFORK"
"""Hadoop's local file system starts `chmod` three times for each file. By default, Java needs two processes for each
start."""
FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
"""Java uses only its first compiler. Its code is slower, but the second compiler takes half of the processor time in
Spark's first minute."""
STARTED_WITH = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    # Of compiled code, Spark keeps 100 pieces by default. A round over a few tables has more, and each round would
    # compile all of them again.
    "spark.sql.codegen.cache.maxEntries": "2000",
}
"""Settings of Spark SQL that a session cannot change."""
FAIR_POOLS = Path(__file__).with_name("fair_pools.xml")


DECIDED_BY_SUBMIT = (
    "spark.master",
    "spark.app.name",
    "spark.driver.",
    "spark.executor.",
    "spark.jars",
    "spark.ui.",
    "spark.log.level",
    "spark.authenticate",
)
"""Beginnings of the names of settings that a process which `spark-submit` has started takes from there."""


def is_submitted() -> bool:
    """Whether `spark-submit`, or a service that does the same (Amazon EMR, EMR Serverless, AWS Glue), has started this
    process. Its Spark then runs already, with the master, the memory and the jars that it was given."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def spark_conf(lake: LakeConfig, *, brief: bool = False) -> dict[str, str]:
    """All settings of the session. Those of `spark.conf` in lake.yaml win; its jars are added to the lake's. `brief`:
    for a process that reads few rows and ends; Java's second compiler would cost it more than it gains. Without the
    settings of DECIDED_BY_SUBMIT in a process that `spark-submit` has started."""
    conf = {
        "spark.master": lake.spark.master,
        "spark.app.name": "lake_assets",
        **STARTED_WITH,
        **EXACT,
        # Batches are small: two hundred shuffle partitions would cost more than the work.
        "spark.sql.shuffle.partitions": "4",
        # Listing the paths of a batch as a Spark job of its own costs more than listing them here.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
        # Java never compiles a method of more than 8,000 bytes. Beyond that, Spark is faster without whole-stage code.
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # Recording the source line of every expression doubles the time to build a plan.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": f"file://{FAIR_POOLS.as_posix()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "2g",
        **spark_catalog_conf(lake.catalog),
    }
    if lake.spark.master.startswith("local"):
        # Spark's own two ports would listen on the machine's address, and let anybody in.
        conf |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.authenticate": "true",
        }
    if lake.spark.mode == "embedded":
        # An embedded Spark has work for minutes at most, and Java's default collector would take a larger share of
        # them.
        conf["spark.driver.extraJavaOptions"] = "-XX:+UseParallelGC" + (f" {FIRST_COMPILER}" if brief else "")
    # Pairs, because sources may share a bucket, and only one of them may have its S3 settings.
    buckets = [
        (source.location.removeprefix("s3://").split("/")[0], source.s3)
        for source in lake.sources.values()
        if source.location.startswith("s3://")
    ]
    if uses_s3(lake):
        conf["spark.jars.excludes"] = S3_EXCLUDES
    for bucket, s3 in buckets:
        conf |= _s3a_conf(bucket, s3)
    sts = _sts_options([s3 for _, s3 in buckets if s3.role_arn])
    if sts:
        conf["spark.executor.defaultJavaOptions"] = sts
    conf["spark.driver.defaultJavaOptions"] = f"{CHEAP_PROCESSES} {class_archive_options()} {sts}".strip()
    conf |= {key: setting_text(value) for key, value in lake.spark.conf.items()}
    if jars := packages(lake):
        conf["spark.jars.packages"] = ",".join(jars)
    if lake.spark.mode == "embedded" and is_submitted():
        conf = {key: value for key, value in conf.items() if not key.startswith(DECIDED_BY_SUBMIT)}
    return conf


def _s3a_conf(bucket: str, s3: S3Config) -> dict[str, str]:
    prefix = f"spark.hadoop.fs.s3a.bucket.{bucket}"
    conf = {}
    if s3.endpoint:
        conf[f"{prefix}.endpoint"] = s3.endpoint
        conf[f"{prefix}.connection.ssl.enabled"] = str(s3.endpoint.startswith("https")).lower()
    if s3.region:
        conf[f"{prefix}.endpoint.region"] = s3.region
    if s3.path_style:
        conf[f"{prefix}.path.style.access"] = "true"
    provider = None
    if s3.access_key_id and s3.secret_access_key:
        conf[f"{prefix}.access.key"] = s3.access_key_id.get_secret_value()
        conf[f"{prefix}.secret.key"] = s3.secret_access_key.get_secret_value()
        provider = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
    if s3.session_token:
        conf[f"{prefix}.session.token"] = s3.session_token.get_secret_value()
        provider = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
    if s3.profile:
        conf[f"{prefix}.auth.profile.name"] = s3.profile
        provider = "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider"
    if s3.role_arn:
        conf |= _role_conf(f"{prefix}.assumed.role", s3, provider)
        provider = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"
    return conf | ({f"{prefix}.aws.credentials.provider": provider} if provider else {})


def _role_conf(prefix: str, s3: S3Config, provider: str | None) -> dict[str, str]:
    conf = {f"{prefix}.arn": s3.role_arn or "", f"{prefix}.session.name": "lake_assets"}
    # By default, Hadoop takes keys from the settings or the environment, but from no instance and no container.
    chain = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
    conf[f"{prefix}.credentials.provider"] = provider or chain
    return conf


def _sts_options(with_role: Sequence[S3Config]) -> str:
    """Where roles are assumed, as properties of the JVM: Hadoop's own settings for that need a class of S3_EXCLUDES.
    The region is that of the request for the role; the role is good for all regions."""
    regions = [s3.region for s3 in with_role if s3.region]
    endpoints = [s3.sts_endpoint for s3 in with_role if s3.sts_endpoint]
    given = [f"-Daws.region={region}" for region in regions[:1]]
    given += [f"-Daws.endpointUrlSts={endpoint}" for endpoint in endpoints[:1]]
    return " ".join(given)


def class_archive_options() -> str:
    """The options by which Java takes the archive, if there is one. Java silently ignores an archive of another Java or
    of other jars."""
    return f"-XX:SharedArchiveFile={CLASS_ARCHIVE} -Xlog:disable" if CLASS_ARCHIVE.exists() else ""


def filled(lake: LakeConfig, value: Value) -> LakeConfig:
    """The lake with values instead of references, in what Spark needs of it."""
    sources = {
        name: source.model_copy(update={"s3": with_values(source.s3, value)})
        for name, source in lake.sources.items()
    }
    catalog, spark = with_values(lake.catalog, value), with_values(lake.spark, value)
    return lake.model_copy(update={"catalog": catalog, "spark": spark, "sources": sources})


def session_conf(lake: LakeConfig) -> dict[str, str]:
    """The settings that a session can set on a Spark that was started with other ones."""
    conf = {key.removeprefix("spark.hadoop."): value for key, value in spark_conf(lake).items()}
    return {
        key: value
        for key, value in conf.items()
        if key.startswith(("spark.sql.", "fs.")) and key not in STARTED_WITH
    }


def cluster_conf(lake: LakeConfig) -> dict[str, str]:
    """The settings that a session of EMR is started with. EMR shows them to whoever may describe it, so the catalog and
    the access to buckets, which may have keys, are not among them: each session of Spark Connect sets them."""
    own = {
        key: setting_text(value) for key, value in lake.spark.conf.items() if not key.startswith(OF_SESSIONS)
    }
    conf = {**STARTED_WITH, **own}
    if jars := packages(lake):
        conf["spark.jars.packages"] = ",".join(jars)
    return conf | ({"spark.jars.excludes": S3_EXCLUDES} if uses_s3(lake) else {})

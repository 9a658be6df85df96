"""What Spark is started with. Not here: what the settings do."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lake_assets.config import LakeConfig, S3Config, SourceConfig
from lake_assets.spark import settings
from lake_assets.spark.jars import S3_EXCLUDES, SQLITE_JDBC, iceberg_jar, s3_jars
from lake_assets.spark.settings import spark_conf
from lake_assets_tests.helpers.lakes.small_lakes import lake_config

OPTIONS = "spark.driver.extraJavaOptions"
JARS = "spark.jars.packages"
ROLE = "arn:aws:iam::123456789012:role/spark-reader"


def jars(folder: Path, **sections: Any) -> list[str]:
    return spark_conf(lake_config(folder, **sections))[JARS].split(",")


def test_jars_of_ones_own_come_on_top(tmp_path: Path) -> None:
    own = f"org.postgresql:postgresql:42.7.4, {iceberg_jar()}"
    found = jars(tmp_path, spark={"conf": {JARS: own}})
    assert found == [iceberg_jar(), SQLITE_JDBC, "org.postgresql:postgresql:42.7.4"]


def test_another_version_of_a_jar_takes_its_place(tmp_path: Path) -> None:
    found = jars(tmp_path, spark={"conf": {JARS: "org.xerial:sqlite-jdbc:3.99.0"}})
    assert found == [iceberg_jar(), "org.xerial:sqlite-jdbc:3.99.0"]


@pytest.mark.parametrize(
    "sections",
    [
        {"source": {"location": "s3://bucket/dms"}},
        {"catalog": {"type": "glue", "warehouse": "s3://bucket/warehouse"}},
    ],
    ids=["files", "tables"],
)
def test_what_is_in_s3_needs_its_jars(tmp_path: Path, sections: dict[str, Any]) -> None:
    assert set(s3_jars()) < set(jars(tmp_path, **sections))
    assert spark_conf(lake_config(tmp_path, **sections))["spark.jars.excludes"] == S3_EXCLUDES
    assert not set(s3_jars()) & set(jars(tmp_path))


def test_a_role_needs_no_further_jar(tmp_path: Path) -> None:
    """Hadoop refuses a region of STS without its endpoint, and needs AWS's whole bundle for an endpoint."""
    access = {"role_arn": ROLE, "region": "eu-west-1"}
    conf = spark_conf(lake_config(tmp_path, source={"location": "s3://bucket/dms", "s3": access}))
    assert conf["spark.jars.excludes"] == S3_EXCLUDES
    prefix = "spark.hadoop.fs.s3a.bucket.bucket"
    assert conf[f"{prefix}.assumed.role.arn"] == ROLE
    assert conf[f"{prefix}.aws.credentials.provider"].endswith(".AssumedRoleCredentialProvider")
    assert not [key for key in conf if "sts.endpoint" in key]
    for process in ("driver", "executor"):
        assert conf[f"spark.{process}.defaultJavaOptions"].endswith("-Daws.region=eu-west-1")


@pytest.mark.parametrize("archive", ["there", "broken", "missing"])
def test_java_takes_an_archive_of_classes_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: str
) -> None:
    """Java prints nothing about one that it cannot use."""
    path = tmp_path / "classes.jsa"
    monkeypatch.setattr(settings, "CLASS_ARCHIVE", path)
    if archive == "there":
        java(f"-XX:ArchiveClassesAtExit={path}", "-Xlog:disable", "-version")
        assert path.exists()
    if archive == "broken":
        path.write_text("no archive")
    options = spark_conf(lake_config(tmp_path)).get("spark.driver.defaultJavaOptions", "").split()
    assert any(str(path) in option for option in options) == (archive != "missing")
    # The logging of loaded classes comes after -Xlog:disable, which would switch it off.
    loaded = java(*options, "-Xlog:class+load", "-version").splitlines()
    assert any("shared objects file (top)" in line for line in loaded) == (archive == "there")
    assert not [line for line in loaded if "[class,load]" not in line and "source:" not in line]


def java(*options: str) -> str:
    """The standard output of Java, whose version is on the other one."""
    program = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else "java"
    return subprocess.run([program, *options], check=True, capture_output=True, text=True).stdout


def test_only_a_brief_process_goes_without_the_second_compiler(tmp_path: Path) -> None:
    def compiler(*, brief: bool, **spark: Any) -> bool:
        conf = spark_conf(lake_config(tmp_path, spark={"conf": {}} | spark), brief=brief)
        return settings.FIRST_COMPILER in conf.get(OPTIONS, "")

    assert [compiler(brief=brief) for brief in (False, True)] == [False, True]
    assert not compiler(brief=True, conf={OPTIONS: "-Xss2m"})
    assert not compiler(brief=True, mode="connect", remote="sc://spark:15002")


def test_roles_of_two_sources_have_one_sts(tmp_path: Path) -> None:
    lake = lake_config(tmp_path, source={"location": "s3://one/dms", "s3": {"role_arn": ROLE}})
    other = lake.sources["shop"].model_copy(update={"location": "s3://two/dms"})
    apart = other.model_copy(update={"s3": S3Config(role_arn=ROLE, sts_endpoint="https://sts.internal")})

    def with_second(source: SourceConfig) -> LakeConfig:
        return LakeConfig.model_validate(dict(lake) | {"sources": {**lake.sources, "more": source}})

    assert set(with_second(other).sources) == {"shop", "more"}
    with pytest.raises(ValidationError, match="differs from that of shop"):
        with_second(apart)


def test_sources_that_share_a_bucket_share_its_settings(tmp_path: Path) -> None:
    config = lake_config(tmp_path, source={"location": "s3://bucket/one", "s3": {"region": "eu-west-1"}})
    other = config.sources["shop"].model_copy(update={"location": "s3://bucket/two", "s3": S3Config()})
    both = config.model_copy(update={"sources": {**config.sources, "other": other}})
    assert spark_conf(both)["spark.hadoop.fs.s3a.bucket.bucket.endpoint.region"] == "eu-west-1"


def test_the_pools_are_found_by_a_path_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark takes escapes literally."""
    monkeypatch.setattr(settings, "FAIR_POOLS", Path("/home/José Díaz/fair_pools.xml"))
    assert (
        spark_conf(lake_config(tmp_path))["spark.scheduler.allocation.file"]
        == "file:///home/José Díaz/fair_pools.xml"
    )


@pytest.mark.parametrize(("version", "iceberg"), [("4.0.2", "4.0_2.13:1.11.0"), ("4.1.4", "4.1_2.13:1.12.0")])
def test_jars_are_those_of_the_installed_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, iceberg: str
) -> None:
    monkeypatch.setattr("pyspark.version.__version__", version)
    assert jars(tmp_path) == [f"org.apache.iceberg:iceberg-spark-runtime-{iceberg}", SQLITE_JDBC]


def test_jars_that_are_there_are_not_fetched(tmp_path: Path) -> None:
    in_s3 = {"location": "s3://bucket/dms"}
    assert JARS not in spark_conf(lake_config(tmp_path, source=in_s3, spark={"jars": "provided"}))
    own = {"jars": "provided", "conf": {JARS: "com.mysql:mysql-connector-j:9.4.0"}}
    assert jars(tmp_path, source=in_s3, spark=own) == ["com.mysql:mysql-connector-j:9.4.0"]

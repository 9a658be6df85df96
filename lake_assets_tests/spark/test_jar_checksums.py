"""The jars are those that were released: each that the lake asks for is in the list, and another is refused."""

from pathlib import Path
from zipfile import ZipFile

import pytest
from pyspark.sql import SparkSession

from lake_assets.spark import jars
from lake_assets.spark.fetch import CHECKSUMS, WrongJar, verify, write_checksums


@pytest.mark.parametrize("spark", ["4.0", "4.1"])
def test_every_jar_is_in_the_list(spark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_spark", lambda: spark)
    listed = CHECKSUMS.read_text(encoding="ascii")
    for coordinates in jars.every_jar().split(","):
        group, artifact, version = coordinates.split(":")
        assert f"  {group}_{artifact}-{version}.jar\n" in listed


def test_there_is_one_version_of_the_sdk_of_aws(spark: SparkSession) -> None:
    """An executor has the jars in any order; of two versions it took classes that did not fit each other."""
    files = [Path(jar.removeprefix("file://")) for jar in (spark.conf.get("spark.jars") or "").split(",")]
    (bundle,) = (file for file in files if "iceberg-aws-bundle" in file.name)
    own = {jar.rpartition(":")[2] for jar in jars.s3_jars() if jar.startswith("software.amazon.awssdk:")}
    (version,) = own
    with ZipFile(bundle) as content:
        assert version.encode() in content.read("software/amazon/awssdk/core/util/VersionInfo.class")
    of_sdk = [file for file in files if file.name.startswith("software.amazon.awssdk_")]
    assert of_sdk
    assert [file.name for file in of_sdk if not file.name.endswith(f"-{version}.jar")] == []


def test_a_jar_that_is_not_the_one_that_was_released(tmp_path: Path) -> None:
    jar, listed = tmp_path / "a_b-1.jar", tmp_path / "jars.sha256"
    jar.write_bytes(b"released")
    with pytest.raises(
        WrongJar, match=r"a_b-1\.jar: its SHA-256 is not in the list \(jars\.sha256\): delete it"
    ):
        verify([jar], listed)
    write_checksums([jar], listed)
    verify([jar], listed)
    jar.write_bytes(b"something else")
    with pytest.raises(WrongJar, match=r"its SHA-256 is \w{64}, and \w{64} is expected"):
        verify([jar], listed)


def test_the_list_keeps_the_jars_of_other_versions(tmp_path: Path) -> None:
    listed = tmp_path / "jars.sha256"
    for number in (1, 2):
        jar = tmp_path / f"a_b-{number}.jar"
        jar.write_bytes(b"released")
        write_checksums([jar], listed)
    assert [line.split("  ")[1] for line in listed.read_text().splitlines()] == ["a_b-1.jar", "a_b-2.jar"]

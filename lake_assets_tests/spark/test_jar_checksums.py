"""The jars are those that were released: each that the lake asks for is in the list, and another is refused."""

from pathlib import Path

import pytest

from lake_assets.spark import jars
from lake_assets.spark.fetch import CHECKSUMS, WrongJar, verify, write_checksums


@pytest.mark.parametrize("spark", ["4.0", "4.1"])
def test_every_jar_is_in_the_list(spark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_spark", lambda: spark)
    listed = CHECKSUMS.read_text(encoding="ascii")
    for coordinates in jars.every_jar().split(","):
        group, artifact, version = coordinates.split(":")
        assert f"  {group}_{artifact}-{version}.jar\n" in listed


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

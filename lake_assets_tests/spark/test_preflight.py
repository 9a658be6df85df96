"""What a person reads on a machine that lacks something."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lake_assets.spark.preflight import PreflightError, check_java, check_port, java_feature

INSTALLED = sorted(Path("/usr/lib/jvm").glob("*/bin/java"))
"""Where Debian and its relatives keep theirs."""


def fake_java(folder: Path, *, stderr: str, exit_code: int = 0) -> Path:
    """A program called java in `folder` that prints to stderr what the real one does."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "said").write_text(stderr)
    java = folder / "java"
    java.write_text(
        f"#!/bin/sh\nwhile IFS= read -r line; do echo \"$line\" >&2; done < '{folder}/said'\nexit {exit_code}\n"
    )
    java.chmod(0o755)
    return java


def openjdk(version: str) -> str:
    return f'openjdk version "{version}" 2025-04-15\nOpenJDK Runtime Environment (build {version})\n'


def sentence(environ: dict[str, str]) -> str:
    with pytest.raises(PreflightError) as caught:
        check_java(environ)
    text = str(caught.value)
    assert text.endswith(".")
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("version", "feature"),
    [
        ("1.8.0_392", 8),
        ("9", 9),
        ("11.0.2", 11),
        ("17.0.15", 17),
        ("17", 17),
        ("21-ea", 21),
        ("21.0.1+12-LTS", 21),
        ("25.0.3", 25),
        ("170.1", 170),
        ("", None),
        ("unknown", None),
    ],
)
def test_feature_release(version, feature):
    assert java_feature(version) == feature


@pytest.mark.parametrize(
    "said",
    [
        openjdk("17.0.15"),
        openjdk("21.0.4"),
        openjdk("21-ea"),
        'java version "17.0.12" 2024-07-16 LTS\nJava(TM) SE Runtime Environment\n',
        'Picked up JAVA_TOOL_OPTIONS: -Xmx1g -Dlang="en"\n' + openjdk("17.0.15"),
        'Picked up _JAVA_OPTIONS: version "11"\n' + openjdk("17.0.15"),
        'openjdk version "17.0.15-internal" 2025-04-15\n',
    ],
)
def test_supported_java(tmp_path, said):
    fake_java(tmp_path, stderr=said)
    check_java({"PATH": str(tmp_path)})


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "22", "25.0.3"])
def test_another_version_is_named_with_its_place(tmp_path, version):
    java = fake_java(tmp_path, stderr=openjdk(version))
    assert sentence({"PATH": str(tmp_path)}) == (
        f"{java} (from PATH) is Java {version}, and Spark 4 needs Java 17 or 21: install OpenJDK 17, for example "
        "with `apt-get install openjdk-17-jre-headless`, and point JAVA_HOME to it."
    )


def test_no_java(tmp_path):
    text = sentence({"PATH": str(tmp_path)})
    assert text.startswith("No Java found on PATH, and JAVA_HOME is not set: install OpenJDK 17")
    assert "apt-get install openjdk-17-jre-headless" in text
    assert sentence({"PATH": str(tmp_path), "JAVA_HOME": ""}) == text
    assert sentence({"PATH": ""}) == text


def test_java_home_wins_over_path(tmp_path):
    fake_java(tmp_path / "path", stderr=openjdk("17.0.15"))
    java = fake_java(tmp_path / "home" / "bin", stderr=openjdk("11.0.2"))
    text = sentence({"PATH": str(tmp_path / "path"), "JAVA_HOME": str(tmp_path / "home")})
    assert text.startswith(f"{java} (from JAVA_HOME) is Java 11.0.2,")


def test_java_home_without_java(tmp_path):
    fake_java(tmp_path / "path", stderr=openjdk("17.0.15"))
    text = sentence({"PATH": str(tmp_path / "path"), "JAVA_HOME": str(tmp_path / "gone")})
    assert text.startswith(f"JAVA_HOME is {tmp_path / 'gone'}, but there is no bin/java in it: point it to")


def test_java_home_that_names_the_bin_folder(tmp_path):
    fake_java(tmp_path / "home" / "bin", stderr=openjdk("17.0.15"))
    text = sentence({"PATH": "", "JAVA_HOME": str(tmp_path / "home" / "bin")})
    assert "but there is no bin/java in it" in text


def test_java_that_is_only_a_signpost(tmp_path):
    java = fake_java(
        tmp_path,
        stderr="The operation couldn't be completed. Unable to locate a Java Runtime.\n",
        exit_code=1,
    )
    text = sentence({"PATH": str(tmp_path)})
    assert text.startswith(f"{java} (from PATH) is no working Java (The operation couldn't be completed.")


def test_java_that_says_nothing(tmp_path):
    fake_java(tmp_path, stderr="", exit_code=3)
    assert "is no working Java (exit code 3): install OpenJDK 17" in sentence({"PATH": str(tmp_path)})


def test_java_that_fails_after_its_version(tmp_path):
    fake_java(tmp_path, stderr=openjdk("17.0.15"), exit_code=1)
    assert "is no working Java (openjdk version" in sentence({"PATH": str(tmp_path)})


def test_java_that_cannot_be_executed(tmp_path):
    (tmp_path / "java").write_bytes(b"\x00\x01")
    (tmp_path / "java").chmod(0o755)
    assert "(from PATH) does not run (" in sentence({"PATH": str(tmp_path)})


@pytest.mark.skipif(not INSTALLED, reason="no Java in Debian's place for it")
@pytest.mark.parametrize("java", INSTALLED, ids=lambda java: java.parts[-3])
def test_installed_java(java):
    home = java.parent.parent
    release = home / "release"
    if not release.exists():
        pytest.skip(f"{home} says nothing about its version")
    feature = java_feature(release.read_text().split('JAVA_VERSION="')[1].split('"')[0])
    environ = {**os.environ, "JAVA_HOME": str(home)}
    if feature in (17, 21):
        check_java(environ)
    else:
        assert f"(from JAVA_HOME) is Java {feature}." in sentence(environ)


# --- ports


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_free_port(taken):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        free = other.getsockname()[1]
    check_port(free, "the Dagster UI")
    check_port(0, "the Dagster UI")


def test_taken_port(taken):
    with pytest.raises(PreflightError) as caught:
        check_port(taken, "the Dagster UI", flag="--ui-port")
    assert str(caught.value) == (
        f"Port {taken} on 127.0.0.1 is in use: choose another for the Dagster UI with --ui-port."
    )


def test_port_that_is_taken_on_every_address():
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        with pytest.raises(PreflightError, match="is in use"):
            check_port(listener.getsockname()[1], "the Dagster UI")


def test_port_whose_connections_linger():
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = listener.accept()
            accepted.close()  # the server closes first, so TIME_WAIT is on its side
            assert client.recv(1) == b""
    check_port(port, "the Dagster UI")


@pytest.mark.parametrize("port", [-1, 65536])
def test_no_port(port):
    with pytest.raises(
        PreflightError, match=f"cannot use port {port}: choose one from 1 to 65535 with --port"
    ):
        check_port(port, "the Dagster UI")


def test_port_of_an_address_that_is_not_ours():
    with pytest.raises(PreflightError, match=r"cannot be opened \("):
        check_port(3000, "the Dagster UI", host="192.0.2.1")  # RFC 5737: never assigned

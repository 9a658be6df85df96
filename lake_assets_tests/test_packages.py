"""A machine that lacks something gets it, or the command that installs it, from one list.

With an apt-get that only makes programs with the right names. Not here: what Java is good enough (`test_preflight.py`).
"""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import packages
from lake_assets_tests.helpers.processes.child import ROOT

SCRIPT = """#!/bin/sh
echo "$0 $*" >> '{machine}/log'
if [ "$1" != install ]; then exit 0; fi
if [ -e '{machine}/broken' ]; then echo "E: no room" >&2; exit 100; fi
for name in "$@"; do
    case $name in
    openjdk-*) printf '#!/bin/sh\\necho "openjdk version \\\\"21.0.1\\\\"" >&2\\n' > '{machine}/java' ;;
    chromium-driver) : > '{machine}/chromedriver' ;;
    postgresql) : > '{machine}/initdb' ;;
    chromium | git) : > "{machine}/$name" ;;
    esac
done
for file in java chromedriver initdb chromium git; do
    if [ -e "{machine}/$file" ]; then {chmod} +x "{machine}/$file"; fi
done
"""
KNOWS = """#!/bin/sh
case " $KNOWN " in *" $2 "*) echo "  Candidate: 1" ;; *) echo "  Candidate: (none)" ;; esac
"""
DEBIAN_12 = ("openjdk-17-jre-headless", "git", "chromium", "chromium-driver", "postgresql")
DEBIAN_13 = ("openjdk-21-jre-headless", *DEBIAN_12[1:])
UBUNTU = ("openjdk-17-jre-headless", "git", "postgresql")


class Machine:
    """A PATH with nothing on it but apt-get."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, monkeypatch
        self.program("apt-get", SCRIPT.format(machine=folder, chmod="/bin/chmod"))
        self.program("apt-cache", KNOWS)
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.delenv("JAVA_HOME", raising=False)
        # PostgreSQL's programs are in a folder of their own, which is no part of PATH.
        monkeypatch.setattr(packages, "POSTGRESQL", folder / "postgresql")
        self.user(0)
        self.knows(DEBIAN_12)

    def program(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def user(self, number: int) -> None:
        self._patch.setattr(os, "geteuid", lambda: number)

    def knows(self, names: Iterable[str]) -> None:
        self._patch.setenv("KNOWN", " ".join(names))

    def asked(self) -> list[str]:
        log = self.folder / "log"
        return [line.split("/")[-1] for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("purpose", "known", "installed"),
    [
        ("demo", DEBIAN_12, "openjdk-17-jre-headless"),
        ("demo", DEBIAN_13, "openjdk-21-jre-headless"),
        ("test", DEBIAN_12, "openjdk-17-jre-headless git chromium chromium-driver postgresql"),
        ("test", DEBIAN_13, "openjdk-21-jre-headless git chromium chromium-driver postgresql"),
    ],
)
def test_root_gets_what_is_missing_once(
    machine: Machine, capsys: pytest.CaptureFixture[str], purpose: str, known: tuple[str, ...], installed: str
) -> None:
    machine.knows(known)
    assert packages.main(purpose) == 0
    assert capsys.readouterr().out == f"Installing with apt-get, once: {installed}.\n"
    assert machine.asked() == [
        "apt-get update",
        f"apt-get install --yes --no-install-recommends {installed}",
    ]
    assert packages.main(purpose) == 0
    assert capsys.readouterr().out == ""
    assert len(machine.asked()) == 2


def test_only_what_is_missing_is_installed(machine: Machine) -> None:
    assert packages.main("demo") == 0
    assert packages.main("test") == 0
    assert machine.asked()[-1].endswith("recommends git chromium chromium-driver postgresql")


def test_a_user_is_told_the_command_in_one_line(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.user(1000)
    assert packages.main("test") == 1
    assert capsys.readouterr().err == (
        "lake_assets lacks Java 17 or 21, git, Chromium, chromedriver, PostgreSQL: run `sudo apt-get update && sudo "
        "apt-get install --yes --no-install-recommends openjdk-17-jre-headless git chromium chromium-driver "
        "postgresql`, and repeat this.\n"
    )
    machine.knows(())
    assert packages.main("demo") == 1
    assert "openjdk-17-jre-headless`" in capsys.readouterr().err, "its lists are not fetched yet"
    assert machine.asked() == [], "nothing is done that was not asked for"


def test_without_apt_get_the_things_are_named(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    (machine.folder / "apt-get").unlink()
    assert packages.main("demo") == 1
    assert capsys.readouterr().err == (
        "lake_assets lacks Java 17 or 21: install it with your system's package manager, and repeat this.\n"
    )


def test_what_apt_get_lacks_is_said_and_the_rest_is_installed(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ubuntu without snaps, as in a container."""
    machine.knows(UBUNTU)
    assert packages.main("test") == 1
    assert machine.asked()[-1].endswith("recommends openjdk-17-jre-headless git postgresql")
    said = capsys.readouterr().err.splitlines()
    assert said == ["apt-get has no chromium here.", "apt-get has no chromium-driver here."]


def test_a_failing_apt_get_is_quoted(machine: Machine) -> None:
    (machine.folder / "broken").touch()
    with pytest.raises(SystemExit, match="openjdk-17-jre-headless failed: E: no room"):
        packages.main("demo")


def test_another_java_that_stands_in_the_way_is_named(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(machine.folder / "old"))
    assert packages.main("demo") == 1
    assert "Java 17 or 21 is installed, but PATH or JAVA_HOME leads to another." in capsys.readouterr().err


def test_there_is_one_list() -> None:
    others = [ROOT / ".ci/run", *(ROOT / ".github/workflows").iterdir()]
    assert [str(path) for path in others if "apt-get" in path.read_text()] == []
    assert all("packages.py test" in path.read_text() for path in others)
    text = re.sub(
        r"^\s*//.*$", "", (ROOT / ".devcontainer/devcontainer.json").read_text(), flags=re.MULTILINE
    )
    container = json.loads(text)
    assert container["postCreateCommand"] == "make install && .venv/bin/python packages.py test"
    # What README asks for, and the certificates that pip needs.
    names = container["onCreateCommand"].split("recommends ")[1].split()
    assert names == ["ca-certificates", "git", "make", "python3"]

"""What is promised before a line of the project runs: pins, settings of the tools, and nothing of anyone's machine."""

import configparser
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from dagster._core.instance.config import dagster_instance_config
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from lake_assets_tests import conftest
from lake_assets_tests.helpers.processes.child import ROOT, plain_environment


def setup_cfg() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def requirements() -> list[Requirement]:
    """Every requirement of setup.cfg, those of all extras included."""
    parser = setup_cfg()
    texts = [parser["options"]["install_requires"], *parser["options.extras_require"].values()]
    found = [requirement for text in texts for requirement in _in(text)]
    return [requirement for requirement in found if requirement.name != "lake_assets"]


def _in(text: str) -> list[Requirement]:
    return [Requirement(line) for line in text.splitlines() if line and not line.startswith("#")]


def pins() -> dict[str, Version]:
    """constraints.txt, whose every line must be `name==version`."""
    found: dict[str, Version] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        match = re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([0-9][A-Za-z0-9.]*)", line)
        assert match, line
        name = canonicalize_name(match[1])
        assert name not in found, f"{name} is pinned twice"
        found[name] = Version(match[2])
    return found


def project_files() -> list[Path]:
    """The files of the repository and those about to be added to it."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


# --- pins


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_pin_is_within_the_range_of_setup_cfg(requirement):
    assert requirement.specifier.contains(pins()[canonicalize_name(requirement.name)], prereleases=True)


def test_pins_cover_everything_that_is_needed():
    pinned = pins()
    missing, seen, pending = set(), set(), list(requirements())
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        key = (name, frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        if name not in pinned:
            missing.add(name)
        pending.extend(_requirements_of(name, requirement.extras))
    assert not missing, "constraints.txt lacks these: install from scratch and write its freeze there"


def _requirements_of(name: str, extras: set[str]) -> Iterator[Requirement]:
    try:
        declared = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return  # an optional package that is not installed where this runs
    for requirement in map(Requirement, declared):
        if requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        ):
            yield requirement


def test_builds_are_pinned_too():
    # `make install` builds without isolation, with these.
    built_with = [Requirement(text) for text in pyproject()["build-system"]["requires"]]
    assert all(requirement.specifier.contains(pins()[requirement.name]) for requirement in built_with)


def test_what_only_extras_require_is_not_needed(tmp_path: Path) -> None:
    """A project without extras reads its lake.yaml, has its commands, and opens in Dagster."""
    required = _in(setup_cfg()["options"]["install_requires"])
    always: set[str] = {canonicalize_name(requirement.name) for requirement in required}
    always |= _required_by(always)
    extras = {str(canonicalize_name(requirement.name)) for requirement in requirements()} - always
    modules = {
        module
        for module, names in metadata.packages_distributions().items()
        if {canonicalize_name(name) for name in names} <= extras
    }
    assert {"confluent_kafka", "duckdb", "psycopg"} <= modules
    (tmp_path / "lake.yaml").write_text(
        "catalog: {uri: catalog.db, warehouse: warehouse}\n"
        "sources: {shop: {location: bronze, tables: {public.items: {columns: {id: long}, primary_key: [id]}}}}\n"
        "gold: {start_date: 2026-03-01}\n"
    )
    program = (
        f"import sys\nsys.modules.update(dict.fromkeys({sorted(modules)}))\n"
        "import lake_assets.definitions\nfrom lake_assets.cli import main\nsys.argv = ['lake-assets', 'validate']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**plain_environment(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _required_by(names: Iterable[str]) -> set[str]:
    """What the installed distributions require, and what that requires."""
    found: set[str] = set()
    open_ones = list(names)
    while open_ones:
        for text in metadata.requires(open_ones.pop()) or ():
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            if name not in found and (
                requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            ):
                try:
                    metadata.distribution(name)
                except metadata.PackageNotFoundError:
                    continue
                found.add(name)
                open_ones.append(name)
    return found


def test_every_extra_is_in_dev():
    extras = setup_cfg()["options.extras_require"]
    (dev,) = (line for line in extras["dev"].splitlines() if line)
    assert Requirement(dev).extras == set(extras) - {"dev"}


def test_versions_that_belong_together():
    pinned = pins()
    assert pinned["pyspark"].release[:2] == (4, 1)  # what the Iceberg runtime is built for
    dagster = ("dagster", "dagster-webserver", "dagster-aws", "dagster-pyspark")
    assert len({pinned[name].micro for name in dagster}) == 1  # released together


# --- settings of the tools


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_plain_dagster_dev_reads_workspace_yaml():
    # Either block makes `dagster dev` ignore workspace.yaml and rename the location, which loses the sensors' state.
    assert not {"dagster", "dg"} & set(pyproject()["tool"])
    workspace = yaml.safe_load((ROOT / "workspace.yaml").read_text())
    module = {"module_name": "lake_assets.definitions", "location_name": "lake_assets"}
    assert workspace == {"load_from": [{"python_module": module}]}


def test_instance_settings_are_accepted_and_stay_in_the_folder():
    settings, _ = dagster_instance_config(str(ROOT))
    places = [
        settings["storage"]["sqlite"]["base_dir"],
        settings["local_artifact_storage"]["config"]["base_dir"],
        settings["compute_logs"]["config"]["base_dir"],
    ]
    assert all(Path(place).parts[:2] == (".lake", "dagster") for place in places)
    assert settings["telemetry"] == {"enabled": False}


def test_strict_types_and_one_line_length():
    tools = pyproject()["tool"]
    assert tools["mypy"]["strict"] is True
    assert tools["ruff"]["line-length"] == 110
    assert {"E", "F", "I", "UP", "B", "SIM", "RUF"} <= set(tools["ruff"]["lint"]["select"])


def test_license_is_apache_2():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert setup_cfg()["metadata"]["license"] == "Apache-2.0"


def test_command_line_entry_point():
    scripts = setup_cfg()["options.entry_points"]["console_scripts"].split("\n")
    assert "lake-assets = lake_assets.cli:main" in scripts


# --- make and CI


def make(folder: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    if (program := shutil.which("make")) is None:
        pytest.skip("no make")
    environ = plain_environment() | {"PATH": path or os.environ["PATH"]}
    return subprocess.run(
        [program, *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in ("Makefile", "setup.cfg", "constraints.txt", "packages.py"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_an_old_python_is_refused_in_one_sentence(clone):
    programs = clone / "programs"
    programs.mkdir()
    for name in ("python3", "python3.11"):
        # What `sys.exit(sys.version_info < (3, 11))` is for an older one.
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    done = make(clone, "install", path=f"{programs}:/usr/bin:/bin")
    assert done.returncode != 0
    (line,) = (line for line in done.stderr.splitlines() if "make" not in line.split(":")[0])
    assert line.startswith(
        "lake_assets needs Python 3.11 or later, and neither python3.11 nor python3 is one:"
    )
    assert not (clone / ".venv").exists()


def test_nothing_is_installed_twice(clone):
    (clone / ".venv").mkdir()
    (clone / ".venv" / ".installed").touch()
    (clone / ".venv" / ".jars").touch()
    again = make(clone, "-n", "demo").stdout.splitlines()
    assert again == [".venv/bin/lake-assets demo run"]
    (clone / ".venv" / ".jars").unlink()
    assert not any("pip install" in line for line in make(clone, "-n", "demo").stdout.splitlines())
    assert any("lake_assets.spark.fetch" in line for line in make(clone, "-n", "demo").stdout.splitlines())
    os.utime(clone / ".venv" / ".installed", (0, 0))
    assert any("pip install" in line for line in make(clone, "-n", "demo").stdout.splitlines())


@pytest.fixture
def installed(clone: Path) -> Path:
    """A clone with an environment whose Python says what it is asked, and lacks packages where `lacks` is."""
    (clone / ".venv/bin").mkdir(parents=True)
    python = clone / ".venv/bin/python"
    python.write_text('#!/bin/sh\necho "$@"\n[ "$1" != packages.py ] || [ ! -e lacks ]\n')
    python.chmod(0o755)
    for stamp in (".installed", ".jars"):
        (clone / ".venv" / stamp).touch()
    return clone


def test_the_tests_ask_for_their_packages_and_go_on_without_them(installed: Path) -> None:
    (installed / "lacks").touch()
    for _ in range(2):
        done = make(installed, "test")
        assert done.returncode == 0, done.stderr
        asked, ran = done.stdout.splitlines()[0], done.stdout.splitlines()[-1]
        assert asked == "packages.py test"
        assert ran.startswith("-m pytest ")
        assert "Going on: the tests that need it are skipped." in done.stderr
    (installed / "lacks").unlink()
    make(installed, "test")
    assert "packages.py" not in make(installed, "test").stdout, "it is asked once"


def test_nothing_is_installed_where_java_cannot_be(clone: Path) -> None:
    programs = clone / "programs"
    programs.mkdir()
    (programs / "python3.11").write_text(
        '#!/bin/sh\necho "$@" >> asked\nif [ "$1" = packages.py ]; then exit 1; fi\n'
    )
    (programs / "python3.11").chmod(0o755)
    done = make(clone, "demo", path=f"{programs}:/usr/bin:/bin")
    assert done.returncode != 0
    assert (clone / "asked").read_text().splitlines()[-1] == "packages.py demo"
    assert not (clone / ".venv").exists()


def test_help_names_every_target(clone):
    named = {line.split()[1] for line in make(clone, "help").stdout.splitlines()}
    assert named == {
        "install",
        "audit",
        "demo",
        "demo-aws",
        "demo-stream",
        "dev",
        "docs",
        "test",
        "test-fast",
        "test-connect",
        "test-long",
        "soak",
        "outside",
        "drills",
        "chaos",
        "mixture",
        "proof",
        "bench",
        "bench-full",
        "bench-plot",
        "bench-latency",
        "lint",
        "clean",
        "help",
    }


class Item:
    """What pytest has of a test, as far as the hooks of `conftest.py` ask for it."""

    def __init__(self, module: str, *fixtures: str, marks: tuple[str, ...] = ()) -> None:
        self.path, self.fixturenames, self.marks = Path(module), fixtures, {*marks}

    def add_marker(self, mark: str) -> None:
        self.marks.add(mark)

    def get_closest_marker(self, mark: str) -> str | None:
        return mark if mark in self.marks else None


def test_a_test_that_uses_spark_is_marked() -> None:
    """By its fixtures, so that `make test-fast` has none of them, and `make test-connect` all."""
    pure, uses, child = Item("a"), Item("a", "tmp_path", "spark"), Item("b", marks=("spark", "slow"))
    items: Any = [pure, uses, child]
    conftest.pytest_collection_modifyitems(items)
    assert [item.marks for item in (pure, uses, child)] == [set(), {"spark"}, {"spark", "slow"}]
    assert items == [child, pure, uses], "slow modules begin first"


def test_ci_runs_what_a_contributor_runs():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)
    lines = script.read_text().splitlines()
    assert "set -euo pipefail" in lines
    assert lines[-2:] == ["make lint", "make test"]


# --- nothing of anyone's machine

# In pieces, since this file is searched as well.
REGISTRIES = [
    ".".join(host)
    for host in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("maven", "org"),
        ("maven", "apache", "org"),
        ("spark-packages", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("anaconda", "org"),
        ("deb", "debian", "org"),
    )
]
FOLDERS = re.compile(
    r"(?<![\w.*/-])/(?:" + "|".join(("work", "root", "tmp/env", "home/[a-z]+", "Users/[A-Za-z]+")) + ")/"
)


def test_no_registry_and_no_path_of_a_machine():
    wrong = []
    for path in project_files():
        text = path.read_bytes().decode(errors="replace")
        found = [*(host for host in REGISTRIES if host in text), *FOLDERS.findall(text)]
        wrong += [f"{path.relative_to(ROOT)}: {words}" for words in found]
    assert not wrong

"""The package as a user installs it: a wheel, in a fresh environment, used by a project elsewhere.

Here: the wheel's content, and the project of docs/own_assets.md. Not here: that project's assets in this process
(`orchestration/test_own_assets.py`).
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from pyiceberg.catalog.sql import SqlCatalog

from lake_assets_tests.helpers.lakes.guide_project import examples, write_lake

ROOT = Path(__file__).resolve().parent.parent
PACKAGED = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE")
USE = """
import runpy
import sys

# `lake-assets sync` as a user types it, in the process whose Spark the rest uses too.
program, *arguments = sys.argv[1:]
sys.argv = [program, "sync"]
try:
    runpy.run_path(program, run_name="__main__")
except SystemExit as ended:
    assert not ended.code, ended.code

import dagster as dg
from my_project import busiest_bikes, defs, every_trip_has_a_bike

wanted = dg.AssetSelection.assets(busiest_bikes) | dg.AssetSelection.checks(every_trip_has_a_bike)
with dg.DagsterInstance.get() as instance:
    done = dg.materialize(
        [*defs.assets, *defs.asset_checks], selection=wanted, resources=defs.resources, instance=instance
    )
for check in done.get_asset_check_evaluations():
    print(check.check_name, "passed" if check.passed else "failed")
# `python -m dagster`, with the Spark that runs.
sys.argv = ["dagster", "asset", "materialize", "-m", "my_project", *arguments]
runpy.run_module("dagster", run_name="__main__")
"""


INSTALLED = """
from importlib.metadata import entry_points
import dagster as dg
import lake_assets
from lake_assets.orchestration import dagster_private as private

with dg.DagsterInstance.ephemeral() as instance:
    instance.report_runless_asset_event(dg.AssetMaterialization("a"))
    evaluation = dg.AssetCheckEvaluation(dg.AssetKey("a"), "c", True)
    found = {
        "health": private.health(True, ""),
        "check_statuses": private.check_statuses("SUCCEEDED", "FAILED"),
        "evaluated_checks": private.evaluated_checks(instance, [dg.AssetKey("a")]),
        "of_newest_materialization": private.of_newest_materialization(instance, evaluation),
        "shows_definitions": private.shows_definitions(),
    }
print(lake_assets.__file__)
print(*entry_points(group="dagster_dg_cli.registry_modules"))
print("without", *(name for name, value in found.items() if value is None))
"""
"""Names where the package is, what it registers with `dg`, and what this release of Dagster lacks of what the lake uses
without a public name."""


def run(*command: str | Path, folder: Path, **environ: str) -> str:
    """What the command prints. It must succeed, and knows no other checkout."""
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LAKE_CONFIG")
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=inherited | environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip(*arguments: str | Path, folder: Path) -> None:
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, folder=folder)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, because building writes beside the sources."""
    copy, built = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("wheel")
    for name in PACKAGED:
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "lake_assets", copy / "lake_assets", ignore=shutil.ignore_patterns("__pycache__"))
    pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", built, copy, folder=copy)
    (found,) = built.glob("*.whl")
    return found


def environment(folder: Path) -> Path:
    """The Python of a new, empty environment."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, folder=folder.parent)
    return folder / "bin/python"


def test_the_wheel_has_the_whole_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
    listed = subprocess.run(
        ["git", "ls-files", "lake_assets"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    assert files == set(listed.stdout.splitlines())
    assert "lake_assets/py.typed" in files


@pytest.mark.spark
@pytest.mark.slow
def test_a_project_with_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """The environment has this one's other packages, so that the test is fast and needs no network."""
    python = environment(tmp_path / "env")
    pip("--python", python, "install", "--no-deps", "--no-index", wheel, folder=tmp_path)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "env")}))
    # A path alone: the other environment's own installation of the package is not in effect.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    use(python, tmp_path)


@pytest.mark.spark
@pytest.mark.long
def test_a_project_with_the_wheel_and_what_it_requires(wheel: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "env")
    pip("--python", python, "install", "-c", ROOT / "constraints.txt", wheel, "pandas", folder=tmp_path)
    use(python, tmp_path)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("allowed", ["oldest", "newest"])
def test_a_project_with_other_releases_that_are_allowed(wheel: Path, tmp_path: Path, allowed: str) -> None:
    """The lowest version of each range in setup.cfg, and what pip chooses today. `constraints.txt` has those with
    which every other test runs."""
    python, lowest = environment(tmp_path / "env"), tmp_path / "lowest.txt"
    lowest.write_text("".join(f"{name}=={version}\n" for name, version in lowest_versions().items()))
    wanted = ("-c", lowest) if allowed == "oldest" else ("--upgrade",)
    pip("--python", python, "install", *wanted, wheel, "pandas", folder=tmp_path)
    printed = "from importlib.metadata import version; print(*(version(name) for name in {}))"
    found = run(python, "-c", printed.format(list(lowest_versions())), folder=tmp_path).split()
    installed = dict(zip(lowest_versions(), map(Version, found), strict=True))
    print(allowed, *(f"{name}=={version}" for name, version in installed.items()))
    if allowed == "oldest":
        assert installed == {name: Version(version) for name, version in lowest_versions().items()}
    else:
        older = {name: version for name, version in installed.items() if version < pinned()[name]}
        assert not older, "no newer than in constraints.txt"
    use(python, tmp_path)


def pinned() -> dict[str, Version]:
    """By name, the versions in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    given = (line.partition("==") for line in lines if "==" in line and not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, _, version in given}


def lowest_versions() -> dict[str, str]:
    """By name, of the packages that the package requires."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    required = [
        Requirement(line)
        for line in config["options"]["install_requires"].split("\n")
        if line[:1] not in ("", "#")
    ]
    return {
        canonicalize_name(need.name): one.version
        for need in required
        for one in need.specifier
        if one.operator == ">="
    }


def use(python: Path, folder: Path) -> None:
    """Runs the guide's project as its user would, and looks at the tables."""
    project = folder / "project"
    project.mkdir()
    write_lake(project)
    (project / "my_project.py").write_text(examples()[0])
    where, registered, lacking = run(python, "-c", INSTALLED, folder=project).splitlines()
    assert Path(where).is_relative_to(folder / "env")
    assert "value='lake_assets'" in registered
    assert lacking == "without"

    home = {"DAGSTER_HOME": str(project)}
    hours = ("--select", "gold/trips_by_hour", "--partition-range", "2026-03-01...2026-03-02")
    done = run(python, "-c", USE, python.parent / "lake-assets", *hours, folder=project, **home)
    assert "every_trip_has_a_bike passed" in done
    uri, warehouse = f"sqlite:///{project}/catalog.db", str(project / "warehouse")
    catalog = SqlCatalog("guide", uri=uri, warehouse=warehouse)
    bikes = catalog.load_table("gold.busiest_bikes").scan().to_arrow().to_pylist()
    assert bikes == [{"bike_id": 7, "size": 2}, {"bike_id": 9, "size": 1}]
    by_hour = catalog.load_table("gold.trips_by_hour").scan().to_arrow().to_pylist()
    assert {(row["day"].day, row["hour"]): row["trips"] for row in by_hour} == {(1, 8): 2, (2, 23): 1}

"""The lake as a component of a `dg` project.

Here: scaffolding it and loading it, by `dg` itself and as `dg` does. Not here: what it defines (`test_definitions.py`).
"""

import json
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster.components.core.package_entry import discover_entry_point_package_objects
from dagster.components.testing import DefsFolderSandbox, create_defs_folder_sandbox
from dagster_shared.serdes.objects import EnvRegistryKey

from lake_assets import LakeComponent
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS
from lake_assets_tests.helpers.processes.child import ROOT, environment, output_of, run_python

SHOP = {
    "location": "bronze",
    "dms": {"timestamp_column_name": "commit_ts"},
    "tables": {"public.items": ITEMS},
}
LAKE = {"catalog": {"uri": "catalog.db", "warehouse": "warehouse"}, "sources": {"shop": SHOP}}
pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")

ITEMS_KEY = dg.AssetKey(["silver", "shop", "items"])


def test_dg_finds_it() -> None:
    key = EnvRegistryKey(name="LakeComponent", namespace="lake_assets")
    assert discover_entry_point_package_objects()[key] is LakeComponent


def test_a_scaffolded_component_defines_the_lake_of_the_project(tmp_path: Path) -> None:
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.scaffold_component(component_cls=LakeComponent, defs_path="lake")
        written = yaml.safe_load((folder / "defs.yaml").read_text())
        assert written["attributes"] == {"config": "{{ context.project_root }}/lake.yaml"}
        (sandbox.project_root / "lake.yaml").write_text(json.dumps(LAKE))
        assert ITEMS_KEY in keys(sandbox, folder)


def test_a_relative_path_counts_from_the_folder_of_the_component() -> None:
    with create_defs_folder_sandbox() as sandbox:
        component = {"type": "lake_assets.LakeComponent", "attributes": {"config": "../lake.yaml"}}
        folder = sandbox.scaffold_component(
            component_cls=LakeComponent, defs_path="lake", defs_yaml_contents=component
        )
        (folder.parent / "lake.yaml").write_text(json.dumps(LAKE))
        assert ITEMS_KEY in keys(sandbox, folder)


def test_a_mistake_in_lake_yaml_is_named() -> None:
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.scaffold_component(component_cls=LakeComponent, defs_path="lake")
        (sandbox.project_root / "lake.yaml").write_text("catalog: {}\nsource: {}\n")
        with pytest.raises(Exception, match="LakeComponent") as refused:
            keys(sandbox, folder)
        assert "is missing" in "".join(map(str, chain(refused.value)))


def chain(error: BaseException) -> list[BaseException]:
    """The error and its causes."""
    found = [error]
    while found[-1].__cause__ is not None:
        found.append(found[-1].__cause__)
    return found


def keys(sandbox: DefsFolderSandbox, folder: Path) -> set[dg.AssetKey]:
    """The assets of the component."""
    with sandbox.load_component_and_build_defs(defs_path=folder) as (component, defs):
        assert isinstance(component, LakeComponent)
        return set(defs.resolve_asset_graph().get_all_asset_keys())


PROJECT = """
[project]
name = "shop"
version = "0.1.0"
[tool.dg]
directory_type = "project"
[tool.dg.project]
root_module = "shop"
"""
DEFINITIONS = """
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
OWN_S3 = """
import dagster as dg
from dagster_aws.s3 import S3Resource

defs = dg.Definitions(
    resources={"s3": S3Resource(region_name="eu-north-1")}, executor=dg.multiprocess_executor
)
"""


def test_dg_itself_scaffolds_it_in_a_project_with_an_s3_and_an_executor_of_its_own(tmp_path: Path) -> None:
    module = tmp_path / "src/shop"
    (module / "defs").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "lake.yaml").write_text(json.dumps(LAKE))
    (module / "definitions.py").write_text(DEFINITIONS)
    for package in (module, module / "defs"):
        (package / "__init__.py").touch()
    (module / "defs/own.py").write_text(OWN_S3)
    dg_cli(tmp_path, "scaffold", "defs", "lake_assets.LakeComponent", "lake")
    written = module / "defs/lake/defs.yaml"
    with pytest.raises(AssertionError, match="s3"):  # Dagster does not choose between the two
        dg_cli(tmp_path, "list", "defs", "--json")
    component = yaml.safe_load(written.read_text())
    component["attributes"] |= {"without_resources": ["s3"], "without_executor": True}
    written.write_text(yaml.safe_dump(component))
    listed = json.loads(dg_cli(tmp_path, "list", "defs", "--json"))
    assert ITEMS_KEY.to_user_string() in {asset["asset_key"] for asset in listed["assets"]}
    types = {resource["name"]: resource["type"] for resource in listed["resources"]}
    assert types["s3"] == "dagster_aws.s3.resources.S3Resource"
    assert types["lake"].endswith("LakeResource")


def dg_cli(project: Path, *arguments: str) -> str:
    """What `dg` prints in the project."""
    program = "import sys; from dagster_dg_cli.cli import main; sys.argv[0] = 'dg'; main()"
    environ = environment(
        VIRTUAL_ENV=sys.prefix,
        PATH=f"{sys.prefix}/bin:/usr/bin:/bin",
        HOME=str(project),  # no settings of the machine's user
        DAGSTER_DISABLE_TELEMETRY="1",
        PYTHONPATH=f"{ROOT}:{project / 'src'}",
    )
    return output_of(run_python("-c", program, *arguments, timeout=120, cwd=project, env=environ))

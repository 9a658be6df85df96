"""The lake as a component of a `dg` project.

Here: scaffolding it and loading it, as `dg` does. Not here: what it defines (`test_definitions.py`).
"""

import json
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster.components.core.package_entry import discover_entry_point_package_objects
from dagster.components.testing import DefsFolderSandbox, create_defs_folder_sandbox
from dagster_shared.serdes.objects import EnvRegistryKey

from lake_assets import LakeComponent
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS

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

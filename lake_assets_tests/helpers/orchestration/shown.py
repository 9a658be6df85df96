"""What Dagster's UI gets of an instance and definitions, in this process.

Here: answers of Dagster's GraphQL. Not here: a running Dagster (`dagster_dev.py`).
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import dagster as dg
from dagster._core.test_utils import in_process_test_workspace
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster_graphql.test.utils import execute_dagster_graphql

_ENTRY = "... on TableColumnLineageMetadataEntry{lineage{columnName columnDeps{columnName assetKey{path}}}}"
LINEAGE = f"metadataEntries{{{_ENTRY}}}"
"""The UI's question for an asset's columns, of which it shows those of the newest materialization, if it has any."""


class Shown:
    """The answers to the UI's questions."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def query(self, text: str, **variables: Any) -> Any:
        """The data of an answer without errors."""
        answer = execute_dagster_graphql(self._context, text, variables)
        assert not answer.errors, answer.errors
        return answer.data

    def columns_before(self, column: tuple[str, str]) -> set[tuple[str, str]]:
        """By asset and name, the columns that one is computed from."""
        asset, name = column
        of_node = f"{LINEAGE} assetMaterializations(limit: 1){{{LINEAGE}}}"
        question = f"query($keys: [AssetKeyInput!]!){{assetNodes(assetKeys: $keys){{{of_node}}}}}"
        (node,) = self.query(question, keys=[{"path": asset.split("/")}])["assetNodes"]
        events = [
            entry for event in node["assetMaterializations"] for entry in event["metadataEntries"] if entry
        ]
        entries = events or [entry for entry in node["metadataEntries"] if entry]
        return {
            ("/".join(dep["assetKey"]["path"]), dep["columnName"])
            for entry in entries
            for line in entry["lineage"]
            if line["columnName"] == name
            for dep in line["columnDeps"]
        }


@contextmanager
def shown(definitions: dg.Definitions, instance: dg.DagsterInstance) -> Iterator[Shown]:
    """The answers about these inside of the block."""
    module = ModuleType("shown_definitions")
    vars(module)["defs"] = definitions
    sys.modules[module.__name__] = module
    target = LoadableTargetOrigin(
        executable_path=sys.executable, module_name=module.__name__, attribute="defs"
    )
    try:
        with in_process_test_workspace(instance, target) as context:
            yield Shown(context)
    finally:
        del sys.modules[module.__name__]

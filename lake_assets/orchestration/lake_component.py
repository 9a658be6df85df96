"""The lake as a component of a project of Dagster's `dg`.

Here: the attributes of its `defs.yaml`. Not here: the definitions (`lake_definitions.py`).
"""

from pathlib import Path

import dagster as dg

from lake_assets.orchestration.lake_definitions import lake_definitions


class LakeScaffolder(dg.Scaffolder):
    """Writes a `defs.yaml` that names a lake.yaml in the project's root."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        """Called by `dg scaffold defs lake_assets.LakeComponent NAME`."""
        dg.scaffold_component(request, {"config": "{{ context.project_root }}/lake.yaml"})


@dg.scaffold_with(LakeScaffolder)
class LakeComponent(dg.Component, dg.Model, dg.Resolvable):
    """All assets, checks, sensors, jobs and IO managers of a lake."""

    config: str = "lake.yaml"
    """The lake.yaml; a relative path counts from the folder of `defs.yaml`."""
    without_resources: list[str] = []  # noqa: RUF012  (a field)
    """Keys of the lake's resources that the project defines itself, such as `s3`."""
    without_executor: bool = False
    """Leaves the executor to the project's other definitions."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Raises ConfigError with every mistake of the file, and LakeError for an unusable mart."""
        folder = context.path if context.path.is_dir() else context.path.parent
        left_out = dict.fromkeys(self.without_resources)
        executor = None if self.without_executor else dg.in_process_executor
        return lake_definitions(folder / Path(self.config), resources=left_out, executor=executor)

"""A lake of Iceberg tables that equal the source tables whose changes AWS DMS writes to S3.

For a Dagster project: `lake_definitions`, `LakeComponent`, `IcebergIOManager` and the resources. They are imported when
they are used, because Dagster takes longer to import than a command takes to find out that a lake has nothing to do.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lake_assets.orchestration.io_managers.iceberg_io_manager import IcebergIOManager, TableIOManager
    from lake_assets.orchestration.lake_component import LakeComponent
    from lake_assets.orchestration.lake_definitions import lake_definitions
    from lake_assets.orchestration.resources import (
        LakePySparkResource,
        LakeResource,
        LakeS3Resource,
        LakeSecretsManagerResource,
    )

__all__ = [
    "IcebergIOManager",
    "LakeComponent",
    "LakePySparkResource",
    "LakeResource",
    "LakeS3Resource",
    "LakeSecretsManagerResource",
    "TableIOManager",
    "lake_definitions",
]

_MODULES = {
    **dict.fromkeys(
        ("IcebergIOManager", "TableIOManager"), "lake_assets.orchestration.io_managers.iceberg_io_manager"
    ),
    "LakeComponent": "lake_assets.orchestration.lake_component",
    "lake_definitions": "lake_assets.orchestration.lake_definitions",
    **dict.fromkeys(
        ("LakePySparkResource", "LakeResource", "LakeS3Resource", "LakeSecretsManagerResource"),
        "lake_assets.orchestration.resources",
    ),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'lake_assets' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    # `dg` finds components by their names in this module.
    return [*globals(), *_MODULES]

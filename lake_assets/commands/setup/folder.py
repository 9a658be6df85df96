"""Where a lake's own local files go: logs and process ids of what runs beside it.

Here: the folder. Not here: what is in it.
"""

from pathlib import Path

from lake_assets.config import LakeConfig


def local_folder(lake: LakeConfig, path: Path) -> Path:
    """Beside the catalog where that is a local file, else beside `path`, the lake.yaml."""
    if lake.catalog.type == "sqlite" and lake.catalog.uri is not None:
        return Path(lake.catalog.uri.get_secret_value()).parent
    return path.absolute().parent

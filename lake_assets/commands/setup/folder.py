"""The folder for a lake's local files: logs, and process ids of servers.

Here: the folder. Not here: its files.
"""

from pathlib import Path

from lake_assets.config import LakeConfig

SPARK_LOG = "spark.log"


def local_folder(lake: LakeConfig, path: Path) -> Path:
    """The folder of the catalog if that is a local file, else the folder of `path`, the lake.yaml."""
    if lake.catalog.type == "sqlite" and lake.catalog.uri is not None:
        return Path(lake.catalog.uri.get_secret_value()).parent
    return path.absolute().parent

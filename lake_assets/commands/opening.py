"""Opening a lake for a command that runs Spark.

Here: what is refused before Spark starts, and where Spark's own messages go. Not here: the commands.
"""

from collections.abc import Collection
from pathlib import Path

import typer

from lake_assets.commands.folder import local_folder
from lake_assets.config_file import load_lake
from lake_assets.lake import Lake, open_lake
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.session import check_spark


def opened(path: Path, source: str | None = None, table: str | None = None, *, spark: bool = True) -> Lake:
    """The lake of a lake.yaml. Raises ConfigError, PreflightError for a `spark` that is needed and cannot be had,
    BadParameter for a source or table (`schema.table`) that it does not have."""
    config = load_lake(path)
    if spark:
        check_spark(config)
    _known(config.sources, source, "source")
    _known({name for found in config.sources.values() for name in found.tables}, table, "table")
    # Spark has much to say that nobody at a prompt wants to read.
    return open_lake(config, LakeRuntime(config, spark_log=local_folder(config, path) / "spark.log"))


def _known(names: Collection[str], name: str | None, kind: str) -> None:
    if name is not None and name not in names:
        raise typer.BadParameter(f"lake.yaml has no {kind} {name}; it has {', '.join(sorted(names))}")

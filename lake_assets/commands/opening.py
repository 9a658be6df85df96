"""Opening a lake for a command that runs Spark.

Here: what is refused before Spark starts, and where Spark's own messages go. Not here: the commands.
"""

from collections.abc import Iterable
from pathlib import Path

import typer

from lake_assets.build import Lake, open_lake
from lake_assets.commands.folder import local_folder
from lake_assets.commands.warm_spark import beside_a_server
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.session import check_spark


def opened(path: Path, source: str | None = None, table: str | None = None) -> Lake:
    """The lake of a lake.yaml, on the Spark that `dev` keeps warm for it, if one runs. Raises ConfigError,
    PreflightError for a Spark that cannot be had, BadParameter for a source, or a table (see `Target.is_called`), that
    it does not have."""
    config = beside_a_server(path)
    check_spark(config)
    if source is not None and source not in config.sources:
        raise _unknown("source", source, config.sources)
    # Spark has much to say that nobody at a prompt wants to read.
    lake = open_lake(config, LakeRuntime(config, spark_log=local_folder(config, path) / "spark.log"))
    own = [target for target in lake.targets if source in (None, target.source)]
    if table is not None and not any(target.is_called(table) for target in own):
        raise _unknown("table", table, {target.table for target in own})
    return lake


def _unknown(kind: str, name: str, known: Iterable[str]) -> typer.BadParameter:
    return typer.BadParameter(f"lake.yaml has no {kind} {name}; it has {', '.join(sorted(known))}")

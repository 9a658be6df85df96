"""Opening a lake for a command that runs Spark.

Here: what is refused before Spark starts, and where Spark's own messages and whole errors go. Not here: the commands.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

import typer

from lake_assets.bronze.log.file_log import TABLE as LOG_TABLE
from lake_assets.commands.run.warm_spark import beside_a_server
from lake_assets.commands.setup.folder import local_folder
from lake_assets.lake import Lake, open_lake
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.session import check_spark


def opened(path: Path, source: str | None = None, table: str | None = None, *, spark: bool = True) -> Lake:
    """The lake of a lake.yaml, on the Spark that `dev` keeps warm for it, if one runs. Raises ConfigError,
    PreflightError for a `spark` that is needed and cannot be had, BadParameter for a source, or a table (see
    `Target.is_called`), that it does not have, and for a catalog that does not answer CatalogUnavailable or what its
    client raises."""
    config = beside_a_server(path)
    if spark:
        check_spark(config)
    if source is not None and source not in config.sources:
        raise _unknown("source", source, config.sources)
    # Spark has much to say that nobody at a prompt wants to read.
    log = local_folder(config, path) / "spark.log"
    lake = open_lake(config, LakeRuntime(config, spark_log=log))
    own = [target for target in lake.targets if source in (None, target.source)]
    if table is not None and not any(target.is_called(table) for target in own):
        raise _unknown("table", table, {target.table for target in own})
    # Now, and not once for each table: some catalogs are first asked when they are used.
    lake.runtime.catalog.table_exists(LOG_TABLE)
    _keep_details(log)
    return lake


class _Details(logging.FileHandler):
    """A log without which the command goes on, be the disk full."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Says nothing."""


def _keep_details(path: Path) -> None:
    """What an error has beyond its one line goes to the log, with Spark's own words."""
    logger = logging.getLogger("lake_assets")
    for earlier in [handler for handler in logger.handlers if isinstance(handler, _Details)]:
        logger.removeHandler(earlier)
        earlier.close()
    details = _Details(path, encoding="utf-8", delay=True)
    details.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger.addHandler(details)
    logger.setLevel(logging.DEBUG)


def _unknown(kind: str, name: str, known: Iterable[str]) -> typer.BadParameter:
    return typer.BadParameter(f"lake.yaml has no {kind} {name}; it has {', '.join(sorted(known))}")

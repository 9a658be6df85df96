"""Opening a lake for a command that runs Spark.

Here: the checks before Spark starts, and the log of Spark's messages and of complete errors. Not here: the commands.
"""

import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import typer

from lake_assets.bronze.log.file_log import TABLE as LOG_TABLE
from lake_assets.commands.options import name_broken_marts
from lake_assets.commands.run.warm_spark import on_running_server
from lake_assets.commands.setup.folder import SPARK_LOG, local_folder
from lake_assets.errors import LakeError
from lake_assets.lake import Lake, open_lake, open_without_broken_marts
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.targets import Target
from lake_assets.spark.session import check_spark


def opened(
    path: Path,
    source: str | None = None,
    table: str | None = None,
    *,
    spark: bool = True,
    needs_marts: bool = False,
) -> Lake:
    """The lake of a lake.yaml, on the Spark Connect server of `dev` if one runs. If a mart cannot be used, it is left
    out and named on standard error; with `needs_marts`, LakeError is raised instead. Raises ConfigError; PreflightError
    if `spark` is true and Spark cannot start; BadParameter for an unknown source or table (see `Target.is_called`);
    CatalogUnavailable, or what the catalog's client raises, if the catalog does not answer."""
    config = on_running_server(path)
    if spark:
        check_spark(config)
    if source is not None and source not in config.sources:
        raise _unknown("source", source, config.sources)
    # Spark's messages go to a file: they would bury the command's own output.
    log = local_folder(config, path) / SPARK_LOG
    runtime = LakeRuntime(config, spark_log=log)
    lake = open_lake(config, runtime) if needs_marts else open_without_broken_marts(config, runtime)
    name_broken_marts(lake)
    own = [target for target in lake.targets if source in (None, target.source)]
    if table is not None and not any(target.is_called(table) for target in own):
        raise _unknown("table", table, {target.table for target in own})
    # One request here, so that a dead catalog is one error, not one for each table: some catalogs connect only when
    # they are used. A catalog that names a file that is gone does answer; `recover` and `repair` mend it.
    with suppress(FileNotFoundError):
        lake.runtime.catalog.table_exists(LOG_TABLE)
    _log_details(log)
    return lake


def tables_called(context: typer.Context, name: str) -> tuple[Lake, list[Target]]:
    """The lake, and its silver tables with that name. Raises LakeError without one."""
    lake = opened(context.obj)
    found = [target for target in lake.targets if target.is_called(name)]
    if not found:
        known = ", ".join(sorted({target.table for target in lake.targets}))
        raise LakeError(f"{name} is not a table of {context.obj}, which has {known}.")
    return lake, found


class _Details(logging.FileHandler):
    """A log that never stops the command, even if the disk is full."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignores the error."""


def _log_details(path: Path) -> None:
    """Writes the details of errors to the log of Spark's messages."""
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

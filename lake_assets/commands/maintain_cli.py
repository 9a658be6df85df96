"""`lake-assets maintain`: reads the command line, calls the command, prints the result.

Here: options and output. Not here: what it does (`maintain.py`).
"""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from lake_assets.config_file import load_lake

WIDE = 150


def maintain(
    context: typer.Context,
    source: Annotated[str | None, typer.Option(help="Only this source's silver tables.")] = None,
    table: Annotated[str | None, typer.Option(help="Only this table's, as schema.table.")] = None,
) -> None:
    """Rewrite small files, expire snapshots, drop what killed processes left: beside running batches."""
    from lake_assets.build import open_lake
    from lake_assets.commands.folder import local_folder
    from lake_assets.commands.maintain import maintain as maintained
    from lake_assets.runtime import LakeRuntime
    from lake_assets.spark.session import check_spark

    config = load_lake(context.obj)
    check_spark(config)
    tables = {name for found in config.sources.values() for name in found.tables}
    for name, names, kind in ((source, set(config.sources), "source"), (table, tables, "table")):
        if name is not None and name not in names:
            raise typer.BadParameter(f"lake.yaml has no {kind} {name}; it has {', '.join(sorted(names))}")
    lake = open_lake(config, LakeRuntime(config, spark_log=local_folder(config, context.obj) / "spark.log"))
    err = Console(stderr=True, soft_wrap=True)
    printed = Table("table", title=None)
    for column in ("data files", "rewritten", "snapshots", "branches dropped", "orphans", "seconds"):
        printed.add_column(column, justify="right")
    failed = False
    for done in maintained(lake, source, table):
        printed.add_row(
            done.table,
            f"{done.files_before:,} → {done.files_after:,}",
            f"{done.files_rewritten:,}",
            f"{done.snapshots_before:,} → {done.snapshots_after:,}",
            f"{done.branches_dropped:,}",
            f"{done.orphans_removed:,}",
            f"{done.seconds:.1f}",
        )
        if done.error is not None:
            failed = True
            err.print(f"[bold]{done.table} failed[/bold]: ", end="")
            err.print(str(done.error), markup=False)
    Console(width=None if Console().is_terminal else WIDE).print(printed)
    raise typer.Exit(1 if failed else 0)

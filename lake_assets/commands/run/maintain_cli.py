"""`lake-assets maintain`: reads the command line, calls the command, prints the result.

Here: options and output. Not here: what it does (`maintain.py`).
"""

from typing import Annotated

import typer
from rich.table import Table

from lake_assets.commands.show.console import messages, results


def maintain(
    context: typer.Context,
    source: Annotated[str | None, typer.Option(help="Only this source's silver tables.")] = None,
    table: Annotated[
        str | None, typer.Option(help="Only this table's: schema.table, or the silver table's name.")
    ] = None,
) -> None:
    """Rewrite small files, expire snapshots, and drop branches of killed processes. Batches may run meanwhile."""
    from lake_assets.commands.run.maintain import maintain as maintained
    from lake_assets.commands.run.opening import opened
    from lake_assets.config.secrets import hidden_in
    from lake_assets.spark.causes import root_cause

    lake = opened(context.obj, source, table)
    err = messages()
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
            err.print(f"{done.table} failed: ", style="bold", end="")
            err.print(hidden_in(lake.config, root_cause(done.error)))
    results().print(printed)
    raise typer.Exit(1 if failed else 0)

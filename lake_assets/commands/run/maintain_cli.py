"""`lake-assets maintain`: reads the command line, calls the command, prints the result.

Here: options and output. Not here: the work (`maintain.py`).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from lake_assets.commands.show.console import messages, results, table_of
from lake_assets.words import many

if TYPE_CHECKING:
    from lake_assets.iceberg.table_maintenance import Maintained


def maintain(
    context: typer.Context,
    source: Annotated[str | None, typer.Option(help="Only this source's silver tables.")] = None,
    table: Annotated[
        str | None, typer.Option(help="Only this table: schema.table, or the silver table's name.")
    ] = None,
) -> None:
    """Merge small files, expire snapshots, drop branches of killed processes, and delete old runs from Dagster's
    history. Batches may run meanwhile."""
    from lake_assets.commands.run.maintain import maintain as maintained
    from lake_assets.commands.run.opening import opened
    from lake_assets.config.secrets import hidden_in
    from lake_assets.orchestration.instance import dagster_instance
    from lake_assets.orchestration.runs.run_retention import OldRuns
    from lake_assets.orchestration.shared.run_tags import own_tag
    from lake_assets.spark.causes import root_cause

    lake = opened(context.obj, source, table, needs_marts=True)
    err = messages()
    outcomes = []
    for done in maintained(lake, source, table):
        outcomes.append(done)
        if done.error is not None:
            err.print(f"{done.table} failed: ", style="bold", end="")
            err.print(hidden_in(lake.config, root_cause(done.error)))
    results().print(table_of(outcomes, _COLUMNS))
    if source is None and table is None:
        with dagster_instance(context.obj.absolute().parent) as instance:
            deleted = OldRuns(lake.config.maintenance, own_tag(lake.config)).delete_all(instance)
        results().print(f"{many(deleted, 'old run')} deleted from Dagster's history.")
    raise typer.Exit(1 if any(done.error is not None for done in outcomes) else 0)


_COLUMNS: Mapping[str, "Callable[[Maintained], str]"] = {
    "table": lambda done: done.table,
    "data files": lambda done: f"{done.files_before:,} → {done.files_after:,}",
    "rewritten": lambda done: f"{done.files_rewritten:,}",
    "snapshots": lambda done: f"{done.snapshots_before:,} → {done.snapshots_after:,}",
    "branches\ndropped": lambda done: f"{done.branches_dropped:,}",
    "orphans": lambda done: f"{done.orphans_removed:,}",
    "seconds": lambda done: f"{done.seconds:.1f}",
}

"""`lake-assets advise` on the command line: reads the workload, prints the estimates."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table as RichTable

from lake_assets.commands.options import lake_of
from lake_assets.commands.show.console import results, table_of
from lake_assets.words import many

if TYPE_CHECKING:
    from lake_assets.commands.setup.advise import Estimate, Knobs, Workload


def advise(
    context: typer.Context,
    changes: Annotated[float, typer.Option(help="Changes a second of each busy table.", min=0.0)] = 1.0,
    busy: Annotated[
        int | None, typer.Option(help="Tables that change all the time; all by default.", min=1)
    ] = None,
    row_bytes: Annotated[int, typer.Option(help="Bytes of a row in a file.", min=1)] = 200,
    batch_interval: Annotated[
        float, typer.Option(help="DMS's CdcMaxBatchInterval, seconds.", min=1.0)
    ] = 60.0,
    min_file_kb: Annotated[float, typer.Option(help="DMS's CdcMinFileSize, kB.", min=1.0)] = 32_000.0,
    files: Annotated[
        int | None, typer.Option(help="Files in the bucket; by default, as many as were logged.")
    ] = None,
    cores: Annotated[int, typer.Option(help="Cores of Spark.", min=1)] = 2,
    source: Annotated[
        str | None, typer.Option(help="A source of lake.yaml; the first one by default.")
    ] = None,
) -> None:
    """Estimate latency, files, commits and S3 requests for some settings of DMS and the lake."""
    from dataclasses import replace

    from lake_assets.commands.setup.advise import Workload, knobs_of

    lake = lake_of(context)
    name = source or next(iter(lake.config.sources))
    if name not in lake.config.sources:
        raise typer.BadParameter(f"lake.yaml has no source {name}; it has {', '.join(lake.config.sources)}")
    config = lake.config.sources[name]
    known = len(lake.runtime.file_log.newest(name)) if files is None else files
    tables = len(config.tables)
    work = Workload(tables, min(busy or tables, tables), changes, row_bytes, known)
    knobs = replace(knobs_of(lake.config, config, batch_interval, min_file_kb), cores=cores)
    out = results()
    out.print(_estimates(name, work, knobs))
    out.print(
        "The bold line has the current settings; each line below changes one of them. Seconds are for half of the "
        "changes: the worst take twice as long. Dollars are for requests to S3 (Standard, us-east-1), without storage "
        "and Spark. These are estimates; lake-assets latency shows measurements."
    )


def _estimates(source: str, work: "Workload", knobs: "Knobs") -> RichTable:
    from lake_assets.commands.setup.advise import alternatives, estimate

    table = table_of(
        [estimate(work, setting) for setting in alternatives(knobs)],
        _COLUMNS,
        left=["path", "interval", "cores"],
        title=(
            f"{source}: {many(work.tables, 'table')}, {work.busy} with {work.changes:g} "
            f"{'change' if work.changes == 1 else 'changes'} a second, "
            f"{many(work.files, 'file')} in the bucket"
        ),
        breaks_names=True,
    )
    table.rows[0].style = "bold"
    return table


_COLUMNS: Mapping[str, "Callable[[Estimate], str]"] = {
    "CdcMaxBatchInterval": lambda row: f"{row.knobs.batch_interval:g} s",
    "path": lambda row: "continuous" if row.knobs.continuous else "sensor",
    "interval": lambda row: f"{row.knobs.interval:g} s",
    "cores": lambda row: str(row.knobs.cores),
    "commit to file": lambda row: f"{row.to_file:,.1f} s",
    "file to silver": lambda row: f"{row.to_silver:,.1f} s",
    "to mart": lambda row: f"+{row.to_mart:,.1f} s",
    "files a day": lambda row: f"{row.files_a_day:,.0f}",
    "commits a day": lambda row: f"{row.commits_a_day:,.0f}",
    "snapshots": lambda row: f"{row.snapshots:,.0f}",
    "lists a day": lambda row: f"{row.lists_a_day:,.0f}",
    "$ a month": lambda row: f"{row.dollars_a_month:,.2f}",
}

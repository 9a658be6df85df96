"""`lake-assets advise` on the command line: reads the workload, prints the outlook."""

from typing import Annotated

import typer
from rich.table import Table

from lake_assets.commands.show.console import results
from lake_assets.words import many


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
    cores: Annotated[int, typer.Option(help="Of Spark.", min=1)] = 2,
    source: Annotated[
        str | None, typer.Option(help="A source of lake.yaml; the first one by default.")
    ] = None,
) -> None:
    """Estimate latency, files, commits and S3 requests for some settings of DMS and the lake."""
    from dataclasses import replace

    from lake_assets.commands.setup.advise import Workload, alternatives, knobs_of, outlook
    from lake_assets.config.config_file import load_lake
    from lake_assets.lake import open_lake

    lake = open_lake(load_lake(context.obj))
    name = source or next(iter(lake.config.sources))
    if name not in lake.config.sources:
        raise typer.BadParameter(f"lake.yaml has no source {name}; it has {', '.join(lake.config.sources)}")
    config = lake.config.sources[name]
    known = len(lake.runtime.file_log.newest(name)) if files is None else files
    tables = len(config.tables)
    work = Workload(tables, min(busy or tables, tables), changes, row_bytes, known)
    knobs = replace(knobs_of(lake.config, config, batch_interval, min_file_kb), cores=cores)
    table = Table(
        title=(
            f"{name}: {many(tables, 'table')}, {work.busy} with {changes:g} "
            f"{'change' if changes == 1 else 'changes'} a second, "
            f"{many(known, 'file')} in the bucket"
        ),
        title_justify="left",
    )
    for column in ("CdcMaxBatchInterval", "path", "interval", "cores"):
        table.add_column(column)
    for column in (
        "commit to file",
        "file to silver",
        "to mart",
        "files a day",
        "commits a day",
        "snapshots",
        "lists a day",
        "$ a month",
    ):
        table.add_column(column, justify="right")
    for number, setting in enumerate(alternatives(knobs)):
        told = outlook(work, setting)
        table.add_row(
            f"{setting.batch_interval:g} s",
            "continuous" if setting.continuous else "sensor",
            f"{setting.interval:g} s",
            str(setting.cores),
            f"{told.to_file:,.1f} s",
            f"{told.to_silver:,.1f} s",
            f"+{told.to_mart:,.1f} s",
            f"{told.files_a_day:,.0f}",
            f"{told.commits_a_day:,.0f}",
            f"{told.snapshots:,.0f}",
            f"{told.lists_a_day:,.0f}",
            f"{told.dollars_a_month:,.2f}",
            style="bold" if number == 0 else "",
        )
    out = results()
    out.print(table)
    out.print(
        "In bold, as it is set; below, one thing changed. Seconds for half of the changes: the worst take twice as "
        "long. Dollars are those of requests to S3 (Standard, us-east-1), without storage and Spark. Estimates; "
        "lake-assets latency shows what was measured."
    )

"""`lake-assets advise` on the command line: reads the workload, prints the estimates."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table as RichTable

from lake_assets.commands.options import lake_of
from lake_assets.commands.show.console import results, table_of
from lake_assets.words import many, span

if TYPE_CHECKING:
    from lake_assets.commands.setup.advise import Estimate, Knobs, Workload


def advise(
    context: typer.Context,
    changes: Annotated[
        float | None, typer.Option(help="Changes a second of each busy table; as measured, or 1.", min=0.0)
    ] = None,
    busy: Annotated[
        int | None, typer.Option(help="Tables that change all the time; as measured, or all.", min=1)
    ] = None,
    row_bytes: Annotated[
        int | None, typer.Option(help="Bytes of a row in a file; as measured, or 200.", min=1)
    ] = None,
    batch_interval: Annotated[
        float | None,
        typer.Option(help="DMS's CdcMaxBatchInterval, seconds; as measured, or 60.", min=1.0),
    ] = None,
    min_file_kb: Annotated[float, typer.Option(help="DMS's CdcMinFileSize, kB.", min=1.0)] = 32_000.0,
    files: Annotated[
        int | None, typer.Option(help="Files in the bucket; by default, as many as were logged.")
    ] = None,
    cores: Annotated[int, typer.Option(help="Cores of Spark.", min=1)] = 2,
    source: Annotated[
        str | None, typer.Option(help="A source of lake.yaml; the first one by default.")
    ] = None,
) -> None:
    """Estimate latency, files, commits and S3 requests for some settings of DMS and the lake.

    What you do not give is measured: the workload by the newest day's change files in the log, the seconds of a batch
    by those of the last day."""
    from dataclasses import replace

    from lake_assets.commands.setup.advise import TABLE_CORE_SECONDS, Workload, knobs_of
    from lake_assets.commands.show.measured_rates import batch_seconds, measured
    from lake_assets.iceberg.table_io import load_table
    from lake_assets.silver.batch_log.record_batches import batches_since, recently

    lake = lake_of(context)
    name = source or next(iter(lake.config.sources))
    if name not in lake.config.sources:
        raise typer.BadParameter(f"lake.yaml has no source {name}; it has {', '.join(lake.config.sources)}")
    config = lake.config.sources[name]
    known = len(lake.runtime.file_log.newest(name)) if files is None else files
    tables = len(config.tables)
    rates = measured(lake.runtime.file_log.files(name))
    own = [target.identifier for target in lake.targets if target.source == name]
    loaded = {identifier: load_table(lake.runtime.catalog, identifier) for identifier in own}
    recorded = batches_since(lake.runtime.catalog, loaded, recently())
    batches = batch_seconds(row for rows in recorded.values() for row in rows)
    work = Workload(
        tables,
        min(busy or (rates.busy if rates else tables), tables),
        changes if changes is not None else rates.changes if rates else 1.0,
        row_bytes or (rates.row_bytes if rates else 200),
        known,
        batches[0] if batches else TABLE_CORE_SECONDS,
    )
    interval = batch_interval or (rates.file_every if rates else 60.0)
    knobs = replace(knobs_of(lake.config, interval, min_file_kb), cores=cores)
    out = results()
    out.print(_estimates(name, work, knobs))
    if rates is not None:
        out.print(
            f"Measured in {many(rates.files, 'change file')} of {span(rates.seconds)}: in "
            f"{many(rates.busy, 'table')} a change every {1 / rates.changes:.3g} s each, "
            f"{many(rates.row_bytes, 'byte')} a row, a table's next file after {rates.file_every:.3g} s. Options "
            "replace these figures."
        )
    if batches is not None:
        out.print(f"A batch took {batches[0]:.3g} s, for half of {many(batches[1], 'batch')} of changes.")
    out.print(
        "The bold line has the current settings; each line below changes one of them. DMS is its CdcMaxBatchInterval, "
        "pause that between two rounds or evaluations. Seconds are for half of "
        "the changes: the worst take twice as long. Dollars are for requests to S3 (Standard, us-east-1), without "
        "storage and Spark. These are estimates; lake-assets latency shows measurements."
    )


def _estimates(source: str, work: "Workload", knobs: "Knobs") -> RichTable:
    from lake_assets.commands.setup.advise import alternatives, estimate

    table = table_of(
        [estimate(work, setting) for setting in alternatives(knobs)],
        _COLUMNS,
        left=["path", "pause", "CPU"],
        title=(
            f"{source}: {many(work.tables, 'table')}, {work.busy} with {work.changes:.3g} "
            f"{'change' if work.changes == 1 else 'changes'} a second, "
            f"{many(work.files, 'file')} in the bucket"
        ),
    )
    table.rows[0].style = "bold"
    return table


_COLUMNS: Mapping[str, "Callable[[Estimate], str]"] = {
    "DMS": lambda row: f"{row.knobs.batch_interval:.3g} s",
    "path": lambda row: "continuous" if row.knobs.continuous else "sensor",
    "pause": lambda row: f"{row.knobs.interval:g} s",
    "CPU": lambda row: str(row.knobs.cores),
    "commit\nto file": lambda row: f"{row.to_file:,.1f} s",
    "file to\nsilver": lambda row: f"{row.to_silver:,.1f} s",
    "to mart": lambda row: f"+{row.to_mart:,.1f} s",
    "files\na day": lambda row: f"{row.files_a_day:,.0f}",
    "commits\na day": lambda row: f"{row.commits_a_day:,.0f}",
    "lists\na day": lambda row: f"{row.lists_a_day:,.0f}",
    "$ a\nmonth": lambda row: f"{row.dollars_a_month:,.0f}",
}

"""`lake-assets batches`: the batches of a time, as a list and as a plot.

Here: choosing and printing them. Not here: where they come from (`silver/batch_log/`).
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from rich.bar import Bar
from rich.console import Console
from rich.table import Table

from lake_assets.commands.show.console import table_of
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.lake import Lake
from lake_assets.silver.batch_log.batch_row import BatchRow
from lake_assets.silver.batch_log.record_batches import batches_since
from lake_assets.silver.table.batch_latency import Spread
from lake_assets.silver.table.targets import Target
from lake_assets.words import many, span

LINES = 24
"""The lines of a plot."""


def batches_of(lake: Lake, targets: Sequence[Target], since: datetime) -> list[BatchRow]:
    """The batches of these tables that were committed at that time (UTC) or later, the oldest first."""
    loaded = LoadedTables(lake.runtime.catalog)
    tables = {target.identifier: loaded.table(target.identifier) for target in targets}
    found = batches_since(lake.runtime.catalog, tables, since)
    return sorted((row for rows in found.values() for row in rows), key=lambda row: row.committed_at)


def show_batches(console: Console, found: Sequence[BatchRow]) -> None:
    """A line for each batch."""
    console.print(
        table_of(found, _COLUMNS, left=["table", "batch"], optional=("I", "U", "D", "quaran-\ntined"))
    )
    console.print(
        "UTC. seconds: from the batch's beginning to its rows being readable; latency: from its oldest file; lag: from "
        "the table's newest source commit."
    )


_COLUMNS: Mapping[str, Callable[[BatchRow], str]] = {
    "published": lambda row: f"{row.shown_at:%Y-%m-%d %H:%M:%S}",
    "table": lambda row: row.table.removeprefix("silver_"),
    "batch": lambda row: f"{row.kind.replace('_', ' ')}, {row.strategy}",
    "files": lambda row: f"{row.files:,}",
    "rows\nread": lambda row: f"{row.rows_read:,}",
    "I": lambda row: f"{row.rows_inserted:,}",
    "U": lambda row: f"{row.rows_updated:,}",
    "D": lambda row: f"{row.rows_deleted:,}",
    "quaran-\ntined": lambda row: f"{row.rows_quarantined:,}",
    "rows\nnow": lambda row: f"{row.rows:,}",
    "seconds": lambda row: f"{row.seconds:.1f}",
    "latency": lambda row: "" if row.latency_seconds is None else span(row.latency_seconds),
    "lag": lambda row: "" if row.lag_seconds is None else span(row.lag_seconds),
}


def show_plot(console: Console, found: Sequence[BatchRow], since: datetime, until: datetime) -> None:
    """A line for each part of the time, with the rows read as a bar."""
    width = (until - since) / LINES
    parts: list[list[BatchRow]] = [[] for _ in range(LINES)]
    for row in found:
        parts[min(LINES - 1, max(0, int((row.committed_at - since) / width)))].append(row)
    read = [sum(row.rows_read for row in part) for part in parts]
    grid = Table.grid(padding=(0, 1))
    grid.add_row("from, UTC", "batches", "rows", "half within", "slowest", "", style="bold")
    for number, part in enumerate(parts):
        took = Spread.of(row.latency_seconds for row in part)
        grid.add_row(
            f"{since + number * width:%m-%d %H:%M}",
            f"{len(part):,}",
            f"{read[number]:,}",
            "" if took is None else span(took.p50),
            "" if took is None else span(took.max),
            Bar(max(1, *read), 0, read[number], width=40),
        )
    console.print(grid)
    console.print(f"{many(len(found), 'batch')}, {many(sum(read), 'row')}; within: from a file to the table.")

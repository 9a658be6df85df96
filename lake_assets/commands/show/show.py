"""Results as tables on standard output."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from rich.bar import Bar
from rich.console import Console
from rich.table import Table

from lake_assets.commands.show.latency import BOUNDS, Spread, TableLatency
from lake_assets.commands.show.status import TableStatus
from lake_assets.demo.compare import TableComparison
from lake_assets.rounds.pending_work import SyncResult
from lake_assets.words import many, span


def show_sync(console: Console, result: SyncResult) -> None:
    """Files and rows per layer, then what each table and mart did."""
    if result.applied:
        table = _table(
            "silver", "files", "rows read", "I", "U", "D", "set aside", "rows now", "seconds", "lag"
        )
        for name, data in sorted(result.applied.items()):
            lag = data.get("lag_seconds")
            table.add_row(
                name.split(".")[-1],
                *(
                    f"{data[key]:,}"
                    for key in (
                        "files",
                        "rows_read",
                        "rows_inserted",
                        "rows_updated",
                        "rows_deleted",
                    )
                ),
                f"{data['rows_quarantined'] + data['files_quarantined']:,}",
                f"{data['dagster/row_count']:,}",
                f"{data['seconds']:.1f}",
                "" if lag is None else span(lag),
            )
        console.print(table)
    if result.marts:
        table = _table("gold", "rows written", "rows now", "days", "seconds")
        for name, data in sorted(result.marts.items()):
            seconds = data["seconds_compute"] + data["seconds_write"]
            table.add_row(
                name,
                f"{data['rows_written']:,}",
                f"{data['dagster/row_count']:,}",
                str(data.get("days", "")),
                f"{seconds:.1f}",
            )
        console.print(table)


def show_layers(
    console: Console, result: SyncResult, rows_by_layer: dict[str, tuple[int | None, int]]
) -> None:
    """Files and rows per layer with the seconds that the layer took."""
    table = _table("layer", "files", "rows", "seconds")
    for layer, (files, rows) in rows_by_layer.items():
        table.add_row(
            layer, "" if files is None else f"{files:,}", f"{rows:,}", f"{result.seconds.get(layer, 0):.1f}"
        )
    console.print(table)


def show_comparison(console: Console, comparisons: Sequence[TableComparison]) -> None:
    """A line per table: whether it equals the source, and where not."""
    table = _table("table", "rows in source", "rows in silver", "equal to the source")
    for found in comparisons:
        verdict = "yes"
        if not found.equal:
            verdict = (
                f"NO: {found.missing} missing, {found.unexpected} unexpected, {found.different} different "
                f"{found.examples or ''} {'; '.join(found.schema_problems)}"
            )
        table.add_row(found.table, f"{found.rows_in_source:,}", f"{found.rows_in_lake:,}", verdict)
    console.print(table)


def show_rows(console: Console, title: str, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    """Some columns of a mart's rows."""
    if not rows:
        console.print(f"{title}: no rows")
        return
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right" if _is_number(rows[0][name]) else "left")
    for row in rows:
        table.add_row(*(_text(row[name]) for name in columns))
    console.print(table)


def show_status(console: Console, statuses: Sequence[TableStatus]) -> None:
    """A line per silver table."""
    table = _table(
        "table",
        "state",
        "rows",
        "position",
        "pending files",
        "set aside",
        "lag",
        "latency",
        "last batch",
        "applied at",
    )
    for line in statuses:
        batch = line.last_batch or {}
        table.add_row(
            line.table.removeprefix("silver_"),
            line.state if line.reason is None else f"{line.state}: {line.reason}",
            f"{line.rows:,}",
            str(line.position),
            str(line.pending_files),
            f"{line.quarantined:,}",
            "" if line.lag_seconds is None else span(line.lag_seconds),
            "" if line.latency is None else f"{line.latency.p50:,.1f} / {line.latency.p99:,.1f} s",
            _last_batch(batch) if batch else "",
            line.last_applied or "",
        )
    console.print(table)


def _last_batch(batch: Mapping[str, str]) -> str:
    return f"{batch['kind']}, {many(int(batch['files']), 'file')}, {many(int(batch['rows-read']), 'row')}"


def show_latency(console: Console, found: Sequence[TableLatency]) -> None:
    """A line per table and mart, and a histogram over all tables and one over all marts."""
    table = _table("table", "commits", "commit to file", "file to table", "commit to table")
    for line in found:
        spreads = (line.to_file, line.from_file, line.from_commit)
        table.add_row(line.table.removeprefix("silver_"), f"{line.commits:,}", *map(_spread, spreads))
    console.print(table)
    console.print("Seconds by commit (p50, p99, max), for the oldest change of each.")
    for title, gold in (("silver", False), ("marts", True)):
        lines = [line for line in found if line.table.startswith("gold.") is gold]
        if lines:
            console.print(f"File to {title}, seconds", style="bold")
            _bars(console, [sum(counts) for counts in zip(*(line.histogram for line in lines), strict=True)])


def _spread(spread: Spread | None) -> str:
    return "" if spread is None else f"{spread.p50:,.1f} / {spread.p99:,.1f} / {spread.max:,.1f}"


def _bars(console: Console, counts: Sequence[int]) -> None:
    grid = Table.grid(padding=(0, 1))
    for label, count in zip([*(f"to {bound:g}" for bound in BOUNDS), "above"], counts, strict=True):
        grid.add_row(label, f"{count:,}", Bar(max(counts), 0, count, width=60))
    console.print(grid)


def _table(*columns: str) -> Table:
    table = Table()
    table.add_column(columns[0], no_wrap=True)
    for column in columns[1:]:
        left = column in ("equal to the source", "state", "last batch", "days", "applied at")
        table.add_column(column, justify="left" if left else "right")
    return table


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:%Y-%m-%d %H:%M:%S}" if hasattr(value, "hour") else str(value)

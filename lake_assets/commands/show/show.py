"""Results as tables on standard output."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

from rich.bar import Bar
from rich.console import Console
from rich.table import Table

from lake_assets.commands.show.console import table_of
from lake_assets.commands.show.latency import BOUNDS, TableLatency
from lake_assets.commands.show.status import TableStatus
from lake_assets.demo.compare import TableComparison
from lake_assets.rounds.pending_work import SyncResult
from lake_assets.silver.plan.plan import State
from lake_assets.silver.table.batch_latency import Spread
from lake_assets.words import many, span

_WITHIN = "half / 99 %\nwithin, s"
_WITHIN_MEANS = (
    "within: the time from a file's arrival to its rows in the table, for half of the batches / for 99 % of them "
    "(s; h: hours, d: days)."
)
ROOMY = 140
"""The width of a console, in characters, that has room for a table's last batch."""


def show_sync(console: Console, result: SyncResult) -> None:
    """Files and rows per layer, then what each table and mart did."""
    if result.applied:
        rows = [{"name": name, **data} for name, data in sorted(result.applied.items())]
        applied = table_of(rows, _APPLIED, optional=("I", "U", "D", "quaran-\ntined", "lag"))
        applied.caption, applied.caption_justify = _APPLIED_MEANS, "left"
        console.print(applied)
    if result.marts:
        rows = [{"name": name, **data} for name, data in sorted(result.marts.items())]
        console.print(table_of(rows, _COMPUTED, left=["partitions"]))


def _count(key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: _number(row.get(key, 0))


def _number(value: int) -> str:
    """The number, short enough for a table with all columns to fit into a console of 100 characters."""
    return f"{value:,}" if value < 10_000_000 else f"{value / 1_000_000:,.1f}M"


def _lag(row: Mapping[str, Any]) -> str:
    seconds = row.get("lag_seconds")
    return "" if seconds is None else span(seconds)


_APPLIED: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "silver": lambda row: row["name"].split(".")[-1],
    "files": _count("files"),
    "rows\nread": _count("rows_read"),
    "I": _count("rows_inserted"),
    "U": _count("rows_updated"),
    "D": _count("rows_deleted"),
    "quaran-\ntined": lambda row: _number(row.get("rows_quarantined", 0) + row.get("files_quarantined", 0)),
    "rows\nnow": _count("dagster/row_count"),
    "seconds": lambda row: f"{row.get('seconds', 0):.1f}",
    "lag": _lag,
}
_APPLIED_MEANS = "lag: age of the source's newest commit. Files that two tables read count twice."
_COMPUTED: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "gold": lambda row: row["name"],
    "rows written": _count("rows_written"),
    "rows now": _count("dagster/row_count"),
    "partitions": lambda row: str(row.get("partitions", "")),
    "seconds": lambda row: f"{row.get('seconds', 0):.1f}",
}


def show_layers(
    console: Console, result: SyncResult, rows_by_layer: dict[str, tuple[int | None, int]]
) -> None:
    """Files and rows per layer with the seconds that the layer took."""
    columns: dict[str, Callable[[str], str]] = {
        "layer": str,
        "files": lambda layer: "" if (files := rows_by_layer[layer][0]) is None else f"{files:,}",
        "rows": lambda layer: f"{rows_by_layer[layer][1]:,}",
        "seconds": lambda layer: f"{result.seconds.get(layer, 0):.1f}",
    }
    console.print(table_of(rows_by_layer, columns))


def show_comparison(console: Console, comparisons: Sequence[TableComparison]) -> None:
    """A line per table: whether it equals the source, and the differences."""
    columns: dict[str, Callable[[TableComparison], str]] = {
        "table": lambda found: found.table,
        "rows in source": lambda found: f"{found.rows_in_source:,}",
        "rows in silver": lambda found: f"{found.rows_in_lake:,}",
        "equal to the source": _verdict,
    }
    console.print(table_of(comparisons, columns, left=["equal to the source"]))


def _verdict(found: TableComparison) -> str:
    if found.equal:
        return "yes"
    return (
        f"NO: {found.missing} missing, {found.unexpected} unexpected, {found.different} different "
        f"{found.examples or ''} {'; '.join(found.schema_problems)}"
    )


def show_rows(console: Console, title: str, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    """Some columns of a mart's rows."""
    if not rows:
        console.print(f"{title}: no rows")
        return
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in columns:
        justify: Literal["right", "left"] = "right" if _is_number(rows[0][name]) else "left"
        table.add_column(name.replace("_", " "), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(_text(row[name]) for name in columns))
    console.print(table)


def show_status(console: Console, statuses: Sequence[TableStatus], *, every: bool = False) -> None:
    """A line per silver table that has something to know; with `every`, of all tables. Without the last batch if the
    console has no room for it. If the lake has only one source, the names of the tables do not name it."""
    one = len({line.source for line in statuses}) == 1
    quiet = [] if every else [line for line in statuses if line.is_quiet]
    statuses = [line for line in statuses if every or not line.is_quiet]
    if statuses:
        _show_tables(console, statuses, one=one)
    if quiet:
        console.print(f"{_quiet(quiet)} To see all: lake-assets status --all")


def _quiet(lines: Sequence[TableStatus]) -> str:
    """A sentence about the tables that have no line of their own."""
    current = [line for line in lines if line.state is State.UP_TO_DATE]
    parts = []
    if current:
        rows = many(sum(line.rows for line in current), "row")
        parts.append(f"{many(len(current), 'table', 'are')} up to date, with {rows}")
    if empty := len(lines) - len(current):
        parts.append(f"{many(empty, 'table', 'have')} no files yet")
    return f"{'; '.join(parts)}."


def _show_tables(console: Console, statuses: Sequence[TableStatus], *, one: bool) -> None:
    """`one`: whether the lake has only one source."""
    columns: dict[str, Callable[[TableStatus], str]] = {
        "table": lambda line: (
            line.table.partition(".")[2] or line.table if one else line.table.removeprefix("silver_")
        ),
        "state": lambda line: line.state,
        "rows": lambda line: f"{line.rows:,}",
        "position": lambda line: str(line.position),
        "pending": lambda line: str(line.pending_files),
        "quaran-\ntined": lambda line: f"{line.quarantined:,}",
        "lag": lambda line: "" if line.lag_seconds is None else span(line.lag_seconds),
        _WITHIN: lambda line: (
            "" if line.latency is None else f"{_short(line.latency.p50)} / {_short(line.latency.p99)}"
        ),
    }
    if console.width >= ROOMY:
        columns |= {
            "last batch": lambda line: _last_batch(line.last_batch) if line.last_batch else "",
            "applied at": lambda line: line.last_applied or "",
        }
    table = table_of(
        statuses,
        columns,
        left=["state", "last batch", "applied at"],
        optional=["quaran-\ntined", "lag", _WITHIN],
    )
    if any(line.latency is not None for line in statuses):
        table.caption, table.caption_justify = _WITHIN_MEANS, "left"
    console.print(table)
    for line in statuses:
        if line.reason is not None:
            console.print(f"{line.table}: {line.state}: {line.reason}")


def _last_batch(batch: Mapping[str, str]) -> str:
    """The batch in a few words. One without files, such as that of a table whose files have vanished, is its kind."""
    files, rows = int(batch["files"]), int(batch["rows-read"])
    kind = batch["kind"].replace("_", " ")
    return f"{kind}, {many(files, 'file')}, {many(rows, 'row')}" if files else kind


def show_latency(console: Console, found: Sequence[TableLatency]) -> None:
    """A line per table and mart, and a histogram over all tables and one over all marts."""
    columns: dict[str, Callable[[TableLatency], str]] = {
        "table": lambda line: line.table.removeprefix("silver_"),
        "commits": lambda line: f"{line.commits:,}",
        "commit to file": lambda line: _spread(line.to_file),
        "file to table": lambda line: _spread(line.from_file),
        "commit to table": lambda line: _spread(line.from_commit),
    }
    console.print(table_of(found, columns))
    console.print(
        "Seconds (h: hours, d: days) for the oldest change of a commit: half of the commits took at most the first "
        "figure, 99 % at most the second, none more than the third."
    )
    for title, gold in (("silver", False), ("marts", True)):
        lines = [line for line in found if line.table.startswith("gold.") is gold]
        if lines:
            console.print(f"File to {title}, seconds", style="bold")
            _bars(console, [sum(counts) for counts in zip(*(line.histogram for line in lines), strict=True)])


def _spread(spread: Spread | None) -> str:
    return "" if spread is None else " / ".join(map(_short, (spread.p50, spread.p99, spread.max)))


def _short(seconds: float) -> str:
    """The seconds, so short that three such texts fit into a column of 17 characters: changes of an old file are late
    by days."""
    if seconds < 3600:
        return f"{seconds:.1f}" if seconds < 100 else f"{seconds:.0f}"
    return f"{seconds / 3600:.0f}h" if seconds < 172_800 else f"{seconds / 86_400:,.1f}d"


def _bars(console: Console, counts: Sequence[int]) -> None:
    grid = Table.grid(padding=(0, 1))
    for label, count in zip([*(f"to {bound:g}" for bound in BOUNDS), "above"], counts, strict=True):
        grid.add_row(label, f"{count:,}", Bar(max(counts), 0, count, width=60))
    console.print(grid)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:%Y-%m-%d %H:%M:%S}" if hasattr(value, "hour") else str(value)

"""`lake-assets status`, `latency`, `batches` and `metrics`.

Here: options and output. Not here: the figures and the tables that are printed (`show/`).
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live

from lake_assets.commands.options import AsJson, lake_to_show, print_json
from lake_assets.commands.show.console import messages, printed, results

if TYPE_CHECKING:
    from lake_assets.commands.show.status import TableStatus
    from lake_assets.lake import Lake

WATCH_SECONDS = 2.0
"""Between two looks of `status --watch`."""


def status(
    context: typer.Context,
    as_json: AsJson = False,
    every: Annotated[
        bool, typer.Option("--all", help="Show also tables that are up to date, or have no files yet.")
    ] = False,
    watched: Annotated[
        bool, typer.Option("--watch", help="Look again every two seconds, until Ctrl-C.")
    ] = False,
) -> None:
    """Show the state, position, pending files, lag, rows and last batch of tables that need attention or have work to
    do. Exit with 1 if a table fails or has stopped, a scan has failed, messages of a stream do not land, a warehouse
    lacks commits, or a mart cannot be used. JSON has all tables."""
    lake = lake_to_show(context)
    if watched:
        if as_json:
            raise typer.BadParameter("does not go with --watch", param_hint="--json")
        watch(results(), lambda out: show_or_fault(out, lake, every=every))
        return
    if as_json:
        from lake_assets.commands.show.status import status as table_status

        lines = table_status(lake)
        print_json(lines)
        wrong = is_wrong(messages(), lake, lines)
    else:
        wrong = show_once(results(), messages(), lake, every=every)
    raise typer.Exit(1 if wrong else 0)


def show_once(out: Console, err: Console, lake: "Lake", *, every: bool) -> bool:
    """Prints the tables and what else is to be known; returns whether something is wrong."""
    from lake_assets.commands.show.show import show_status
    from lake_assets.commands.show.status import slow_lines, stray_lines, stream_lines
    from lake_assets.commands.show.status import status as table_status
    from lake_assets.silver.plan.plan import State

    lines = table_status(lake)
    show_status(out, lines, every=every)
    wrong = is_wrong(err, lake, lines)
    for text in [*stream_lines(lines), *stray_lines(lines), *slow_lines(lake, lines)]:
        err.print(text, highlight=False)
    for line in lines:
        if line.quarantine_note is not None:
            err.print(line.quarantine_note)
    if any(line.state is State.STOPPED for line in lines):
        err.print("`lake-assets repair` shows what ends the stops.", highlight=False)
    return wrong


def show_or_fault(out: Console, lake: "Lake", *, every: bool) -> None:
    """As `show_once`; if the catalog or the bucket cannot be read, prints why: the next look may succeed."""
    from lake_assets.config.secrets import hidden_in
    from lake_assets.spark.causes import root_cause

    try:
        show_once(out, out, lake, every=every)
    except Exception as error:  # noqa: BLE001  (of the catalog, the bucket or Dagster's storage)
        at = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        out.print(f"{at}: {hidden_in(lake.config, root_cause(error))}", highlight=False)


def is_wrong(err: Console, lake: "Lake", lines: "list[TableStatus]") -> bool:
    """Whether the user has to act; prints the scans that have failed and the warehouses that are behind."""
    from lake_assets.commands.show.status import late_lines, stream_lines

    unscanned, late = lake.runtime.scan_failures.sentences(), late_lines(lake)
    for text in [*unscanned, *late]:
        err.print(text, highlight=False)
    waits = any(stream_lines(lines).values())
    return bool(lake.broken or unscanned or late or waits or any(line.is_wrong for line in lines))


def watch(
    console: Console, show: Callable[[Console], object], pause: Callable[[float], None] = time.sleep
) -> None:
    """Shows what `show` prints, and its newest text every WATCH_SECONDS, until Ctrl-C."""
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                live.update(printed(show, console), refresh=True)
                pause(WATCH_SECONDS)
    except KeyboardInterrupt:
        return


def latency(context: typer.Context, as_json: AsJson = False) -> None:
    """Show how long changes took from the source to the file, to silver and to the marts: silver's batches of the last
    day, and the commits that the marts still have."""
    from lake_assets.commands.show.latency import latency as table_latency
    from lake_assets.commands.show.show import show_latency

    found = table_latency(lake_to_show(context))
    if as_json:
        print_json(found)
    else:
        show_latency(results(), found)


def batches(
    context: typer.Context,
    table: Annotated[
        str | None,
        typer.Argument(help="schema.table of the source, or the silver table's name; all by default."),
    ] = None,
    since: Annotated[
        str, typer.Option(help="How long ago they may have been committed: 90m, 6h, 7d.")
    ] = "1d",
    plot: Annotated[
        bool, typer.Option("--plot", help="Plot rows, seconds and latency over the time.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the batches of silver, also those whose commits have expired: rows by operation, seconds, latency, lag."""
    from lake_assets.commands.show.batches import batches_of, show_batches, show_plot
    from lake_assets.config.base import parse_duration
    from lake_assets.errors import LakeError

    now = datetime.now(UTC)
    try:
        ago = parse_duration(since)
        assert isinstance(ago, timedelta), "of a text"
        begin = now - ago
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(str(error), param_hint="--since") from error
    lake = lake_to_show(context)
    targets = [target for target in lake.targets if table is None or target.is_called(table)]
    if not targets:
        known = ", ".join(sorted({target.table for target in lake.targets}))
        raise LakeError(f"{table} is not a table of {context.obj}, which has {known}.")
    found = batches_of(lake, targets, begin)
    if as_json:
        print_json([row.shown() for row in found])
    elif plot:
        show_plot(results(), found, begin, now)
    else:
        show_batches(results(160), found)


def metrics(
    context: typer.Context,
    port: Annotated[int, typer.Option(help="Port of the endpoint.")] = 9464,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Whoever reaches it can read the figures.")
    ] = "127.0.0.1",
) -> None:
    """Serve the figures of batches and tables to Prometheus, until it is stopped. Needs the extra `metrics`."""
    from lake_assets.commands.show.metrics import serve
    from lake_assets.spark.preflight import check_port

    lake = lake_to_show(context)
    check_port(port, "the metrics", host=host)
    messages().print(f"Prometheus finds the metrics on http://{host}:{port}/metrics; Ctrl-C stops them.")
    serve(lake, host, port)

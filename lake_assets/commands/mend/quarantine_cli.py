"""`lake-assets quarantine …`: reads the command line, calls the command, prints the result.

Here: options and output. Not here: the work (`quarantine_commands.py`).
"""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lake_assets.commands.options import AsJson, Table, lake_of, lake_to_show, print_json
from lake_assets.commands.show.console import messages, results
from lake_assets.words import many, printable

if TYPE_CHECKING:
    from rich.table import Table as Columns

    from lake_assets.bronze.quarantine.quarantine_log import Quarantined
    from lake_assets.lake import Lake

quarantine = typer.Typer(
    no_args_is_help=True, help="Inspect rows and files that were quarantined, and retry or discard them."
)

Ids = Annotated[list[str] | None, typer.Argument(help="Ids, or their beginnings, as `list` prints them.")]


@quarantine.command("list")
def list_(
    context: typer.Context,
    table: Table = None,
    every: Annotated[bool, typer.Option("--all", help="Include released and discarded rows.")] = False,
    as_json: AsJson = False,
) -> None:
    """List quarantined rows and files."""
    from lake_assets.silver.table.masks import shown

    lake = lake_to_show(context)
    rows = shown(_chosen(lake, table, [], every=every), lake.targets)
    if as_json:
        print_json([_as_dict(held) for held in rows])
        return
    if not rows:
        typer.echo("Nothing is quarantined.")
        return
    results(200).print(_listed(rows))


@quarantine.command()
def show(context: typer.Context, ids: Annotated[list[str], typer.Argument()]) -> None:
    """Show a row with its raw text, its file and the reason."""
    from lake_assets.silver.table.masks import shown

    lake = lake_to_show(context)
    for held in shown(_chosen(lake, None, ids, every=True), lake.targets):
        for name, value in _as_dict(held).items():
            typer.echo(printable(f"{name}: {value}"))
        typer.echo("")


@quarantine.command()
def retry(
    context: typer.Context,
    ids: Ids = None,
    table: Table = None,
    later: Annotated[
        bool,
        typer.Option("--later", help="Only request the retry; the next run of the table reads the rows."),
    ] = False,
) -> None:
    """Read rows again with today's lake.yaml, and report the outcome of each."""
    from lake_assets.commands.mend.quarantine_commands import read_again
    from lake_assets.commands.mend.quarantine_commands import retry as request_retry
    from lake_assets.silver.table.masks import shown
    from lake_assets.spark.session import check_spark

    lake = lake_of(context)
    if not later:
        check_spark(lake.config)
    rows = _chosen(lake, table, _some(ids, table))
    logged = request_retry(lake.runtime, rows)
    if later:
        typer.echo(
            f"{many(len(rows), 'row', 'are')} to be read again from {many(len(logged), 'file')}: run lake-assets sync, "
            "or let the sensor."
        )
        return
    outcome = read_again(lake, rows)
    for held in shown(outcome.held, lake.targets):
        line = f"{held.id} of {held.silver_table} is held again: {held.key}, {_place(held)}: {held.reason}"
        typer.echo(printable(line))
    for reason in outcome.stopped.values():
        messages().print(reason)
    typer.echo(
        f"applied: {len(outcome.applied)}, held again: {len(outcome.held)}, superseded: {len(outcome.superseded)}, "
        f"still to be read: {len(outcome.pending)}"
    )
    raise typer.Exit(outcome.exit_code)


@quarantine.command()
def discard(context: typer.Context, ids: Ids = None, table: Table = None) -> None:
    """Discard rows: silver stays without them."""
    from lake_assets.commands.mend.quarantine_commands import discard as discard_rows

    lake = lake_of(context)
    rows = discard_rows(lake.runtime, _chosen(lake, table, _some(ids, table)))
    typer.echo(f"{many(len(rows), 'row', 'were')} discarded.")


def _listed(rows: "Iterable[Quarantined]") -> "Columns":
    from rich.table import Column
    from rich.table import Table as Columns

    texts = (Column(name, overflow="fold") for name in ("state", "table", "file", "line", "reason"))
    printed = Columns(Column("id", no_wrap=True), *texts)  # an id is copied
    for held in rows:
        printed.add_row(held.id, held.state, held.silver_table, held.key, _line(held), held.reason)
    return printed


def _some(ids: list[str] | None, table: str | None) -> list[str]:
    if not ids and table is None:
        raise typer.BadParameter("name ids, or a table with --table")
    return ids or []


def _chosen(lake: "Lake", table: str | None, ids: list[str], *, every: bool = False) -> "list[Quarantined]":
    from lake_assets.commands.mend.quarantine_commands import chosen

    return chosen(lake.runtime, table, ids, every=every)


def _line(held: "Quarantined") -> str:
    if held.row is None:
        return "whole file"
    return str(held.line) if held.line is not None else f"row {held.row + 1}"


def _place(held: "Quarantined") -> str:
    return f"line {held.line}" if held.row is not None and held.line is not None else _line(held)


def _as_dict(held: "Quarantined") -> dict[str, Any]:
    return {"id": held.id, **asdict(held), "at": held.at.isoformat(timespec="seconds")}

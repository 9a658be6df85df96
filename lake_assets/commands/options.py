"""Shared parts of the commands: arguments and options, the lake that the command line names, JSON output.

Not here: opening a lake for a command that runs Spark (`run/opening.py`).
"""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lake_assets.errors import LakeError

if TYPE_CHECKING:
    from lake_assets.lake import Lake

Name = Annotated[str, typer.Argument(help="schema.table of the source, or the silver table's name.")]
Table = Annotated[str | None, typer.Option(help="Only this table: schema.table, or the silver table's name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def lake_of(context: typer.Context) -> "Lake":
    """The lake of the lake.yaml that the command line names. Raises ConfigError and LakeError."""
    from lake_assets.config.config_file import load_lake
    from lake_assets.lake import open_lake

    return open_lake(load_lake(context.obj))


def lake_to_show(context: typer.Context) -> "Lake":
    """As `lake_of`, for a command that only shows what is in the lake. A mart that cannot be used is left out and named
    on standard error."""
    from lake_assets.config.config_file import load_lake
    from lake_assets.lake import open_without_broken_marts

    lake = open_without_broken_marts(load_lake(context.obj))
    name_broken_marts(lake)
    return lake


def name_broken_marts(lake: "Lake") -> None:
    """Prints on standard error why marts are left out."""
    from lake_assets.commands.show.console import messages

    for reason in lake.broken:
        messages().print(reason, highlight=False)


def ask(question: str, yes: bool) -> None:
    """Asks on the terminal, unless `yes`. Ends the command with 1 if the answer is no; raises LakeError if nobody is
    there to answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise LakeError("Nobody can be asked here: use --yes.")
    if not typer.confirm(question):
        raise typer.Exit(1)


def print_json(found: Any) -> None:
    """A list of dataclasses or of plain values, on standard output."""
    typer.echo(json.dumps(found, indent=2, default=asdict))

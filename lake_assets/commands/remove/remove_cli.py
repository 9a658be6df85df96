"""`lake-assets remove` and `lake-assets destroy`: what would go, the question, and doing it.

Not here: dropping the tables (`removal.py`).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from lake_assets.commands.options import ask, lake_to_show
from lake_assets.words import many

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lake_assets.commands.remove.removal import Removable
    from lake_assets.lake import Lake

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be dropped only.")]


def remove(
    context: typer.Context,
    table: Annotated[
        str,
        typer.Argument(
            help="A table that lake.yaml does not have any more: schema.table, or namespace.table."
        ),
    ],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Drop the silver tables of a source table, or a mart, that lake.yaml does not have any more, with their files,
    contracts and quarantined rows. The files of the source stay."""
    from lake_assets.commands.remove.removal import tables_called

    lake = lake_to_show(context)
    _drop(lake, tables_called(lake, table), yes=yes, dry_run=dry_run)


def destroy(context: typer.Context, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Drop every table of the lake with its files: silver, marts, and the lake's own. The files of the sources,
    lake.yaml, Dagster's history and your own assets stay. Stop the sensors and every running job first."""
    from lake_assets.commands.remove.removal import every_table

    lake = lake_to_show(context)
    _drop(lake, every_table(lake), yes=yes, dry_run=dry_run)


def _drop(lake: "Lake", tables: "Sequence[Removable]", *, yes: bool, dry_run: bool) -> None:
    from lake_assets.commands.remove.removal import remove as dropped

    for table in tables:
        of = f" of {table.of}" if table.of else ""
        typer.echo(f"{table.identifier}{of}: {many(table.rows, 'row')}, {table.bytes / 2**20:,.1f} MB")
    if not tables:
        typer.echo("The lake has no table.")
    if dry_run or not tables:
        return
    ask(f"Drop {many(len(tables), 'table')}? Only the files of the source are left then.", yes)
    for table in tables:
        if (sentence := dropped(lake, table)) is not None:
            typer.echo(sentence)
    typer.echo(f"{many(len(tables), 'table', 'were')} dropped.")

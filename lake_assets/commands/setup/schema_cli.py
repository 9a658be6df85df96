"""`lake-assets schema …`: reads the command line, calls the command, prints the result.

Here: options and output. Not here: the work (`schema_plan.py`).
"""

from typing import Annotated

import typer

from lake_assets.commands.options import AsJson, lake_of, print_json
from lake_assets.words import printable

schema = typer.Typer(no_args_is_help=True, help="Inspect changes of the columns of silver tables.")


@schema.callback()
def options() -> None:
    """Inspect changes of the columns of silver tables."""


@schema.command()
def plan(
    context: typer.Context,
    tables: Annotated[list[str] | None, typer.Argument(help="Tables of the source, as schema.table.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show which columns lake.yaml and the pending files would change. Exit with 1 if a table would stop."""
    from lake_assets.commands.setup.schema_plan import plan as plan_schema

    found = plan_schema(lake_of(context), tables or [])
    if as_json:
        print_json(found)
    elif not found:
        typer.echo("No column would change.")
    else:
        for planned in found:
            for change in planned.changes:
                typer.echo(printable(f"{planned.table}: {change}"))
            if planned.stops is not None:
                typer.echo(printable(f"{planned.table} would stop: {planned.stops}"))
    if any(planned.stops is not None for planned in found):
        raise typer.Exit(1)

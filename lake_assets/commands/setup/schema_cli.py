"""`lake-assets schema …`: reads the command line, calls the command, prints the result.

Here: options and output. Not here: what they do (`schema_plan.py`).
"""

import json
from typing import Annotated

import typer

schema = typer.Typer(no_args_is_help=True, help="Inspect changes of the columns of silver tables.")


@schema.callback()
def options() -> None:
    """Inspect changes of the columns of silver tables."""


@schema.command()
def plan(
    context: typer.Context,
    tables: Annotated[list[str] | None, typer.Argument(help="Tables of the source, as schema.table.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show which columns lake.yaml and the pending files would change. Exit with 1 if a table would stop."""
    from lake_assets.commands.setup.schema_plan import plan as plan_schema
    from lake_assets.config.config_file import load_lake
    from lake_assets.lake import open_lake

    found = plan_schema(open_lake(load_lake(context.obj)), tables or [])
    if as_json:
        typer.echo(json.dumps([planned.as_dict() for planned in found], indent=2))
    elif not found:
        typer.echo("No column would change.")
    else:
        for planned in found:
            for change in planned.changes:
                typer.echo(f"{planned.table}: {change}")
            if planned.stops is not None:
                typer.echo(f"{planned.table} would stop: {planned.stops}")
    if any(planned.stops is not None for planned in found):
        raise typer.Exit(1)

"""`lake-assets new …`: reads the command line, calls the command, prints the result.

Here: arguments, options and output. Not here: the work (`new.py`).
"""

from typing import Annotated

import typer

from lake_assets.commands.options import lake_of
from lake_assets.commands.show.console import messages, results

new = typer.Typer(no_args_is_help=True, help="Add a mart, a table or a source to the lake.")
out = results()
err = messages()

Address = Annotated[
    str | None,
    typer.Option(
        "--from-database",
        metavar="URL",
        envvar="LAKE_SOURCE_URL",
        show_envvar=True,
        help="Read the columns from this database: a SQLAlchemy URL, of which no part is written.",
    ),
]


@new.callback()
def options() -> None:
    """Add a mart, a table or a source to the lake."""


@new.command()
def mart(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The mart's name; its table is gold.NAME.")],
    table: Annotated[str, typer.Option(help="The silver table that it reads.")],
) -> None:
    """Write a mart that reads a table, write its test, and add the mart to lake.yaml."""
    from lake_assets.commands.setup.new import add_mart

    for path in add_mart(context.obj, lake_of(context), name, table):
        out.print(str(path))
    err.print(
        f"{context.obj} names the mart. `python -m pytest tests` tests it, `lake-assets sync` computes it."
    )


@new.command()
def table(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="schema.table of the source.")],
    source: Annotated[str | None, typer.Option(help="Its source in lake.yaml.")] = None,
    address: Address = None,
) -> None:
    """Add a table to a source, and write a test of its declaration."""
    from lake_assets.commands.setup.new import add_table
    from lake_assets.onboarding.lake_yaml_text import open_decisions

    (test,), added = add_table(context.obj, lake_of(context), name, source, address)
    out.print(str(test))
    out.print(f"{context.obj}: {name} is added")
    for decision in open_decisions([added]):
        err.print(f"to decide: {decision}")


@new.command()
def source(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The source's name in lake.yaml.")],
    location: Annotated[
        str | None, typer.Option(help="Where DMS writes: a folder or s3://bucket/prefix.")
    ] = None,
    tables: Annotated[
        list[str] | None, typer.Option("--table", help="schema.table; may be repeated.")
    ] = None,
    address: Address = None,
) -> None:
    """Add a source with the given tables, or with all tables of its database, and write a test."""
    from lake_assets.commands.setup.new import add_source
    from lake_assets.onboarding.lake_yaml_text import open_decisions

    (test,), added = add_source(context.obj, lake_of(context), name, location, tables or [], address)
    out.print(str(test))
    out.print(f"{context.obj}: {name} is added; check the endpoint's settings under `dms`")
    for decision in open_decisions(added):
        err.print(f"to decide: {decision}")

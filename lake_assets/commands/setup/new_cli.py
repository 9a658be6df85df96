"""`lake-assets new …`: reads the command line, calls the command, prints the result.

Here: arguments, options and output. Not here: the work (`new.py`).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lake_assets.commands.options import lake_of
from lake_assets.commands.show.console import messages, results

if TYPE_CHECKING:
    from lake_assets.commands.setup.new import Added

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

    _print(context.obj, name, add_table(context.obj, lake_of(context), name, source, address))


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

    added = add_source(context.obj, lake_of(context), name, location, tables or [], address)
    _print(context.obj, name, added, "check the endpoint's settings under `dms`")


def _print(config: Path, name: str, added: "Added", further: str = "") -> None:
    out.print(str(added.test))
    more = f"; {further}" if further else ""
    if not added.undecided:
        out.print(f"{config}: {name} is added{more}")
        return
    out.print(
        f"{config}: {name} is there as a comment, because something in it is undecided and no command could read the "
        f"file: decide it, and remove the # of its lines{more}"
    )
    for decision in added.undecided:
        err.print(f"to decide: {decision.sentence}", highlight=False, markup=False)

"""`lake-assets full-load`, `recover`, `restore` and `detach`: repairing a lake after a change from outside.

Here: options and output. Not here: the work (`full_load_decision.py`, `recover.py`, `restore.py`, `detach.py`).
"""

from datetime import UTC, datetime
from typing import Annotated

import typer

from lake_assets.commands.options import Name, lake_of
from lake_assets.words import many


def full_load(
    context: typer.Context,
    table: Annotated[str, typer.Argument(help="The table, as schema.table.")],
    reload: Annotated[
        bool | None,
        typer.Option(
            "--reload/--same-load", help="Whether the files are a reload or parts of the previous load."
        ),
    ] = None,
    began: Annotated[
        datetime | None,
        typer.Option(help="Start of the reload in UTC, if the timestamps in its files do not show it."),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Source of the table, if several sources have a table of that name.")
    ] = None,
) -> None:
    """Classify ambiguous full-load files as a reload or as parts of the previous full load."""
    from lake_assets.commands.mend.full_load_decision import decide

    if reload is None:
        raise typer.BadParameter("say --reload or --same-load")
    since = began.replace(tzinfo=UTC) if began is not None else None
    logged = decide(lake_of(context), table, source, reload=reload, began=since)
    what = "the next full load" if reload else "the previous full load"
    typer.echo(
        f"{many(len(logged), 'file', 'belong')} to {what}. Run lake-assets sync, or wait for the sensor."
    )


def recover(context: typer.Context) -> None:
    """Recover the lake's own tables after they were dropped, rolled back or restored from a backup.

    Stop the sensors and every running job first.
    """
    from lake_assets.commands.mend.recover import recover as recovered
    from lake_assets.commands.run.opening import opened

    done = 0
    for line in recovered(opened(context.obj)):
        typer.echo(line)
        done += 1
    typer.echo("Run lake-assets sync now." if done else "Nothing was to be recovered.")


def restore(
    context: typer.Context,
    table: Name,
    to: Annotated[
        str | None,
        typer.Option(
            help="Go back to this commit instead, and pause the table: an id, a tag, or a time in UTC."
        ),
    ] = None,
) -> None:
    """Undo the commits that other writers made to a silver table since the last commit of lake_assets, or go back to an
    earlier commit."""
    if to is not None:
        from lake_assets.commands.history.time_cli import went_back

        went_back(context, table, to)
        return
    from lake_assets.commands.mend.restore import restore as restored
    from lake_assets.commands.run.opening import tables_called

    lake, targets = tables_called(context, table)
    for target in targets:
        undone = restored(lake.runtime, target)
        typer.echo(f"{target.identifier}: {many(undone, 'commit')} undone")


def detach(context: typer.Context, table: Name) -> None:
    """Rename a silver table that has the rows of another source table, to free its name."""
    from lake_assets.commands.mend.detach import detach as detached
    from lake_assets.commands.run.opening import tables_called

    lake, targets = tables_called(context, table)
    for target in targets:
        new = detached(lake.runtime, target)
        typer.echo(
            f"{target.identifier} is now {new}; the next sync loads {target.identifier} from its files."
        )

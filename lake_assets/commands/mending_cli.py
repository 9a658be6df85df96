"""`lake-assets recover`, `restore` and `detach`: what mends a lake after something outside has changed it.

Here: options and output. Not here: what is done (`recover.py`, `restore.py`, `detach.py`).
"""

from typing import Annotated

import typer

Name = Annotated[str, typer.Argument(help="schema.table of the source, or the silver table's name.")]


def recover(context: typer.Context) -> None:
    """Recover the lake's own tables after they were dropped, rolled back or restored from a backup.

    Stop the sensors and every running job first.
    """
    from lake_assets.commands.opening import opened
    from lake_assets.commands.recover import recover as recovered

    done = 0
    for line in recovered(opened(context.obj)):
        typer.echo(line)
        done += 1
    typer.echo("Run lake-assets sync now." if done else "Nothing was to be recovered.")


def restore(context: typer.Context, table: Name) -> None:
    """Undo the commits that others made to a silver table since the last one of lake_assets."""
    from lake_assets.commands.rebuild_cli import chosen
    from lake_assets.commands.restore import restore as restored

    lake, targets = chosen(context, table)
    for target in targets:
        undone = restored(lake.runtime, target)
        typer.echo(f"{target.identifier}: {undone} commit{'' if undone == 1 else 's'} undone")


def detach(context: typer.Context, table: Name) -> None:
    """Rename a silver table that has the rows of another source table, so that its name is free."""
    from lake_assets.commands.detach import detach as detached
    from lake_assets.commands.rebuild_cli import chosen

    lake, targets = chosen(context, table)
    for target in targets:
        new = detached(lake.runtime, target)
        typer.echo(
            f"{target.identifier} is {new} now; the next sync loads {target.identifier} from its files."
        )

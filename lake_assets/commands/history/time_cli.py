"""`lake-assets snapshots`, `diff`, `pause` and `resume`.

Here: options and output. Not here: the work (`time_travel.py`, `silver/table/pause.py`).
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lake_assets.commands.options import AsJson, Name, print_json
from lake_assets.words import many, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lake_assets.commands.history.time_travel import Commit

Moment = "An id or a tag, as `snapshots` prints them, or a time in UTC such as 2026-01-31T12:00."


def snapshots(context: typer.Context, table: Name, as_json: AsJson = False) -> None:
    """List the commits that a silver table still has: time, batch, position, rows, tags."""
    from lake_assets.commands.history.time_travel import commits
    from lake_assets.commands.run.opening import tables_called
    from lake_assets.commands.show.console import results, table_of

    lake, targets = tables_called(context, table)
    found = {target.identifier: commits(lake.runtime, target) for target in targets}
    if as_json:
        print_json(
            [
                {"table": name, "commits": [asdict(one) | {"at": one.at.isoformat()} for one in own]}
                for name, own in found.items()
            ]
        )
        return
    for name, own in found.items():
        results(120).print(table_of(own, _COLUMNS, left=["batch", "tags"], title=name))


def diff(
    context: typer.Context,
    table: Name,
    before: Annotated[str, typer.Option("--from", help=Moment)],
    after: Annotated[str | None, typer.Option("--to", help=f"{Moment} By default the newest commit.")] = None,
) -> None:
    """Compare a silver table at two of its commits: rows that are new, gone or changed, the first twenty of them with
    their cells."""
    from lake_assets.commands.history.time_travel import chosen_commit, commits, difference
    from lake_assets.commands.run.opening import tables_called

    lake, targets = tables_called(context, table)
    for target in targets:
        old = chosen_commit(lake.runtime, target, before)
        new = (
            commits(lake.runtime, target)[0] if after is None else chosen_commit(lake.runtime, target, after)
        )
        found = difference(lake.runtime, target, old, new)
        typer.echo(
            f"{target.identifier}, {old.at:%Y-%m-%d %H:%M:%S} to {new.at:%Y-%m-%d %H:%M:%S} UTC: "
            f"{found.added:,} new, {found.removed:,} gone, {found.changed:,} changed"
        )
        for line in found.examples:
            typer.echo(printable(f"  {line}"))


def pause(
    context: typer.Context,
    table: Name,
    reason: Annotated[str, typer.Option(help="Shown by `status` and in Dagster.")] = "",
) -> None:
    """Pause a silver table: its files wait, and its rows stay as they are, until `resume`. A batch under way is still
    published; the other tables go on."""
    from lake_assets.commands.run.opening import tables_called
    from lake_assets.silver.table.pause import pause as paused

    lake, targets = tables_called(context, table)
    for target in targets:
        paused(lake.runtime, target, reason)
        typer.echo(f"{target.identifier} is paused; `lake-assets resume {target.identifier}` has it go on.")


def resume(context: typer.Context, table: Name) -> None:
    """Let a paused silver table go on: the next round applies the files that have waited."""
    from lake_assets.commands.run.opening import tables_called
    from lake_assets.silver.table.pause import resume as resumed

    lake, targets = tables_called(context, table)
    for target in targets:
        said = "goes on" if resumed(lake.runtime, target) else "was not paused"
        typer.echo(f"{target.identifier} {said}.")


def went_back(context: typer.Context, table: str, named: str) -> None:
    """`restore --to`."""
    from lake_assets.commands.history.time_travel import chosen_commit, go_back
    from lake_assets.commands.run.opening import tables_called

    lake, targets = tables_called(context, table)
    # All before the first goes back: an id is of one table only.
    chosen = [(target, chosen_commit(lake.runtime, target, named)) for target in targets]
    for target, commit in chosen:
        behind = go_back(lake.runtime, target, commit)
        typer.echo(
            f"{target.identifier} is as of {commit.at:%Y-%m-%d %H:%M:%S} UTC again, {many(commit.rows, 'row')}: "
            f"{many(behind, 'commit')} taken back. It is paused; after `lake-assets resume {target.identifier}`, the "
            "files since are applied again."
        )


_COLUMNS: "Mapping[str, Callable[[Commit], str]]" = {
    "snapshot": lambda commit: str(commit.snapshot),
    "committed, UTC": lambda commit: f"{commit.at:%Y-%m-%d %H:%M:%S}",
    "batch": lambda commit: commit.what,
    "position": lambda commit: "" if commit.position is None else f"{commit.position:,}",
    "rows": lambda commit: f"{commit.rows:,}",
    "tags": lambda commit: ", ".join(commit.tags),
}

"""`lake-assets rebuild` and `lake-assets replay`: read the command line, recompute tables, print the differences.

Here: options and output. Not here: the recomputation (`silver/apply/rebuild.py`).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from lake_assets.commands.options import Name
from lake_assets.words import many

if TYPE_CHECKING:
    from lake_assets.silver.apply.rebuild import Rebuilt
    from lake_assets.silver.table.targets import Target

Check = Annotated[bool, typer.Option("--check", help="Compare only; do not change the table.")]
Today = Annotated[
    bool,
    typer.Option(
        "--by-todays-contract",
        help="Read every file with today's lake.yaml, not with the contract of its time.",
    ),
]


Slice = Annotated[
    str | None,
    typer.Option(
        "--slice",
        help="Compare only slices of keys: next, all, different (those that differed), or numbers such as 3 or 3-5.",
    ),
]


def rebuild(
    context: typer.Context, table: Name, check: Check = False, slices: Slice = None, today: Today = False
) -> None:
    """Recompute a silver table from its DMS files, and replace it if it differs."""
    from lake_assets.commands.run.opening import tables_called
    from lake_assets.silver.apply import rebuild as silver

    if slices is not None and (today or not check):
        raise typer.BadParameter("--slice is for --check alone; `lake-assets replay --slice` repairs")
    lake, targets = tables_called(context, table)
    if slices is not None:
        from lake_assets.commands.mend.slice_commands import compare_slices

        raise typer.Exit(compare_slices(lake, keyed(targets), slices))
    differs = False
    for target in targets:
        found = silver.rebuild(lake.runtime, target, publish=not check, by_today=today)
        typer.echo(line_of(target, found, check))
        differs |= not found.equal
    raise typer.Exit(1 if check and differs else 0)


def replay(
    context: typer.Context,
    table: Name,
    first: Annotated[
        str | None, typer.Option("--from", help="Key of the first CDC file, below the source's location.")
    ] = None,
    last: Annotated[
        str | None,
        typer.Option("--to", help="Key of the last CDC file; by default the newest that was applied."),
    ] = None,
    slices: Annotated[
        str | None,
        typer.Option(
            "--slice",
            help="Instead of files, slices of keys whose differing rows are recomputed; named as in rebuild.",
        ),
    ] = None,
    check: Check = False,
    today: Today = False,
) -> None:
    """Recompute rows from all files: the rows that a range of CDC files changes, or those that differ in slices of
    keys."""
    from lake_assets.commands.run.opening import tables_called
    from lake_assets.silver.apply import rebuild as silver

    if (first is None) == (slices is None) or (slices is not None and (last is not None or check or today)):
        raise typer.BadParameter("set --from and what belongs to it, or --slice alone")
    lake, targets = tables_called(context, table)
    if slices is not None:
        from lake_assets.commands.mend.slice_commands import repair_slices

        raise typer.Exit(repair_slices(lake, keyed(targets), slices))
    assert first is not None, "one of the two is set"
    differs = False
    for target in keyed(targets):
        found = silver.replay(lake.runtime, target, first, last, publish=not check, by_today=today)
        typer.echo(line_of(target, found, check))
        differs |= not found.equal
    raise typer.Exit(1 if check and differs else 0)


def keyed(targets: "list[Target]") -> "list[Target]":
    """The target with `mode: current`, the only one that can be recomputed in part. All targets if there is none: the
    engine then says why not."""
    from lake_assets.config import Mode

    return [target for target in targets if target.mode is Mode.CURRENT] or targets


def _masks(target: "Target") -> str:
    masks = target.config.mask
    return f" with masks ({', '.join(f'{name}: {mask}' for name, mask in masks.items())})" if masks else ""


def line_of(target: "Target", found: "Rebuilt", check: bool) -> str:
    """What a rebuild or a replay has done, for the user."""
    if found.equal:
        return f"{target.identifier}: {many(found.files, 'file', 'give')} the rows that it has; nothing was changed"
    if found.reshaped and found.published is not None:
        return (
            f"{target.identifier}: {many(found.files, 'file')}, now as {target.mode}{_masks(target)}, "
            f"{many(found.published.rows, 'row')}; its earlier snapshots have the former rows until "
            "maintenance expires them"
        )
    difference = (
        f"{target.identifier}: {many(found.rows_only_before, 'row')} that the "
        f"{many(found.files, 'file', 'do')} not give, "
        f"{found.rows_only_after} that only they give"
    )
    if check or found.published is None:
        return f"{difference}; left as it is"
    return f"{difference}; replaced, {many(found.published.rows, 'row')} now"

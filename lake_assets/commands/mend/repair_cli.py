"""`lake-assets repair`: print what ends the stops of a lake, ask, and do it.

Here: options, output, and running the steps. Not here: which steps (`repair_plan.py`).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from lake_assets.commands.options import ask
from lake_assets.errors import LakeError, Remedy
from lake_assets.words import many, printable

if TYPE_CHECKING:
    from lake_assets.commands.mend.repair_plan import Repair, RepairPlan
    from lake_assets.lake import Lake

MEGABYTE = 2**20


def repair(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before the steps are taken.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the steps only; exit with 1 if there are any.")
    ] = False,
) -> None:
    """Print what ends the stops of all tables, ask, and do it: recover, detach, restore, rebuild or replay, each as by
    the command of that name. Exit with 1 if something is left to do.

    Stop the sensors and every running job first if the lake's own tables are to be recovered.
    """
    from lake_assets.commands.mend.repair_plan import repair_plan
    from lake_assets.commands.run.opening import opened

    lake = opened(context.obj, spark=not dry_run)
    plan = repair_plan(lake)
    _print(plan)
    if not plan.steps:
        raise typer.Exit(1 if plan.left else 0)
    if dry_run:
        raise typer.Exit(1)
    ask("Take these steps?", yes)
    failed = set[str]()
    for step in plan.steps:
        if not _done(lake, step):
            failed.add(step.name)
            if step.remedy is Remedy.RECOVER:
                break  # the others need the lake's own tables
    # What the lake's own tables hid shows only now.
    rest = repair_plan(opened(context.obj))
    new = [step for step in rest.steps if step.name not in failed]
    if new:
        typer.echo(f"{many(len(new), 'step')} more: run it again.")
    typer.echo("Something is left to do." if rest.steps or rest.left else "Run lake-assets sync now.")
    raise typer.Exit(1 if rest.steps or rest.left else 0)


def _print(plan: "RepairPlan") -> None:
    for number, step in enumerate(plan.steps, start=1):
        size = f" ({many(step.files, 'file')}, {step.bytes / MEGABYTE:,.1f} MB)" if step.files else ""
        typer.echo(printable(f"{number}. {step.name}{size}: {step.reason}"))
    for sentence in plan.left:
        typer.echo(printable(f"Left to you: {sentence}"))
    if not plan.steps and not plan.left:
        typer.echo("Nothing is to be repaired.")


def _done(lake: "Lake", step: "Repair") -> bool:
    """Takes the step; whether that succeeded. The others go on if it did not."""
    from lake_assets.config.secrets import hidden_in
    from lake_assets.spark.causes import root_cause

    try:
        for line in taken(lake, step):
            typer.echo(printable(line))
    except Exception as error:  # noqa: BLE001  (of the catalog or of Spark, too)
        reason = str(error) if isinstance(error, LakeError) else root_cause(error)
        typer.echo(printable(f"{step.name}: {hidden_in(lake.config, reason)}"), err=True)
        return False
    return True


def taken(lake: "Lake", step: "Repair") -> list[str]:
    """Takes the step; returns what was done, in sentences. Raises LakeError if that is impossible; nothing was changed
    then."""
    from lake_assets.commands.mend import rebuild_cli
    from lake_assets.commands.mend.detach import detach
    from lake_assets.commands.mend.recover import recover
    from lake_assets.commands.mend.restore import restore
    from lake_assets.commands.mend.slice_commands import repair_slices
    from lake_assets.silver.apply.rebuild import rebuild

    target = step.target
    if target is None:
        return list(recover(lake))
    match step.remedy:
        case Remedy.DETACH:
            return [f"{target.identifier} is now {detach(lake.runtime, target)}"]
        case Remedy.RESTORE:
            return [f"{target.identifier}: {many(restore(lake.runtime, target), 'commit')} undone"]
        case Remedy.REPLAY:
            repair_slices(lake, [target], "different")
            return []
        case _:
            found = rebuild(lake.runtime, target)
            return [rebuild_cli.line_of(target, found, check=False)]

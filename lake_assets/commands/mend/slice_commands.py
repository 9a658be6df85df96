"""`lake-assets rebuild --check --slice` and `lake-assets replay --slice`: compare or repair slices of keys.

Here: the slices that a user names, and the output. Not here: options (`rebuild_cli.py`), comparing and repairing
(`silver/reconcile/`).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from lake_assets.silver.reconcile.apply_cost import SLICES
from lake_assets.silver.reconcile.cycle import Cycle, chosen_slices
from lake_assets.words import many, printable

if TYPE_CHECKING:
    from lake_assets.lake import Lake
    from lake_assets.silver.table.targets import Target


def compare_slices(lake: "Lake", targets: "Sequence[Target]", named: str) -> int:
    """Compares the slices, prints and records the result; returns the command's exit code."""
    from lake_assets.silver.reconcile import compare_slices as comparison

    code = 0
    for target in targets:
        cycle = _cycle(lake, target, named)
        if not (slices := chosen_slices(named, cycle)):
            typer.echo(f"{target.identifier}: no slice differed when it was compared last")
            continue
        compared = comparison.compare(lake.runtime, target, cycle, slices)
        after = comparison.note(lake.runtime, target, cycle, compared)
        line = f"{target.identifier}: {_names(target, cycle, slices)}, {many(compared.rows, 'row')}"
        if not compared.different:
            typer.echo(f"{line}: equal to its files")
            continue
        code = 1
        number = sum(compared.different.values())
        typer.echo(f"{line}: {many(number, 'row', 'differ')} from its files")
        for one in compared.different:
            typer.echo(printable(after.different[one]))
        typer.echo(f"Next step: lake-assets replay {target.argument} --slice different")
    return code


def repair_slices(lake: "Lake", targets: "Sequence[Target]", named: str) -> int:
    """Repairs the slices and prints the result; returns the command's exit code."""
    from lake_assets.silver.reconcile import repair as repairing
    from lake_assets.silver.reconcile.compare_slices import note_repaired

    code = 0
    for target in targets:
        cycle = _cycle(lake, target, "next" if named == "next" else "")
        if not (slices := chosen_slices(named, cycle)):
            typer.echo(f"{target.identifier}: no slice differed when it was compared last")
            continue
        done = repairing.repair(lake.runtime, target, cycle, slices)
        if not done.left:
            note_repaired(lake.runtime, target, cycle, slices)
        line = f"{target.identifier}: {_names(target, cycle, slices)}"
        if done.published is None and not done.left:
            typer.echo(f"{line}: equal to its files; nothing was changed")
            continue
        typer.echo(f"{line}: {many(done.rows, 'row')} replaced by what the files give")
        if done.left:
            code = 1
            typer.echo(f"{many(done.left, 'row')} changed meanwhile and stay: run it again.")
    return code


def _cycle(lake: "Lake", target: "Target", named: str) -> Cycle:
    """The table's cycle. A new one if there is none, if the user asks for all slices, or if the user asks for the next
    slice and the former cycle is over."""
    from lake_assets.silver.reconcile.compare_slices import begun_cycle, current_cycle, known_cycle

    now = datetime.now(UTC)
    known = known_cycle(lake.runtime, target)
    if known is None or named == "all":
        return begun_cycle(lake.runtime, target, SLICES, known, now)
    return current_cycle(lake.runtime, target, SLICES, None, now) if named == "next" else known


def _names(target: "Target", cycle: Cycle, slices: Sequence[int]) -> str:
    from lake_assets.silver.reconcile.compare_slices import slice_name

    if len(slices) == 1:
        return slice_name(target, cycle, slices[0])
    return f"{len(slices)} of {many(cycle.number, 'slice')}"

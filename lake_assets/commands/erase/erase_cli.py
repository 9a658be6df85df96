"""`lake-assets erase`: its options, its question, and the report of what was erased.

Not here: the plan (`erasure_plan.py`), the steps (`erase.py`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lake_assets.commands.options import Name, ask
from lake_assets.words import many, printable

if TYPE_CHECKING:
    from lake_assets.commands.erase.erase import Erased
    from lake_assets.commands.erase.erasure_plan import ErasurePlan

NOT_COVERED = (
    "the source database and its backups",
    "backups and copies of the lake outside of its warehouse and of the source's location",
    "messages that a stream still keeps",
    "warehouses that copy the tables, rather than read them",
)
"""What no step of an erasure reaches."""


def erase(
    context: typer.Context,
    table: Name,
    keys: Annotated[
        list[str] | None,
        typer.Argument(help="Keys: the text of a value, or a CSV record of the values of several columns."),
    ] = None,
    keys_from: Annotated[
        Path | None,
        typer.Option("--keys", help="A file with a key in each line.", exists=True, dir_okay=False),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="Your own, such as the number of the request; it is in the report.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="The file for the report, as Markdown.")] = None,
    still_in_source: Annotated[
        bool, typer.Option("--still-in-source", help="Erase rows, too, that the source still has.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be erased only.")] = False,
) -> None:
    """Erase every row of some keys for good: from silver, its former commits, the marts, the quarantine, Dagster's
    previews and the files in the bucket. Prove it by a search through every file. Exit with 1 if something is left.

    Delete the rows at the source first. After a kill, run the same command again.
    """
    from lake_assets.commands.erase.erase import Followers
    from lake_assets.commands.erase.erase import erase as erase_keys
    from lake_assets.commands.erase.erasure_plan import erasure_plan
    from lake_assets.commands.run.opening import tables_called
    from lake_assets.commands.show.console import messages

    listed = keys_from.read_text(encoding="utf-8-sig").splitlines() if keys_from else []
    given = [*(keys or ()), *(line.strip() for line in listed if line.strip())]
    if not given:
        raise typer.BadParameter("name a key, or a file of keys with --keys")
    lake, targets = tables_called(context, table)
    first = targets[0]
    # Every shape of the source table, whichever was named.
    targets = [each for each in lake.targets if (each.source, each.table) == (first.source, first.table)]
    plan = erasure_plan(lake, targets, given, still_in_source=still_in_source)
    _print(plan)
    if dry_run:
        return
    ask("Nothing of this can be undone. Erase it?", yes)

    from lake_assets.orchestration.erased_previews import forget_previews
    from lake_assets.orchestration.instance import dagster_instance
    from lake_assets.orchestration.sync import recompute_marts

    with dagster_instance(context.obj.absolute().parent) as instance:
        followers = Followers(
            lambda lake: recompute_marts(lake, instance),
            lambda assets: forget_previews(instance, assets),
            (str(Path(instance.root_directory).absolute()),) if instance.is_persistent else (),
        )
        done = erase_keys(lake, plan, followers, reference, lambda name: messages().print(f"{name} …"))
    lines = [*_report(plan, done)]
    for line in lines:
        typer.echo(printable(line))
    if report is not None:
        report.write_text("\n".join([*lines, ""]), encoding="utf-8")
    raise typer.Exit(1 if done.left else 0)


def _print(plan: "ErasurePlan") -> None:
    rows = sum(len(found.rows) for found in plan.with_rows)
    first = plan.targets[0]
    typer.echo(
        f"{first.table}: {many(len(plan.keys.keys), 'key')}, {many(rows, 'row')} in {len(plan.with_rows)} of "
        f"{many(len(plan.files), 'file')}"
    )
    for found in plan.with_rows:
        typer.echo(printable(f"  {found.file.path}: {many(len(found.rows), 'row')}"))
    for key in plan.orphans:
        typer.echo(printable(f"  {key}: removed, because the log does not need it"))
    typer.echo(
        f"Silver tables: {', '.join(target.identifier for target in plan.targets)}. Their former commits, tags and "
        "branches go, and those of the marts that read them."
    )


def _report(plan: "ErasurePlan", done: "Erased") -> "Iterator[str]":
    erasure = done.erasure
    finished = f"{erasure.finished:%Y-%m-%d %H:%M:%S} UTC" if erasure.finished else "not finished"
    yield f"# Erasure {erasure.id}"
    yield ""
    yield f"- reference: {erasure.reference or 'none'}"
    yield f"- table: {erasure.source}/{erasure.table}, {many(erasure.keys, 'key')}"
    yield f"- began: {erasure.began:%Y-%m-%d %H:%M:%S} UTC; finished: {finished}"
    yield f"- files of the source: {many(erasure.rows, 'row')} removed from {many(len(erasure.files), 'file')}"
    for file in erasure.files:
        yield f"  - {file.key}: {many(len(file.rows), 'row')}"
    for name, rows in done.rows.items():
        yield f"- {name}: {many(rows, 'row')} removed; former commits removed"
    for mart in done.marts:
        yield f"- {mart}: recomputed; former commits removed"
    yield (
        f"- proof: {many(done.files_searched, 'file')} searched for {many(done.values_searched, 'value')} that only "
        f"the erased rows had; {'nothing found' if not done.left else 'something is left'}"
    )
    for sentence in done.left:
        yield f"  - {sentence}"
    yield f"- not covered: {'; '.join(NOT_COVERED)}"

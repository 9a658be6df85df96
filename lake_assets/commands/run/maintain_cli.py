"""`lake-assets maintain`: reads the command line, calls the command, prints the result.

Here: options and output. Not here: the work (`maintain.py`).
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lake_assets.commands.show.console import messages, results, table_of
from lake_assets.words import many

if TYPE_CHECKING:
    from lake_assets.iceberg.upkeep.table_maintenance import Maintained
    from lake_assets.lake import Lake
    from lake_assets.rounds.due_maintenance import TableUpkeep
    from lake_assets.silver.plan.superseded import Superseded
    from lake_assets.storage.object_store import StoredObject


def maintain(
    context: typer.Context,
    source: Annotated[str | None, typer.Option(help="Only this source's silver tables.")] = None,
    table: Annotated[
        str | None, typer.Option(help="Only this table: schema.table, or the silver table's name.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print what each table has, which files would be deleted, and why."),
    ] = False,
) -> None:
    """Merge small files, expire snapshots, drop branches of killed processes, and delete superseded files of sources
    and old runs of Dagster's history. Batches may run meanwhile."""
    if dry_run:
        _show(context, source, table)
        return
    from lake_assets.commands.run.maintain import maintain as maintained
    from lake_assets.commands.run.opening import opened
    from lake_assets.config.secrets import hidden_in
    from lake_assets.orchestration.instance import dagster_instance
    from lake_assets.orchestration.runs.run_retention import OldRuns
    from lake_assets.orchestration.shared.run_tags import own_tag
    from lake_assets.spark.causes import root_cause

    lake = opened(context.obj, source, table, needs_marts=True)
    err = messages()
    outcomes = []
    for done in maintained(lake, source, table):
        outcomes.append(done)
        if done.error is not None:
            err.print(f"{done.table} failed: ", style="bold", end="")
            err.print(hidden_in(lake.config, root_cause(done.error)))
    results().print(table_of(outcomes, _COLUMNS))
    if source is None and table is None:
        with dagster_instance(context.obj.absolute().parent) as instance:
            deleted = OldRuns(lake.config.maintenance, own_tag(lake.config)).delete_all(instance)
        results().print(f"{many(deleted, 'old run')} deleted from Dagster's history.")
    raise typer.Exit(1 if any(done.error is not None for done in outcomes) else 0)


def _show(context: typer.Context, source: str | None, table: str | None) -> None:
    """`maintain --dry-run`."""
    from lake_assets.commands.run.maintain import chosen_targets
    from lake_assets.commands.run.opening import opened
    from lake_assets.rounds.due_maintenance import upkeep

    lake = opened(context.obj, source, table, spark=False, needs_marts=True)
    chosen = {target.identifier for target in chosen_targets(lake, source, table)}
    found = list(upkeep(lake, None if source is None and table is None else chosen))
    results(160).print(table_of(found, _HEALTH))
    due = sum(bool(each.reason) for each in found)
    results().print(f"{many(due, 'table', 'are')} due; the sensor tables_stay_small and sync maintain these.")
    if source is None and table is None:
        for name in lake.config.sources:
            _show_superseded(lake, name)


def _show_superseded(lake: "Lake", source: str) -> None:
    """The files of a source that maintenance would delete, and why others stay."""
    from lake_assets.rounds.superseded_files import former_files, present

    former = former_files(lake.runtime, source, datetime.now(UTC))
    found = [entry for own in present(lake.runtime, former).values() for entry in own]
    if found:
        results(160).print(table_of(found, _SUPERSEDED))
        size = sum(obj.size for obj, _ in found) / 2**20
        results().print(
            f"{source}: {many(len(found), 'superseded file', 'are')} to be deleted, {size:,.1f} MB."
        )
    for each in former:
        if each.kept:
            results().print(
                f"{source}: files of {each.table} from before its newest full load stay: {each.kept}."
            )


def _orphans(table: "TableUpkeep") -> str:
    from lake_assets.errors import LakeError

    try:
        found = table.orphans()
    except (LakeError, FileNotFoundError) as error:
        messages().print(str(error))
        return "?"
    return f"{len(found):,} ({sum(one.bytes for one in found) / 2**20:,.1f} MB)" if found else ""


_HEALTH: Mapping[str, "Callable[[TableUpkeep], str]"] = {
    "table": lambda each: each.table,
    "data files": lambda each: f"{each.health.files.number:,}",
    "small": lambda each: f"{each.health.files.small:,}",
    "MB": lambda each: f"{each.health.files.bytes / 2**20:,.1f}",
    "delete\nfiles": lambda each: f"{each.health.files.delete_files:,}",
    "deleted rows": lambda each: (
        f"{each.health.files.deleted_rows:,} ({each.health.files.deleted_share:.0%})"
        if each.health.files.deleted_rows
        else ""
    ),
    "full scan /\nfresh copy": lambda each: f"{each.health.files.scan_ratio:.1f}",
    "snapshots": lambda each: f"{each.health.snapshots:,}",
    "due": lambda each: each.reason or "-",
    "MB to rewrite": lambda each: f"{each.rewritten_bytes / 2**20:,.1f}" if each.rewritten_bytes else "",
    "orphan files": _orphans,
}
_SUPERSEDED: Mapping[str, "Callable[[tuple[StoredObject, Superseded]], str]"] = {
    "superseded file": lambda entry: entry[0].key,
    "MB": lambda entry: f"{entry[0].size / 2**20:,.3f}",
    "by the full load of": lambda entry: f"{entry[1].load:%Y-%m-%d %H:%M:%S} UTC",
    "in the log since": lambda entry: f"{entry[1].since:%Y-%m-%d %H:%M:%S} UTC",
}
_COLUMNS: Mapping[str, "Callable[[Maintained], str]"] = {
    "table": lambda done: done.table,
    "data files": lambda done: f"{done.files_before:,} → {done.files_after:,}",
    "rewritten": lambda done: f"{done.files_rewritten:,}",
    "snapshots": lambda done: f"{done.snapshots_before:,} → {done.snapshots_after:,}",
    "orphans": lambda done: f"{done.orphans_removed:,}",
    "MB\nremoved": lambda done: f"{done.bytes_removed / 2**20:,.3f}" if done.bytes_removed else "",
    "seconds": lambda done: f"{done.seconds:.1f}",
}

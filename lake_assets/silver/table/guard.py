"""Whether batches may be applied to a silver table: it is of this source table and shape, without foreign commits.

Here: those checks, over the table's metadata. Not here: its position (`position.py`), repairs
(`silver/apply/rebuild.py`, `commands/mend/restore.py`, `commands/mend/detach.py`).
"""

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from lake_assets.errors import Remedy, TableStopped
from lake_assets.iceberg.lake_format import refuse_newer
from lake_assets.iceberg.metadata_files import SOURCE_TABLE
from lake_assets.iceberg.table_io import committed_at, summary
from lake_assets.iceberg.upkeep.retention import main_chain
from lake_assets.silver.table.position import LOG_OFFSET
from lake_assets.silver.table.shape import refuse_other_shape
from lake_assets.silver.table.targets import Target
from lake_assets.words import many

__all__ = ["SOURCE_TABLE", "refuse_unfit", "source_table"]


def refuse_unfit(target: Target, table: Table | None) -> None:
    """Raises TableStopped for a table of another source table or shape, and for one with foreign commits."""
    refuse_other_source(target, table)
    refuse_other_shape(target, table)
    refuse_foreign_commits(target, table)


def source_table(target: Target) -> str:
    """The value of SOURCE_TABLE for a target."""
    return f"{target.source}/{target.table}"


def refuse_other_source(target: Target, table: Table | None) -> None:
    """Raises TableStopped when the table has the rows of another source table."""
    named = table.properties.get(SOURCE_TABLE) if table is not None else None
    if named in (None, source_table(target)):
        return
    raise TableStopped(
        target.table,
        f"{target.identifier} has the rows of {named}, and lake.yaml gives its name to {source_table(target)}.",
        f"Set the name back, or run `lake-assets detach {target.identifier}`: it renames that table, and the next sync "
        f"loads {target.identifier} from the files of {target.table}.",
    ).mended_by(Remedy.DETACH)


def foreign_commits(table: Table | None) -> list[Snapshot]:
    """The commits above the newest position that changed rows and are not lake_assets' own, the newest first. Raises
    NewerFormat for a position of a newer release."""
    if table is None:
        return []
    found: list[Snapshot] = []
    for snapshot in main_chain(table):
        if LOG_OFFSET in (properties := summary(snapshot)):
            refuse_newer(".".join(table.name()), properties)
            return found
        if snapshot.summary is None or snapshot.summary.operation is not Operation.REPLACE:
            found.append(snapshot)
    # Without any position, `read_position` raises the error.
    return []


def refuse_foreign_commits(target: Target, table: Table | None) -> None:
    """Raises TableStopped when others have committed rows to the table, unless `foreign_commits: tolerate`."""
    found = foreign_commits(table)
    if not found or target.config.foreign_commits == "tolerate":
        return
    raise TableStopped(
        target.table,
        f"{described(found)} to {target.identifier} and not by lake_assets.",
        f"Run `lake-assets restore {target.identifier}` to go back to the last commit of lake_assets, or "
        f"`lake-assets rebuild {target.identifier}` to compute the table again from its files. If others may write to "
        "it, set foreign_commits: tolerate.",
    ).mended_by(Remedy.RESTORE)


def described(found: list[Snapshot]) -> str:
    """The newest of some commits, and their number: the beginning of a sentence."""
    newest = found[0]
    operation = newest.summary.operation.value if newest.summary is not None else "commit"
    by = next(
        (f" by {summary(newest)[name]}" for name in ("app-id", "engine-name") if name in summary(newest)), ""
    )
    more = f" and {many(len(found) - 1, 'more snapshot', 'were')}" if len(found) > 1 else " was"
    return f"Snapshot {newest.snapshot_id} ({operation}{by}, {committed_at(newest):%Y-%m-%d %H:%M:%S} UTC){more} made"

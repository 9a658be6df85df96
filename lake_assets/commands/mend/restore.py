"""`lake-assets restore`: restores a silver table to the last commit of lake_assets.

Here: finding that commit and moving main to it. Not here: recomputing a table from its files
(`silver/apply/rebuild.py`).
"""

from lake_assets.errors import LakeError
from lake_assets.iceberg.table_io import load_table, rollback
from lake_assets.iceberg.upkeep.restamp import stamped_snapshot
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.guard import foreign_commits
from lake_assets.silver.table.position import SILVER
from lake_assets.silver.table.targets import Target


def restore(runtime: LakeRuntime, target: Target) -> int:
    """Undoes the commits of other writers above the last one of lake_assets. Returns their number. Raises LakeError if
    the last commit of lake_assets has expired."""
    table = load_table(runtime.catalog, target.identifier)
    foreign = foreign_commits(table)
    if not foreign or table is None:
        return 0
    last = stamped_snapshot(table, SILVER)
    if last is None:
        raise LakeError(
            f"{target.identifier}: the last commit of lake_assets has expired. Run `lake-assets rebuild "
            f"{target.identifier}`."
        )
    with runtime.sessions.isolated() as spark:
        spark.sql(rollback(runtime.lake.catalog.name, target.identifier, last.snapshot_id))
    return len(foreign)

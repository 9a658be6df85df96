"""Leaving nothing of a table but its newest commit: no former snapshot, no deleted row in a file.

A delete marks rows, and an expiry deletes only the files that no snapshot needs: the bytes of a deleted row stay for
weeks. Here: the steps that remove them, of a table that Spark writes and of one of the platform's own. Not here:
maintenance, which keeps former snapshots (`table_maintenance.py`, `ops_maintenance.py`).
"""

from datetime import UTC, datetime

from pyiceberg.table import Table

from lake_assets.iceberg.publish import drop_branch
from lake_assets.iceberg.table_io import current_snapshot, load_table
from lake_assets.iceberg.upkeep.ops_maintenance import delete_unreferenced
from lake_assets.iceberg.upkeep.retention import MAIN
from lake_assets.iceberg.upkeep.table_maintenance import TableMaintenance
from lake_assets.spark.sql import sql, table_address

ANY = 1e-12
"""Share of deleted rows: one of them is enough."""


def purge(maintenance: TableMaintenance, tag: str | None = None) -> None:
    """Drops every branch and tag of the table but `tag`, writes files with deleted rows again, moves `tag` to the
    newest snapshot, and expires all others. Any run under way plans its batch again. May be repeated after a kill.
    Raises what Spark raises."""
    table = load_table(maintenance.catalog, maintenance.identifier)
    if table is None or current_snapshot(table) is None:
        return
    _drop_refs(maintenance, table, tag)
    maintenance.compact(worn_share=ANY)
    # The commit that removes a file still lists it, with the bounds of its values. The next commit does not.
    maintenance.restamp(always=True)
    table = load_table(maintenance.catalog, maintenance.identifier)
    head = current_snapshot(table)
    assert table is not None
    assert head is not None
    if tag is not None:
        move_tag(maintenance, tag, head.snapshot_id)
    ids = [one.snapshot_id for one in table.metadata.snapshots if one.snapshot_id != head.snapshot_id]
    maintenance.before_expiry(table)
    maintenance.expire_these(ids)


def move_tag(maintenance: TableMaintenance, tag: str, snapshot_id: int) -> None:
    """Has a tag name another snapshot."""
    address = table_address(maintenance.catalog.name, maintenance.identifier)
    move = "ALTER TABLE {table} CREATE OR REPLACE TAG {tag} AS OF VERSION {snapshot}"
    maintenance.spark.sql(sql(move, table=address, tag=tag, snapshot=snapshot_id)).collect()


def _drop_refs(maintenance: TableMaintenance, table: Table, kept: str | None) -> None:
    address = table_address(maintenance.catalog.name, maintenance.identifier)
    for name, ref in table.metadata.refs.items():
        if name in (MAIN, kept):
            continue
        if ref.snapshot_ref_type == "tag":
            drop = sql("ALTER TABLE {table} DROP TAG IF EXISTS {tag}", table=address, tag=name)
            maintenance.spark.sql(drop).collect()
        else:
            drop_branch(maintenance.spark, address, name)


def purge_small_table(table: Table) -> None:
    """The same of a table of the platform's own, whose rows have been replaced. Raises CommitFailedException if another
    process commits meanwhile."""
    head = table.current_snapshot()
    if head is None:
        return
    former = [one for one in table.metadata.snapshots if one.snapshot_id != head.snapshot_id]
    table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
    delete_unreferenced(table, former)

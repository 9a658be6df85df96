"""Leaving nothing of a table but its newest commit: no former snapshot, no deleted row in a file.

A delete marks rows, and an expiry deletes only the files that no snapshot needs: the bytes of a deleted row stay for
weeks. Here: the steps that remove them, of a table that Spark writes and of one of the platform's own. Not here:
maintenance, which keeps former snapshots (`table_maintenance.py`, `ops_maintenance.py`).
"""

from collections import defaultdict
from datetime import UTC, datetime

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table

from lake_assets.iceberg.publish import drop_branch
from lake_assets.iceberg.table_io import current_snapshot, load_table, set_property
from lake_assets.iceberg.upkeep.ops_maintenance import delete_unreferenced
from lake_assets.iceberg.upkeep.retention import MAIN
from lake_assets.iceberg.upkeep.table_maintenance import TableMaintenance
from lake_assets.spark.sql import Sql, literal, sql, table_address

ANY = 1e-12
"""Share of deleted rows: one of them is enough."""
MANIFEST_SIZE = "commit.manifest.target-size-bytes"
"""The table property by which Iceberg decides into how many manifests it writes those of a table."""


def purge(maintenance: TableMaintenance, tag: str | None = None) -> None:
    """Drops every branch and tag of the table but `tag`, writes files with deleted rows again, moves `tag` to the
    newest snapshot, and expires all others. Any run under way plans its batch again. May be repeated after a kill.
    Raises what Spark raises."""
    table = load_table(maintenance.catalog, maintenance.identifier)
    if table is None or current_snapshot(table) is None:
        return
    _drop_refs(maintenance, table, tag)
    maintenance.compact(worn_share=ANY)
    maintenance.compact_manifests()
    _forget_removed(maintenance)
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


def _forget_removed(maintenance: TableMaintenance) -> None:
    """Writes manifests again that list removed files beside files that stay: with these, later commits keep them."""
    table = load_table(maintenance.catalog, maintenance.identifier)
    head = current_snapshot(table)
    assert table is not None
    assert head is not None
    by_content = defaultdict[ManifestContent, list[ManifestFile]](list)
    for manifest in head.manifests(table.io):
        by_content[manifest.content].append(manifest)
    mixed = [each for each in by_content.values() if any(map(_is_mixed, each))]
    if not mixed:
        return
    # Iceberg does not write the only manifest of a table again, unless it is to become two.
    alone = [only.manifest_length for only, *others in mixed if not others]
    try:
        if alone:
            _alter(maintenance, set_property(MANIFEST_SIZE, str(max(1, min(alone) // 2))))
        maintenance.rewrite_manifests()
    finally:
        # Also what a run has left that was killed here.
        if alone or MANIFEST_SIZE in table.properties:
            _alter(maintenance, sql("UNSET TBLPROPERTIES IF EXISTS ({name})", name=literal(MANIFEST_SIZE)))


def _is_mixed(manifest: ManifestFile) -> bool:
    living = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
    return bool(manifest.deleted_files_count and living)


def _alter(maintenance: TableMaintenance, change: Sql) -> None:
    address = table_address(maintenance.catalog.name, maintenance.identifier)
    maintenance.spark.sql(sql("ALTER TABLE {table} {change}", table=address, change=change)).collect()


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

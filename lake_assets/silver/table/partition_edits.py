"""Whether a silver table has the partitions of lake.yaml.

Maintenance changes them, because it rewrites the table's files; a batch, which takes seconds, does not. Here: the note
until then. Not here: changing them (`iceberg/upkeep/table_maintenance.py`). Pure.
"""

from pyiceberg.table import Table

from lake_assets.iceberg.partitioning import is_partitioned_by, partitions_of
from lake_assets.silver.table.targets import Target


def unapplied_partitions(target: Target, table: Table | None) -> str | None:
    """A sentence about partitions of lake.yaml that the table does not have yet; None if it has them."""
    if table is None or is_partitioned_by(table, target.partition_by):
        return None
    has, wanted = (", ".join(found) or "nothing" for found in (partitions_of(table), target.partition_by))
    state = f"is partitioned by {has}, and lake.yaml says {wanted}"
    if has == wanted:
        state = f"has files from before it was partitioned by {wanted}"
    return (
        f"{target.identifier} {state}: run `lake-assets maintain --source {target.source} --table {target.argument}`, "
        "which rewrites its files."
    )

"""`lake-assets detach`: a silver table that has another source table's rows, out of the way under another name.

Here: renaming it, and what `lake_ops` has under its name. Every step may be repeated after a kill. Not here: loading
the table that gets its name (`sync`).
"""

import re

from lake_assets.errors import LakeError
from lake_assets.iceberg.table_io import load_table
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.guard import SOURCE_TABLE, source_table
from lake_assets.silver.table.targets import Target


def detach(runtime: LakeRuntime, target: Target) -> str:
    """Renames the table that stands in the target's place; its new name. Raises LakeError when it is the target's."""
    table = load_table(runtime.catalog, target.identifier)
    said = table.properties.get(SOURCE_TABLE) if table is not None else None
    if said in (None, source_table(target)):
        raise LakeError(f"{target.identifier} has no rows of another table: there is nothing to detach.")
    former = re.sub(r"\W+", "_", said.partition("/")[2]).lower()
    new = f"{target.namespace}.{target.name}_of_{former}"
    if load_table(runtime.catalog, new) is not None:
        raise LakeError(f"{new} is there already: drop it or rename it first.")
    # First what would be taken for the new table's.
    runtime.contracts.rename(target.identifier, new)
    runtime.quarantine.rename(target.identifier, new)
    runtime.catalog.rename_table(target.identifier, new)
    return new

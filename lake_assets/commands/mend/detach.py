"""`lake-assets detach`: renames a silver table that has another source table's rows.

Here: renaming it, and its entries in `lake_ops`. Every step can be repeated after a kill. Not here: loading the table
that gets its name (`sync`).
"""

import re

from lake_assets.errors import LakeError
from lake_assets.iceberg.table_io import load_table
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.guard import SOURCE_TABLE, source_table
from lake_assets.silver.table.targets import Target


def detach(runtime: LakeRuntime, target: Target) -> str:
    """Renames the table that has the target's name, and returns its new name. Raises LakeError if its rows are the
    target's own."""
    table = load_table(runtime.catalog, target.identifier)
    other_table = table.properties.get(SOURCE_TABLE) if table is not None else None
    if other_table in (None, source_table(target)):
        raise LakeError(f"{target.identifier} has no rows of another table: there is nothing to detach.")
    former = re.sub(r"\W+", "_", other_table.partition("/")[2]).lower()
    new = f"{target.namespace}.{target.name}_of_{former}"
    if load_table(runtime.catalog, new) is not None:
        raise LakeError(f"{new} exists already: drop it or rename it first.")
    # First the entries that would otherwise count as the new table's.
    runtime.contracts.rename(target.identifier, new)
    runtime.quarantine.rename(target.identifier, new)
    runtime.catalog.rename_table(target.identifier, new)
    return new

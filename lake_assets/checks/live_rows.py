"""The rows of a silver table, counted three ways from its metadata: no data file is read, and no Spark is needed.

Here: the figures of one snapshot. Not here: the comparison (`silver/table/row_count.py`).
"""

from collections.abc import Callable, Mapping

from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table

from lake_assets.iceberg.table_io import live_rows, summary
from lake_assets.iceberg.upkeep.retention import main_chain
from lake_assets.silver.table.position import LOG_OFFSET
from lake_assets.silver.table.row_count import LiveRows


def counted_rows(
    table: Table | None,
    is_own: Callable[[Mapping[str, str]], bool] = lambda properties: LOG_OFFSET in properties,
) -> LiveRows:
    """The rows at the head of main; all zeros for a table that does not exist or has no snapshot on main. `is_own`:
    whether a commit with these summary properties is the lake's own."""
    chain = main_chain(table) if table is not None else []
    if table is None or not chain:
        return LiveRows(committed=None, by_summary=0, by_files=0)
    committed = next((s for s in chain if is_own(summary(s))), None)
    files = [
        entry.data_file
        for manifest in chain[0].manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    ]
    rows = {
        content: sum(file.record_count for file in files if file.content is content)
        for content in DataFileContent
    }
    return LiveRows(
        committed=live_rows(summary(committed)) if committed is not None else None,
        by_summary=live_rows(summary(chain[0])),
        by_files=rows[DataFileContent.DATA] - rows[DataFileContent.POSITION_DELETES],
        equality_deletes=rows[DataFileContent.EQUALITY_DELETES],
    )

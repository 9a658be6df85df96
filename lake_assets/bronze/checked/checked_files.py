"""A batch's Parquet files that Spark need not check: their figures and their keys.

Here: looking at several files. Not here: the look at one file (`parquet_values.py`), reading their rows with Spark
(`bronze/reader/read_changes.py`).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from lake_assets.bronze.checked.dms_columns import CheckedFiles
from lake_assets.bronze.checked.parquet_values import checked_file
from lake_assets.bronze.layouts.file_layouts import parquet_layout
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.storage.object_store import ObjectStore

AT_ONCE = 4
"""Files that are checked at the same time: for small files in a bucket, requests take most of the time."""


def checked_files(
    store: ObjectStore,
    files: Sequence[LoggedFile],
    *,
    name: str,
    table: TableConfig,
    dms: DmsSettings,
    with_changes: bool = False,
) -> list[CheckedFiles] | None:
    """The checked Parquet files, whose operations, times and sequences are all usable; None if Spark has to check one.
    Raises TableStopped when a file's columns do not fit the contract."""
    # Only a look at all of its values shows whether an update lacks columns of kept_when_null.
    key = table.key_types if with_changes and not table.kept_when_null else None

    def check(file: LoggedFile) -> CheckedFiles | None:
        layout, types, then = parquet_layout(name, file, table, dms)
        rows = checked_file(store, file, layout, types, then, table.clock(then), key)
        return None if rows is None else CheckedFiles({file.offset: rows.figures.rows}, rows)

    found: list[CheckedFiles] = []
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for one in threads.map(check, files):
            if one is None:
                return None
            found.append(one)
    return found

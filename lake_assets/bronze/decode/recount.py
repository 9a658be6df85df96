"""The row count of a file that the scan did not count.

Here: inspecting the file again, by its format. Not here: how a file is counted (`bronze/files/inspect.py`,
`bronze/files/transactions.py`).
"""

from collections.abc import Collection
from dataclasses import replace

from lake_assets.bronze.files.inspect import inspect_file
from lake_assets.bronze.files.keys import TRANSACTIONS
from lake_assets.bronze.files.transactions import Share, inspect_transactions
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, table_text
from lake_assets.storage.object_store import ObjectStore


def counted(store: ObjectStore, file: LoggedFile, dms: DmsSettings, tables: Collection[str]) -> LoggedFile:
    """The file with its own row count, columns and regularity; for a transaction file, the rows of the record's own
    table. `tables` are those that lake.yaml names. Raises UnreadableFile for bad content, StoreError if it cannot be
    fetched."""
    if file.rows is not None:
        return file
    if file.format == TRANSACTIONS:
        known = inspect_transactions(store, file, dms, tables)
        shares = [known.get(table_text(file.schema, name), Share()) for name in file.names]
        times = [share.first_commit_ts for share in shares if share.first_commit_ts is not None]
        rows = sum(share.rows for share in shares)
        irregular = next((share.irregular for share in shares if share.irregular is not None), None)
        return replace(file, rows=rows, first_commit_ts=min(times, default=None), irregular=irregular)
    found = inspect_file(store, replace(file, key=file.path), dms, with_content=False)
    return replace(file, rows=found.rows, columns=found.columns, width=found.width, irregular=found.irregular)

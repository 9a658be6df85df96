"""The records that the log keeps of a transaction file: its *shares*, one for each table that it has rows of.

Here: which tables get a record, with how many rows. Not here: reading the file (`bronze/files/transactions.py`), what
enters the log (`bronze/log/admission.py`).

Further records say what no row says:
- of a version that nobody can read, every table that lake.yaml names has a record without a row count, so that each of
  them stops at it; and so does a table that lake.yaml names later (`is_unsettled`);
- a table that had rows in the version before and has none now gets a record of no rows, or its old record would go on
  naming content that is gone;
- a file without any row has a record of no table (`NOBODY`), or it would be read again at every look.
Tables that lake.yaml does not name have their records too, with which their later life begins.
"""

from collections.abc import Collection, Mapping

from lake_assets.bronze.files.content import UnreadableFile
from lake_assets.bronze.files.inspection import FileInspection
from lake_assets.bronze.files.keys import TransactionFile, UnknownKey
from lake_assets.bronze.files.transactions import Share, inspect_transactions
from lake_assets.bronze.log.log_record import LoggedFile, NewFile
from lake_assets.config import DmsSettings
from lake_assets.storage.object_store import ObjectGone, ObjectStore, StoredObject, StoreError

NOBODY = "."
"""The `schema.table` of the record of a file without rows."""

Shares = Mapping[str, LoggedFile]
"""The log's records of the newest version of one transaction file, by `schema.table`."""


def is_unsettled(shares: Shares, tables: Collection[str]) -> bool:
    """Whether a version that could not be read lacks the record of a table that lake.yaml names by now."""
    return any(share.rows is None for share in shares.values()) and any(t not in shares for t in tables)


def strangers(shares: Collection[str], tables: Collection[str]) -> set[str]:
    """The tables of the shares that lake.yaml does not name, without DMS's own."""
    unnamed = {table for table in shares if table not in tables and table != NOBODY}
    return {table for table in unnamed if not table.partition(".")[2].lower().startswith("awsdms_")}


def find_shares(
    obj: StoredObject,
    file: TransactionFile,
    known: Shares,
    store: ObjectStore,
    dms: DmsSettings,
    tables: Collection[str],
) -> list[NewFile] | UnknownKey:
    """What the log is to keep of the file; nothing if it is gone, or holds what the log knows already.

    An object that cannot be fetched is told, and not logged: there is no telling whom to stop for it.
    """
    try:
        version = store.version(obj)
        same = any(share.version == version for share in known.values())
        if same and not is_unsettled(known, tables):
            return []
        found = inspect_transactions(store, file, dms, tables)
    except ObjectGone:
        return []
    except StoreError as error:
        return UnknownKey(obj.key, str(error))
    except UnreadableFile:
        # Why, each table says when it stops.
        rows: dict[str, Share | None] = dict.fromkeys(sorted({*known, *tables} - {NOBODY}))
    else:
        expected = {*known, *(tables if is_unsettled(known, tables) else ())} - {NOBODY}
        rows = {**{table: Share() for table in sorted(expected)}, **found} or {NOBODY: Share()}
    shares = []
    for name, share in rows.items():
        schema, _, table = name.partition(".")
        inspection = FileInspection(share.rows, None, share.first_commit_ts) if share else FileInspection()
        shares.append(NewFile.of(obj, file, version, inspection, schema=schema, table=table))
    return shares

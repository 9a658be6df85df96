"""The log's records of a transaction file: its *shares*, one for each table of which it has rows.

Here: which tables get a record, with how many rows. Not here: reading the file (`bronze/files/transactions.py`), which
files are logged (`bronze/log/admission.py`).

Further records without rows:
- for a version that cannot be read, every table in lake.yaml gets a record without a row count, so that each of them
  stops at it; and so does a table that is added to lake.yaml later (`is_unsettled`);
- a table that had rows in the previous version and has none now gets a record with 0 rows, or its old record would
  still name content that is gone;
- a file without any row gets a record of no table (`NO_TABLE`), or every scan would read it again.
Tables that lake.yaml does not name get records too, from which they start when they are configured.
"""

from collections.abc import Collection, Mapping

from lake_assets.bronze.files.content import UnreadableFile
from lake_assets.bronze.files.inspection import FileInspection
from lake_assets.bronze.files.keys import TransactionFile, UnknownKey
from lake_assets.bronze.files.transactions import Share, inspect_transactions
from lake_assets.bronze.log.log_record import LoggedFile, NewFile
from lake_assets.config import SourceConfig, TableName
from lake_assets.storage.object_store import ObjectGone, ObjectStore, StoredObject, StoreError

NO_TABLE = "."
"""The `schema.table` of the record of a file without rows."""

Shares = Mapping[str, LoggedFile]
"""The log's records of the newest version of one transaction file, by `schema.table`."""


def is_unsettled(shares: Shares, source: SourceConfig) -> bool:
    """Whether a version that could not be read lacks the record of a table that lake.yaml names now, or of all
    partitions of one with `folders`, whose names only the rows show."""
    if all(share.rows is not None for share in shares.values()):
        return False
    joined = {share.qualified_table for share in shares.values() if share.partitions}
    return any(
        name not in shares or (table.folders and name not in joined) for name, table in source.tables.items()
    )


def unnamed_tables(shares: Collection[str], source: SourceConfig) -> set[str]:
    """The tables of the shares that lake.yaml does not name, without DMS's own."""
    unnamed = {
        table
        for table in shares
        if table != NO_TABLE and table not in source.tables and not _joined_by(TableName.parse(table), source)
    }
    return {table for table in unnamed if not TableName.parse(table).table.lower().startswith("awsdms_")}


def find_shares(
    obj: StoredObject,
    file: TransactionFile,
    known: Shares,
    store: ObjectStore,
    source: SourceConfig,
) -> list[NewFile] | UnknownKey:
    """The file's records for the log; none if the file is gone or the log has this version.

    An object that cannot be fetched is reported and not logged, because it is unknown which tables it concerns.
    """
    tables = source.tables
    try:
        version = store.version(obj)
        same = any(share.version == version for share in known.values())
        if same and not is_unsettled(known, source):
            return []
        found = inspect_transactions(store, file, source.dms, tables)
    except ObjectGone:
        return []
    except StoreError as error:
        return UnknownKey(obj.key, str(error))
    except UnreadableFile:
        # Each table reports the reason when it stops.
        rows: dict[str, Share | None] = dict.fromkeys(sorted({*known, *tables} - {NO_TABLE}))
    else:
        expected = {*known, *(tables if is_unsettled(known, source) else ())} - {NO_TABLE}
        rows = {**{table: Share() for table in sorted(expected)}, **found} or {NO_TABLE: Share()}
    shares = []
    for name, share in rows.items():
        stream = TableName.parse(name)
        owners = _joined_by(stream, source) if name not in tables else []
        if len(owners) > 1:
            both = " and ".join(owners)
            return UnknownKey(obj.key, f"it has rows of {name}, which the folders of {both} all match")
        owner = TableName.parse(owners[0]) if owners else stream
        own = (stream.table,) if owners else ()
        inspection = FileInspection()
        if share is not None:
            inspection = FileInspection(share.rows, None, share.first_commit_ts, irregular=share.irregular)
        shares.append(
            NewFile.of(obj, file, version, inspection, schema=owner.schema, table=owner.table, partitions=own)
        )
    return shares


def _joined_by(stream: TableName, source: SourceConfig) -> list[str]:
    """The tables with `folders` to which rows that name this table belong."""
    return [name for name in source.tables_of(stream) if source.tables[name].folders]

"""Finding the state of the file log from which the silver tables were applied.

Here: the states that the log's metadata files still hold. Not here: building a new log from the bucket
(`commands/mend/recover.py`), the conditions for a state (`silver/table/log_mark.py`).
"""

from collections.abc import Callable, Sequence

from pyiceberg.catalog import Catalog
from pyiceberg.table import StaticTable, Table

from lake_assets.bronze.log.file_log import TABLE
from lake_assets.bronze.log.log_record import LoggedFile, Owner, from_arrow, of_nobody
from lake_assets.iceberg.metadata_files import default_location, metadata_files, point_to

Agrees = Callable[[str, Sequence[LoggedFile]], bool]
"""Whether all silver tables can have been applied from a log with this UUID and these records."""


def former_state(catalog: Catalog, agrees: Agrees, owner: Owner = of_nobody) -> tuple[str, int] | None:
    """The newest state of the log that `agrees` accepts: the address of a metadata file and a snapshot in it; None
    without one. `owner`: see `FileLog`. Skips snapshots whose files were deleted."""
    tried: set[int] = set()
    for address, metadata in metadata_files(catalog, _location(catalog)):
        for snapshot in sorted(metadata.snapshots, key=lambda s: s.sequence_number or 0, reverse=True):
            if snapshot.snapshot_id in tried:
                continue
            tried.add(snapshot.snapshot_id)
            records = _records(catalog, address, snapshot.snapshot_id, owner)
            if records is not None and agrees(str(metadata.table_uuid), records):
                return address, snapshot.snapshot_id
    return None


def go_back(catalog: Catalog, state: tuple[str, int]) -> None:
    """Makes that state the current one of the log."""
    address, snapshot_id = state
    table = point_to(catalog, TABLE, address)
    if table.metadata.current_snapshot_id != snapshot_id:
        table.manage_snapshots().set_current_snapshot(snapshot_id).commit()


def _location(catalog: Catalog) -> str:
    table = _loaded(catalog)
    return table.location() if table is not None else default_location(catalog, TABLE)


def _loaded(catalog: Catalog) -> Table | None:
    try:
        return catalog.load_table(TABLE)
    except Exception:  # noqa: BLE001  (whatever is wrong with the table, its default folder is searched)
        return None


def _records(catalog: Catalog, address: str, snapshot_id: int, owner: Owner) -> list[LoggedFile] | None:
    try:
        table = StaticTable.from_metadata(address, catalog.properties)
        return list(from_arrow(table.scan(snapshot_id=snapshot_id).to_arrow(), owner))
    except Exception:  # noqa: BLE001  (a file of it was deleted)
        return None

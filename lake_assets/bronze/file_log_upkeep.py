"""Keeping the file log small, as a part of appending to it.

Here: merging small data files, expiring snapshots, deleting what no snapshot needs. Not here: the upkeep of silver
and gold (`lake_assets/iceberg/maintenance.py`). No record is ever changed or dropped.

An append copies the table's metadata some twenty times (PyIceberg 0.12), so the number of snapshots costs time; a
scan opens every data file, so their number does. PyIceberg's expiry forgets snapshots, but leaves their files.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import LongType

from lake_assets.bronze.log_record import above

KEEP_SNAPSHOTS = 10
MAX_SNAPSHOTS = 30
MAX_SMALL_FILES = 50
SMALL_FILE_BYTES = 1 << 20


def is_due(table: Table) -> bool:
    """Whether enough snapshots have come together: a property of the table, so that no process need count."""
    return len(table.metadata.snapshots) >= MAX_SNAPSHOTS


def tend(table: Table) -> None:
    """Merges, expires, deletes. May be killed at any point; gives way to another process that does the same."""
    with suppress(CommitFailedException):
        merge_small_files(table)
        delete_unreferenced(table, expire_snapshots(table))


def merge_small_files(table: Table) -> None:
    """Rewrites the newest, small data files as one. Files of more than a mebibyte are never written again."""
    files = [(_highest_offset(table, task.file), task.file) for task in table.scan().plan_files()]
    floor = max(
        (highest for highest, file in files if file.file_size_in_bytes >= SMALL_FILE_BYTES), default=0
    )
    small = [file for highest, file in files if highest > floor]
    if len(small) < MAX_SMALL_FILES:
        return
    rows = table.scan(row_filter=above(floor)).to_arrow().sort_by("offset")
    if rows.num_rows != sum(file.record_count for file in small):
        raise RuntimeError(
            f"{'.'.join(table.name())}: {rows.num_rows} rows above offset {floor} are not what its manifests say"
        )
    # Whole files match the filter, so they are dropped by their statistics. Refused if main has moved.
    table.overwrite(rows, overwrite_filter=above(floor))


def _highest_offset(table: Table, file: DataFile) -> int:
    return int(from_bytes(LongType(), file.upper_bounds[table.schema().find_field("offset").field_id]))


def expire_snapshots(table: Table) -> list[Snapshot]:
    """Expires all but the newest ten, and what branches and tags point to; returns the expired ones."""
    table.refresh()
    before = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    oldest_kept = before[-KEEP_SNAPSHOTS:][0]
    limit = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=oldest_kept.timestamp_ms)
    # Not by_ids, which copies the metadata for each id.
    table.maintenance.expire_snapshots().older_than(limit).commit()
    kept = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    return [snapshot for snapshot in before if snapshot.snapshot_id not in kept]


def delete_unreferenced(table: Table, expired: Iterable[Snapshot]) -> None:
    """Deletes the files that the expired snapshots had to themselves.

    A commit on its way cannot need them: it builds on the current snapshot, which is kept, or is refused.
    """
    expired_manifests, expired_lists = _manifests(table, expired)
    kept_manifests, kept_lists = _manifests(table, table.metadata.snapshots)
    gone = {path: manifest for path, manifest in expired_manifests.items() if path not in kept_manifests}
    data = _data_files(table, gone.values()) - _data_files(table, kept_manifests.values())
    # Lists last: what a crash leaves over can still be found from them by hand.
    for path in (*data, *gone, *(expired_lists - kept_lists)):
        with suppress(FileNotFoundError):
            table.io.delete(path)


def _manifests(table: Table, snapshots: Iterable[Snapshot]) -> tuple[dict[str, ManifestFile], set[str]]:
    manifests, lists = {}, set()
    for snapshot in snapshots:
        lists.add(snapshot.manifest_list)
        manifests.update({manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)})
    return manifests, lists


def _data_files(table: Table, manifests: Iterable[ManifestFile]) -> set[str]:
    return {
        entry.data_file.file_path
        for manifest in manifests
        for entry in manifest.fetch_manifest_entry(table.io)
    }

"""Keeping the platform's own small tables small, with PyIceberg and without a JVM.

Here: expiring snapshots, deleting the files that no snapshot needs, and merging the files of a table that is read
whole. Not here: the file log's own merging (`bronze/log/file_log_maintenance.py`), silver and gold
(`table_maintenance.py`).

PyIceberg's expiry removes snapshots from the metadata, but leaves their files.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

KEEP_SNAPSHOTS = 10
MAX_SMALL_FILES = 20
_AT_ONCE = 16
"""Requests to a bucket at the same time; each takes some tens of milliseconds."""


def maintain_small_table(table: Table, needed: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> None:
    """Merges files, expires snapshots, deletes files. May be killed at any point; stops if another process appends.
    `needed`: selects the rows that the merged file keeps."""
    with suppress(CommitFailedException):
        if len(list(table.scan().plan_files())) > MAX_SMALL_FILES:
            # Refused if main has moved, because the table allows no retries: rows appended meanwhile are not lost.
            table.overwrite(needed(table.scan().to_arrow()))
        delete_unreferenced(table, expire_snapshots(table))


def expire_snapshots(table: Table) -> list[Snapshot]:
    """Expires all snapshots but the newest ten and those of branches and tags; returns the expired ones."""
    table.refresh()
    if len(table.metadata.snapshots) <= KEEP_SNAPSHOTS:
        return []
    before = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    oldest_kept = before[-KEEP_SNAPSHOTS:][0]
    limit = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=oldest_kept.timestamp_ms)
    # Not by_ids, which copies the metadata for each id.
    table.maintenance.expire_snapshots().older_than(limit).commit()
    kept = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    return [snapshot for snapshot in before if snapshot.snapshot_id not in kept]


def delete_unreferenced(table: Table, expired: Iterable[Snapshot]) -> None:
    """Deletes the files that only the expired snapshots used.

    A concurrent commit cannot need them: it builds on the current snapshot, which is kept, or is refused.
    """
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="expire") as threads:
        expired_manifests, expired_lists = _manifests(table, expired, threads)
        kept_manifests, kept_lists = _manifests(table, table.metadata.snapshots, threads)
        gone = {path: manifest for path, manifest in expired_manifests.items() if path not in kept_manifests}
        data = _data_files(table, gone.values(), threads) - _data_files(
            table, kept_manifests.values(), threads
        )

        def delete(path: str) -> None:
            with suppress(FileNotFoundError):
                table.io.delete(path)

        list(threads.map(delete, [*data, *gone]))
        # Lists last: after a crash, the remaining files can still be found from them by hand.
        list(threads.map(delete, expired_lists - kept_lists))


def _manifests(
    table: Table, snapshots: Iterable[Snapshot], threads: ThreadPoolExecutor
) -> tuple[dict[str, ManifestFile], set[str]]:
    snapshots = list(snapshots)
    found = threads.map(lambda snapshot: snapshot.manifests(table.io), snapshots)
    manifests = {manifest.manifest_path: manifest for of_snapshot in found for manifest in of_snapshot}
    return manifests, {snapshot.manifest_list for snapshot in snapshots}


def _data_files(table: Table, manifests: Iterable[ManifestFile], threads: ThreadPoolExecutor) -> set[str]:
    found = threads.map(lambda manifest: manifest.fetch_manifest_entry(table.io), manifests)
    return {entry.data_file.file_path for entries in found for entry in entries}

"""What a table would gain from maintenance, by its own metadata: no data file is read, and no Spark is needed.

Here: how many of its files, deleted rows, manifests and snapshots maintenance would take, from when on that is worth
it, and how much longer a full scan takes than one of a freshly written copy. Not here: which snapshots may expire
(`retention.py`), the rewrite and the expiry (`table_maintenance.py`).

The figures are those by which Iceberg's rewrite chooses. Otherwise a table could stay due whatever is done to it.
"""

import math
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cachetools import LRUCache
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lake_assets.config import MaintenanceConfig
from lake_assets.iceberg.file_io.pyiceberg_private import files_of_manifest
from lake_assets.iceberg.partitioning import has_former_partitions, partition_changes
from lake_assets.iceberg.table_io import current_snapshot, summary
from lake_assets.iceberg.upkeep.orphan_files import is_search_due
from lake_assets.iceberg.upkeep.parts_and_limits import (
    FILE_SIZE,
    LARGE,
    MIN_SMALL_FILES,
    WORN_SHARE,
    Part,
    small_size,
)
from lake_assets.iceberg.upkeep.restamp import StampRule, stamped_snapshot
from lake_assets.iceberg.upkeep.retention import expirable
from lake_assets.words import many

SMALL_FILES = 20
"""So many small files of one partition are worth a rewrite: each reader opens all of them."""
SCATTERED_FILES = 200
"""So many small files are worth a rewrite wherever they are, if their partitions have enough to be merged."""
WORN_BYTES = 64 << 20
"""So many bytes of files with many deleted rows are worth a rewrite, however few the files."""
MANIFESTS = 50
"""So many manifests are worth a rewrite: every plan reads all of them."""
MANIFEST_SIZE = 8 << 20
"""Iceberg's own size of a manifest that it rewrites."""
SNAPSHOTS = 20
"""So many snapshots that nothing needs are worth an expiry: each commit writes the list of all snapshots again."""
SNAPSHOTS_SHARE = 0.1
"""And such a share of all: an expiry reads the lists of manifests of those that stay."""
BEHIND = 2
"""At so many times the limits, maintenance has not kept up. A table that somebody else maintains, too, is due."""
SCAN_SECONDS, FILE_SECONDS, VECTOR_SECONDS, MB_SECONDS = 0.14, 0.002, 0.0013, 0.01
"""What a full scan by Spark takes at all, and for each data file, file of deletes and MB, as
`benchmarks/read_health.py` measured it. Only their ratios count."""
_PATH = 2147483546
"""Iceberg's id of the column with a data file's path in a file of position deletes."""


@dataclass(frozen=True, slots=True)
class Files:
    """The data files of a snapshot, which never change."""

    number: int = 0
    """All that a full scan opens."""
    bytes: int = 0
    rows: int = 0
    """Of all data files, with the deleted ones."""
    partitions: int = 0
    """Those that have files. Of a table with few files, as many as it may have at most."""
    small_size: int = 0
    """The bytes below which a file is small."""
    small: int = 0
    """Of a table with few files, all."""
    crowded: int = 0
    """The most small files that one partition has."""
    mergeable: int = 0
    """Small files of partitions that have at least MIN_SMALL_FILES, which the rewrite merges."""
    worn: int = 0
    """Files that have lost WORN_SHARE of their rows, or have MIN_SMALL_FILES of deletes."""
    worn_bytes: int = 0
    rewritten_bytes: int = 0
    """Bytes of all that the rewrite takes."""
    delete_files: int = 0
    """Files of position deletes, and deletion vectors."""
    deleted_rows: int = 0
    manifests: int = 0
    manifest_bytes: int = 0

    @property
    def deleted_share(self) -> float:
        """Of the rows of its data files, those that a scan reads in vain."""
        return self.deleted_rows / self.rows if self.rows else 0.0

    @property
    def scan_ratio(self) -> float:
        """How many times as long a full scan takes as that of a freshly written copy of its rows: an estimate."""
        living = self.bytes * (1 - self.deleted_share)
        fresh = max(self.partitions, math.ceil(living / FILE_SIZE))
        return _scan_seconds(self.number, self.delete_files, self.bytes) / _scan_seconds(fresh, 0, living)


def _scan_seconds(files: int, delete_files: int, size: float) -> float:
    """`size`: bytes."""
    return SCAN_SECONDS + FILE_SECONDS * files + VECTOR_SECONDS * delete_files + MB_SECONDS * size / 2**20


@dataclass(frozen=True, slots=True)
class Health:
    """One table at one moment."""

    files: Files
    snapshots: int
    expirable: int
    """Snapshots that nothing needs."""
    former_partitions: bool = False
    """Whether the rewrite takes all files, because the table's partitions have changed."""
    orphans_due: bool = False
    """Whether it is time to search for orphan files."""
    history_due: bool = False
    """Whether it is time to look for rows that `keep_history` no longer keeps."""
    is_broken: bool = False
    """Whether the head's list of manifests is gone: maintenance goes back to the commit before
    (`TableMaintenance.take_back`)."""

    @property
    def behind(self) -> str:
        """Why full scans take longer than they should although maintenance would help: it has not kept up. Empty if
        it has."""
        return self.due(BEHIND).get(Part.FILES, "")

    @property
    def scans(self) -> str:
        """A sentence about full scans."""
        if self.is_broken:
            return "A full scan fails."
        files = self.files
        small = f", {files.small:,} of them small" if files.small else ""
        deletes = f" and {many(files.delete_files, 'file')} of deletes" if files.delete_files else ""
        return (
            f"A full scan opens {many(files.number, 'data file')}{small}{deletes}, and takes about "
            f"{files.scan_ratio:.1f} times as long as that of a fresh copy."
        )

    def figures(self) -> dict[str, float]:
        """What a full scan opens and reads; empty if it fails."""
        if self.is_broken:
            return {}
        files = self.files
        return {
            "data_files": files.number,
            "small_files": files.small,
            "delete_files": files.delete_files,
            "deleted_rows": files.deleted_rows,
            "deleted_share": round(files.deleted_share, 4),
            "data_bytes": files.bytes,
            "scan_ratio": round(files.scan_ratio, 2),
        }

    @property
    def rewritten_bytes(self) -> int:
        """Bytes of the data files that the rewrite takes."""
        return self.files.bytes if self.former_partitions else self.files.rewritten_bytes

    def due(self, times: int = 1) -> dict[Part, str]:
        """The parts of the table's maintenance that are worth their time, and why. `times`: how much of the limits has
        to be reached, for a table that somebody else maintains, too."""
        files = self.files
        scattered = files.mergeable >= SCATTERED_FILES * times
        small = files.mergeable if scattered else files.crowded if files.crowded >= SMALL_FILES * times else 0
        worn = files.worn >= MIN_SMALL_FILES * times or files.worn_bytes >= WORN_BYTES * times
        needed = 2 * (files.manifest_bytes // MANIFEST_SIZE + 1)
        loose = files.manifests >= MANIFESTS * times and files.manifests > needed
        reasons = {
            Part.FILES: (
                "a newest commit whose files are gone" if self.is_broken else "",
                many(small, "small file") if small else "",
                f"{many(files.worn, 'file')} with many deleted rows" if worn else "",
                many(files.manifests, "manifest") if loose else "",
            ),
            Part.SNAPSHOTS: (
                f"{many(self.expirable, 'snapshot')} that nothing needs"
                if self.expirable >= max(SNAPSHOTS, SNAPSHOTS_SHARE * self.snapshots) * times
                else "",
            ),
            Part.HISTORY: ("rows that keep_history may no longer keep" if self.history_due else "",),
            Part.ORPHANS: ("files that may be orphans" if self.orphans_due else "",),
        }
        return {part: ", ".join(filter(None, why)) for part, why in reasons.items() if any(why)}


_known: LRUCache[tuple[str, int], Files] = LRUCache(4096)
"""By table and snapshot: a look at an unchanged table reads its metadata file alone."""
_lock = threading.Lock()


def health(
    table: Table,
    settings: MaintenanceConfig,
    now: datetime,
    stamps: StampRule,
    consumed: Collection[int | None] = (),
    partition_by: Sequence[str] | None = None,
) -> Health:
    """The health of main. `now`: UTC; `stamps`, `consumed`, `partition_by`: as of the table's maintenance."""
    stamped = None if current_snapshot(table) is None else stamped_snapshot(table, stamps)
    ids = expirable(
        table, settings, now, stamped=None if stamped is None else stamped.snapshot_id, consumed=consumed
    )
    is_due = is_search_due(table, settings.remove_orphan_files_after, now)
    return replace(read_health(table, partition_by), expirable=len(ids), orphans_due=is_due)


def read_health(table: Table, partition_by: Sequence[str] | None = None) -> Health:
    """The health of main for its readers, to whom snapshots are nothing: none counts as expirable."""
    head = current_snapshot(table)
    changed = partition_by is not None and bool(partition_changes(table, partition_by))
    is_broken = head is not None and not table.io.new_input(head.manifest_list).exists()
    files = Files() if head is None or is_broken else _files(table, head)
    return Health(
        files,
        snapshots=len(table.metadata.snapshots),
        expirable=0,
        former_partitions=head is not None and (changed or (not is_broken and has_former_partitions(table))),
        is_broken=is_broken,
    )


def _files(table: Table, head: Snapshot) -> Files:
    place = str(table.metadata.table_uuid), head.snapshot_id
    with _lock:
        known = _known.get(place)
    if known is None:
        known = _looked_at(table, head)
        with _lock:
            _known[place] = known
    return known


def _looked_at(table: Table, head: Snapshot) -> Files:
    """The files of the head. Reads its manifests only if the summary shows that a rewrite may be worth it."""
    found = _totals(table, head)
    is_few = found.number < SMALL_FILES and (not found.deleted_rows or found.number < MIN_SMALL_FILES)
    # If one file could not be small, only the manifests say how many are.
    is_known = is_few and found.bytes < (WORN_BYTES if found.deleted_rows else LARGE)
    return found if is_known else read_files(table, head)


def _totals(table: Table, head: Snapshot) -> Files:
    """What the summary says; all files count as small, none as crowded."""
    manifests, totals = head.manifests(table.io), summary(head)
    number, deleted, rows, size, delete_files = (
        int(totals.get(f"total-{name}", "0"))
        for name in ("data-files", "position-deletes", "records", "files-size", "delete-files")
    )
    return Files(
        number=number,
        bytes=size,
        rows=rows,
        partitions=min(number, 1) if table.spec().is_unpartitioned() else number,
        small=number,
        rewritten_bytes=size,
        delete_files=delete_files,
        deleted_rows=deleted,
        manifests=len(manifests),
        manifest_bytes=sum(each.manifest_length for each in manifests),
    )


def read_files(table: Table, head: Snapshot) -> Files:
    """The files of the head, by its manifests. Iceberg's rewrite takes the same ones, by their `small_size`."""
    entries = [
        (each.partition_spec_id, *one)
        for each in head.manifests(table.io)
        for one in files_of_manifest(each, table.io)
    ]
    lost, deletes = Counter[str](), Counter[str]()
    for _, file, referenced in entries:
        # A delete file of several data files counts for none, as in the share by which Iceberg's rewrite chooses.
        if file.content is DataFileContent.POSITION_DELETES and (path := referenced or _only_path(file)):
            lost[path] += file.record_count
            deletes[path] += 1
    partitions, worn = (
        defaultdict[tuple[int, Any], list[int]](list),
        defaultdict[tuple[int, Any], list[int]](list),
    )
    for spec, file, _ in entries:
        if file.content is DataFileContent.DATA:
            size, place = file.file_size_in_bytes, (spec, file.partition)
            partitions[place].append(size)
            path, rows = file.file_path, file.record_count
            if (rows and lost[path] >= WORN_SHARE * rows) or deletes[path] >= MIN_SMALL_FILES:
                worn[place].append(size)
    limit = small_size(partitions.values())
    small = {place: [size for size in sizes if size < limit] for place, sizes in partitions.items()}
    crowds = [len(sizes) for sizes in small.values()]
    taken = 0
    for place, sizes in small.items():
        is_enough = len(sizes) >= MIN_SMALL_FILES or (len(sizes) > 1 and sum(sizes) > FILE_SIZE)
        if worn[place] or is_enough:
            taken += sum(sizes) + sum(size for size in worn[place] if size >= limit)
    return replace(
        _totals(table, head),
        number=sum(map(len, partitions.values())),
        bytes=sum(map(sum, partitions.values())),
        partitions=len(partitions),
        small_size=limit,
        small=sum(crowds),
        crowded=max(crowds, default=0),
        mergeable=sum(number for number in crowds if number >= MIN_SMALL_FILES),
        worn=sum(map(len, worn.values())),
        worn_bytes=sum(map(sum, worn.values())),
        rewritten_bytes=taken,
    )


def _only_path(file: Any) -> str | None:
    """The one data file that a file of position deletes is of; None if there are several."""
    lower, upper = ((bounds or {}).get(_PATH) for bounds in (file.lower_bounds, file.upper_bounds))
    return lower.decode() if lower is not None and lower == upper else None

"""What a table would gain from maintenance, by its own metadata: no data file is read, and no Spark is needed.

Iceberg's rewrite takes files of less than three quarters of the target size, and files of which 30 % of the rows are
deleted. Here: how many of them a table has, and from when on they are worth a rewrite or an expiry. Not here: which
snapshots may expire (`retention.py`), the rewrite and the expiry (`table_maintenance.py`).
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyiceberg.table import Table

from lake_assets.config import MaintenanceConfig
from lake_assets.iceberg.table_io import current_snapshot
from lake_assets.iceberg.upkeep.restamp import StampRule, stamped_snapshot
from lake_assets.iceberg.upkeep.retention import expirable
from lake_assets.iceberg.upkeep.table_maintenance import FILE_SIZE, MIN_SMALL_FILES, WORN_SHARE, Part
from lake_assets.words import many

SMALL_FILES = 20
"""So many small files of one partition are worth a rewrite: each reader opens all of them."""
MANIFESTS = 50
"""So many manifests are worth a rewrite: every plan reads all of them."""
SNAPSHOTS = 20
"""So many snapshots that nothing needs are worth an expiry: each commit writes the list of all snapshots again."""


@dataclass(frozen=True, slots=True)
class Health:
    """One table at one moment."""

    files: int
    bytes: int
    """Of the data files."""
    small: int
    """Data files below three quarters of the target size."""
    mergeable: int
    """Those of them in partitions that have at least SMALL_FILES."""
    worn: int
    """Data files of which at least WORN_SHARE of the rows are deleted."""
    rewritten_bytes: int
    """Bytes of the data files that a rewrite takes."""
    deleted_rows: int
    manifests: int
    snapshots: int
    expirable: int

    @property
    def due(self) -> dict[Part, str]:
        """The parts of the table's maintenance that are worth their time, and why."""
        reasons = {
            Part.FILES: (
                f"{many(self.mergeable, 'small file')}" if self.mergeable else "",
                f"{many(self.worn, 'file')} with many deleted rows" if self.worn >= MIN_SMALL_FILES else "",
                f"{many(self.manifests, 'manifest')}" if self.manifests >= MANIFESTS else "",
            ),
            Part.SNAPSHOTS: (
                f"{many(self.expirable, 'snapshot')} that nothing needs"
                if self.expirable >= SNAPSHOTS
                else "",
            ),
        }
        return {part: ", ".join(filter(None, why)) for part, why in reasons.items() if any(why)}


def health(
    table: Table,
    settings: MaintenanceConfig,
    now: datetime,
    stamps: StampRule,
    consumed: Collection[int | None] = (),
) -> Health:
    """The health of main. `now`: UTC; `stamps`, `consumed`: as of the table's maintenance."""
    head = current_snapshot(table)
    tasks = [] if head is None else list(table.scan().plan_files())
    partitions = defaultdict[tuple[int, Any], list[int]](list)
    worn, worn_bytes, deleted_rows = 0, 0, 0
    for task in tasks:
        file = task.file
        deleted = sum(each.record_count for each in task.delete_files)
        deleted_rows += deleted
        is_worn = bool(file.record_count) and deleted >= WORN_SHARE * file.record_count
        worn += is_worn
        if file.file_size_in_bytes < FILE_SIZE * 3 // 4:
            partitions[file.spec_id, file.partition].append(file.file_size_in_bytes)
        elif is_worn:
            worn_bytes += file.file_size_in_bytes
    mergeable = [sizes for sizes in partitions.values() if len(sizes) >= SMALL_FILES]
    stamped = None if head is None else stamped_snapshot(table, stamps)
    ids = expirable(
        table, settings, now, stamped=None if stamped is None else stamped.snapshot_id, consumed=consumed
    )
    return Health(
        files=len(tasks),
        bytes=sum(task.file.file_size_in_bytes for task in tasks),
        small=sum(map(len, partitions.values())),
        mergeable=sum(map(len, mergeable)),
        worn=worn,
        rewritten_bytes=worn_bytes
        + sum(sum(sizes) for sizes in partitions.values() if len(sizes) >= MIN_SMALL_FILES),
        deleted_rows=deleted_rows,
        manifests=0 if head is None else len(head.manifests(table.io)),
        snapshots=len(table.metadata.snapshots),
        expirable=len(ids),
    )

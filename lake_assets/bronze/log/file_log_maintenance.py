"""Maintenance of a log, as a part of appending to it: the file log, and the batch log.

Here: when it runs, and merging small data files. Not here: expiry (`iceberg/upkeep/ops_maintenance.py`), the
maintenance of silver and gold (`iceberg/upkeep/table_maintenance.py`), merging records (`streams/merged_records.py`).
This maintenance never changes or drops a record.

An append copies the table's metadata some twenty times (PyIceberg 0.12), so many snapshots cost time; a scan opens
every data file, so many data files do too.
"""

from contextlib import suppress

from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import BooleanExpression, GreaterThan, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.types import LongType

from lake_assets.iceberg.upkeep.ops_maintenance import delete_unreferenced, expire_snapshots
from lake_assets.words import does, many

MAX_SNAPSHOTS = 30
MAX_SMALL_FILES = 50
SMALL_FILE_BYTES = 1 << 20


def needs_maintenance(table: Table) -> bool:
    """Whether the table has enough snapshots: stored in the table, so that no process needs to count."""
    return len(table.metadata.snapshots) >= MAX_SNAPSHOTS


def maintain_file_log(table: Table, order: str = "offset") -> None:
    """Merges, expires, deletes. May be killed at any point; yields to another process that does the same. `order`: the
    column with the number of a row, higher in each append than in the ones before."""
    with suppress(CommitFailedException):
        merge_small_files(table, order)
        delete_unreferenced(table, expire_snapshots(table))


def merge_small_files(table: Table, order: str = "offset") -> None:
    """Rewrites the newest, small data files as one. Files of more than a mebibyte are never rewritten."""
    files = [(highest(table, task.file, order), task.file) for task in table.scan().plan_files()]
    floor = max(
        (highest for highest, file in files if file.file_size_in_bytes >= SMALL_FILE_BYTES), default=0
    )
    small = [file for highest, file in files if highest > floor]
    if len(small) < MAX_SMALL_FILES:
        return
    rows = table.scan(row_filter=_above(order, floor)).to_arrow().sort_by(order)
    if rows.num_rows != sum(file.record_count for file in small):
        raise RuntimeError(
            f"{'.'.join(table.name())}: {many(rows.num_rows, 'row')} above {order} {floor} "
            f"{does(rows.num_rows, 'are')} not what its manifests list"
        )
    # Whole files match the filter, so Iceberg drops them by their statistics. The commit fails if main has moved.
    table.overwrite(rows, overwrite_filter=_above(order, floor))


def highest(table: Table, file: DataFile, order: str) -> int:
    """The highest number in a data file."""
    return int(from_bytes(LongType(), file.upper_bounds[table.schema().find_field(order).field_id]))


def _above(order: str, number: int) -> BooleanExpression:
    return GreaterThan(term=Reference(order), value=literal(number))

"""Whether a reader of an Iceberg table lacks a commit: the reader has read one of the table's metadata files. Pure.

Most metadata files change no row: they create or drop the branch of an attempt, or a property. So the snapshots that
two files name as the table's state are compared, never times, which are of several clocks.
"""

import re
from datetime import UTC, datetime

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

_NUMBER = re.compile(r"(\d+)-")


def lacks_commit(table: Table, location: str, read: TableMetadata | None) -> bool:
    """Whether the table has a commit that the reader lacks. `location`: of the metadata file that it has read last;
    `read`: that file, None if it is not there any more, because the table has had many since. A file that is newer than
    the table as it was loaded lacks nothing."""
    if _name(location) == _name(table.metadata_location):
        return False
    if read is None or read.table_uuid != table.metadata.table_uuid:
        return True
    is_newer = _number(location) > _number(table.metadata_location)
    return not is_newer and read.current_snapshot_id != table.metadata.current_snapshot_id


def lacking_since(table: Table, read: TableMetadata | None) -> datetime:
    """When the first commit that a reader lacks became the table's state, UTC, or later: former commits may have
    expired. `read` as of `lacks_commit`; None also for a reader that has read nothing."""
    log = table.metadata.snapshot_log
    known = read.current_snapshot_id if read is not None else None
    last = max((place for place, entry in enumerate(log) if entry.snapshot_id == known), default=-1)
    lacking = [entry.timestamp_ms for entry in log[last + 1 :]] or [table.metadata.last_updated_ms]
    return datetime.fromtimestamp(min(lacking) / 1000, UTC)


def beside(table: Table, location: str) -> str:
    """The address of the metadata file in the table's own spelling: a reader may spell scheme and bucket otherwise."""
    return f"{table.metadata_location.rsplit('/', 1)[0]}/{_name(location)}"


def _name(location: str) -> str:
    return location.rsplit("/", 1)[-1]


def _number(location: str) -> int:
    """Metadata files of a table are counted in their names."""
    found = _NUMBER.match(_name(location))
    return int(found[1]) if found is not None else 0

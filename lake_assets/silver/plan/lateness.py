"""Whether changes are late: not newer than changes that the table has applied, or than its full load. Pure.

A late change may precede an applied one of its key, so that the key is recomputed
(`silver/reduce/current/late_batch.py`). Not here: LOAD parts that arrive after their load was applied
(`ambiguous_parts.py`), files that the log gives to another epoch (`bronze/log/admission.py`).
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.epochs import CLOCKS_APART
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.silver.table.change_events import ChangeFigures, commit_of
from lake_assets.silver.table.position import Position


def is_late(lowest: str, applied: str) -> bool:
    """Whether a change is not newer than the table; `lowest` is the lowest sequence of the changes, empty without any,
    `applied` the highest that the table has applied."""
    return "" < lowest <= applied


def may_share_transaction(lowest: str, applied: str) -> bool:
    """Whether a change is late, or may belong to a transaction of which the table has applied a part."""
    return "" < commit_of(lowest) <= commit_of(applied)


def overlap_end(files: Iterable[LoggedFile], position: Position) -> datetime | None:
    """Changes committed up to this time (UTC) may already be contained in the full load among the files. None if the
    load has no timestamps. Includes a margin for differences between the clocks of DMS and of the source."""
    stamps = [file.first_commit_ts for file in files if file.kind is FileKind.LOAD]
    if not position.max_sequence:
        stamps.append(position.max_commit_ts)  # of the load's newest row
    last = max((stamp for stamp in stamps if stamp is not None), default=None)
    return None if last is None else (last + CLOCKS_APART).astimezone(UTC)


def is_committed_by(seen: ChangeFigures, end: datetime | None) -> bool:
    """Whether some of the changes were committed up to that time, or may have been."""
    if end is None or not seen.min_sequence:
        return False
    if seen.min_commit_ts is not None:
        return seen.min_commit_ts <= end
    # Without a timestamp column, the sequence begins with the time.
    return commit_of(seen.min_sequence) <= f"{end:%Y%m%d%H%M%S}{end.microsecond // 10_000:02d}"

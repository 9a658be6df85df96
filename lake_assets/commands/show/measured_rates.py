"""The workload of a source, measured by its files and tables, for `lake-assets advise`.

Here: the rates of the newest day by the file log, and the seconds of a batch by the batch log. Not here: the estimates
(`commands/setup/advise.py`).
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from statistics import median

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.silver.batch_log.batch_row import BatchRow

WINDOW = timedelta(days=1)
FEWEST = 20
"""With fewer files or batches, a figure says little."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of change files over `seconds`."""

    seconds: float
    files: int
    busy: int
    """Tables with change files."""
    changes: float
    """Changes a second of each such table, on average."""
    row_bytes: int
    file_every: float
    """Seconds between two files of a table, for half of the files."""


def measured(files: Iterable[LoggedFile]) -> Rates | None:
    """The rates of the files written within WINDOW before the newest one; None with fewer than FEWEST of them."""
    changes = [file for file in files if file.kind is FileKind.CDC and not file.retry and file.rows]
    if not changes:
        return None
    end = max(file.written_at for file in changes)
    recent = [file for file in changes if end - file.written_at <= WINDOW]
    seconds = (end - min(file.written_at for file in recent)).total_seconds()
    if len(recent) < FEWEST or not seconds:
        return None
    by_table = defaultdict(list)
    for file in recent:
        by_table[file.qualified_table].append(file.written_at)
    gaps = [
        (later - earlier).total_seconds()
        for times in by_table.values()
        for earlier, later in pairwise(sorted(times))
    ]
    rows = sum(file.rows or 0 for file in recent)
    return Rates(
        seconds=seconds,
        files=len(recent),
        busy=len(by_table),
        changes=rows / seconds / len(by_table),
        row_bytes=max(1, round(sum(file.size for file in recent) / rows)),
        file_every=max(1.0, median(gaps)) if gaps else seconds,
    )


def batch_seconds(batches: Iterable[BatchRow]) -> tuple[float, int] | None:
    """The median seconds of the batches of changes among these, and their number; None with fewer than FEWEST. These
    are core-seconds: as many batches are applied at a time as there are cores."""
    found = [row.seconds for row in batches if row.kind == "cdc"]
    return (median(found), len(found)) if len(found) >= FEWEST else None

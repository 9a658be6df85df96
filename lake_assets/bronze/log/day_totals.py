"""What has landed on each day, over all scans.

Here: the files of a range of days, and the sums of a day, kept up to date as the log grows. Not here: which files are
logged (`admission.py`), the events that report them (`orchestration/assets/bronze_assets.py`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.log.log_record import LoggedFile


@dataclass(frozen=True, slots=True)
class Landed:
    """The sums of some files."""

    files: int
    rows: int
    """Rows that a scan has counted: see `uncounted`."""
    bytes: int
    uncounted: int
    """Files whose rows the scan has not counted, because of their size."""

    @classmethod
    def of(cls, files: Sequence[LoggedFile]) -> "Landed":
        return cls(
            files=len(files),
            rows=sum(file.rows or 0 for file in files),
            bytes=sum(file.size for file in files),
            uncounted=sum(file.rows is None for file in files),
        )


class DayTotals:
    """The sums of one source's days, of the newest version of each file. Each record of the log is read once."""

    def __init__(self, log: FileLog, source: str) -> None:
        self._log = log
        self._source = source
        self._seen = 0
        self._days: dict[tuple[str, str], dict[str, LoggedFile]] = defaultdict(dict)

    def of(self, table: str, day: str) -> Landed:
        """The sums of a `schema.table` on a day (ISO)."""
        self._read()
        return Landed.of(list(self._days[table, day].values()))

    def _read(self) -> None:
        if self._log.head() < self._seen:
            self._seen, self._days = 0, defaultdict(dict)  # the log was dropped and created again
        for file in self._log.files(self._source, after=self._seen):
            self._seen = file.offset
            if not file.retry and file.kind is not FileKind.VANISHED:
                self._days[file.qualified_table, file.capture_date.isoformat()][file.key] = file


def files_of_days(files: Iterable[LoggedFile], first: str | None, last: str | None) -> list[LoggedFile]:
    """The newest version of each file whose capture date lies in `first` to `last` (ISO days, both included), in log
    order; None for no bound."""
    newest: dict[str, LoggedFile] = {}
    for file in sorted(files, key=lambda f: f.offset):
        newest[file.key] = file
    return [
        file
        for file in sorted(newest.values(), key=lambda f: f.offset)
        if (first is None or file.capture_date.isoformat() >= first)
        and (last is None or file.capture_date.isoformat() <= last)
    ]

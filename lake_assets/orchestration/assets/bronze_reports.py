"""The logged files that have no bronze event yet.

Here: comparing the file log with the bronze assets' materializations. Not here: the events themselves
(`bronze_assets.py`).

Level-triggered, like the sensor that calls it: the next tick makes up for a tick that died after it had logged files,
for files that were logged without Dagster, and for a deleted Dagster storage.
"""

import dagster as dg

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.orchestration.assets.bronze_assets import LAST_OFFSET, capture_day
from lake_assets.orchestration.shared.asset_keys import bronze_key
from lake_assets.runtime import LakeRuntime

MOST_EVENTS = 200
"""The most events of one tick. Dagster takes 10 ms for each, and the tick's run requests wait for them."""
RECENT = 10
"""How many of the newest materializations are searched for an offset: those reported by hand in the UI have none."""


class UnreportedFiles:
    """The logged files of one source that are in no bronze event yet."""

    def __init__(self, runtime: LakeRuntime, source: str) -> None:
        self._runtime = runtime
        self._source = source
        # Only to save queries. Dagster stores the events after the sensor has returned them, so they count as reported
        # only once they are read back.
        self._seen = 0
        self._newest: dict[str, int] = {}
        self._reported: dict[str, int] = {}

    def take(self, instance: dg.DagsterInstance) -> list[LoggedFile]:
        """The unreported files by offset, for at most MOST_EVENTS events."""
        log = self._runtime.file_log
        if log.head() < self._seen:
            self._seen, self._newest, self._reported = 0, {}, {}  # the log was dropped and created again
        # A transaction file also has records of tables that lake.yaml does not name (yet): they have no asset.
        tables = self._runtime.lake.sources[self._source].tables
        for file in log.files(self._source, after=self._seen):
            self._seen = file.offset
            if file.qualified_table in tables and _is_arrival(file):
                self._newest[file.qualified_table] = file.offset
        found: list[LoggedFile] = []
        for table, newest in self._newest.items():
            if self._reported.get(table, 0) < newest:
                self._reported[table] = self._last_reported(instance, table, newest)
                if self._reported[table] < newest:
                    unreported = log.files(self._source, table, after=self._reported[table])
                    found += [file for file in unreported if _is_arrival(file)]
        return _first_events(sorted(found, key=lambda file: file.offset))

    def _last_reported(self, instance: dg.DagsterInstance, table: str, newest: int) -> int:
        key = bronze_key(self._runtime.lake, self._source, table)
        for record in instance.fetch_materializations(key, limit=RECENT).records:
            event = record.asset_materialization
            if event is not None and LAST_OFFSET in event.metadata:
                offset = event.metadata[LAST_OFFSET].value
                # An offset beyond this log was reported for an earlier log.
                return offset if isinstance(offset, int) and offset <= newest else 0
        return 0


def _is_arrival(file: LoggedFile) -> bool:
    return not file.retry and file.kind is not FileKind.VANISHED


def _first_events(files: list[LoggedFile]) -> list[LoggedFile]:
    events: set[tuple[str, str]] = set()
    for number, file in enumerate(files):
        events.add((file.qualified_table, capture_day(file)))
        if len(events) > MOST_EVENTS:
            return files[:number]
    return files

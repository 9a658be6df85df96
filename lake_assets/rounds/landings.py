"""Lands the messages of a source's stream, one landing after the other, until it is stopped.

Here: the pauses between landings. Not here: a landing (`stream_arrivals.py`), the processes that do it
(`commands/run/stream_cli.py`, `orchestration/runs/landing_job.py`).
"""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.scan.discovery import Discovery
from lake_assets.bronze.stream.clients import StreamLost
from lake_assets.config import table_text
from lake_assets.iceberg.table_io import load_table
from lake_assets.rounds.arrivals import opened_stream
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.position import read_position
from lake_assets.silver.table.targets import source_targets
from lake_assets.storage.object_store import StoreError

LONGEST_PAUSE = 30.0
"""Seconds between two attempts while the stream cannot be read."""
LISTENING_SECONDS = 1.0
"""How long a landing waits for a message."""
LANDINGS_BEHIND = 10
"""While silver is behind, about so many landings wait for it: a table that is stopped for a day has no file for each
second of it."""
LARGE_MESSAGES, LARGE_BYTES = 10_000, 1 << 20
"""A landing of so many messages, or with files of so many bytes: the next one follows at once, because a pause is there
for fewer files, and a stream that is behind would expire."""
LONGEST_INTERVAL = 10
"""The longest pause between two landings, in intervals of the source."""
MOST_LOOKS = 20
"""Tables that are looked up before a landing: a source may have a thousand."""


def land_until(
    ended: threading.Event,
    runtime: LakeRuntime,
    source: str,
    warn: Callable[[str], None],
    landed: Callable[[int, int], None] = lambda messages, files: None,
) -> int:
    """Lands until `ended` is set; returns the number of messages. `warn` is called with each error that passes, and
    `landed` with the messages and files of each landing. Raises StreamLost when messages are gone that were not
    read."""
    stream = runtime.lake.sources[source].stream
    assert stream is not None
    unapplied = Unapplied(runtime, source)
    pause, retry, total = 0.0, 0.0, 0
    with closing(opened_stream(runtime, source)) as arrivals:
        while not ended.wait(pause):
            began = time.monotonic()
            try:
                found = arrivals.scan(LISTENING_SECONDS)
            except StreamLost:
                raise
            except StoreError as error:
                pause = retry = min(LONGEST_PAUSE, retry * 2 or 1.0)
                warn(f"{error} The next attempt is in {pause:.0f} s.")
                continue
            pause, retry, total = 0.0, 0.0, total + found.listed
            if found.logged:
                landed(found.listed, len(found.logged))
                unapplied.add(found.logged)
                if is_large(found):
                    continue
                wanted = pause_between(stream.interval.total_seconds(), unapplied.seconds())
                pause = max(0.0, began + wanted - time.monotonic())
    return total


def is_large(landed: Discovery) -> bool:
    """Whether a landing needs no pause behind it."""
    size = sum(file.size for file in landed.logged)
    return landed.listed >= LARGE_MESSAGES or size >= LARGE_BYTES


def pause_between(interval: float, behind: float) -> float:
    """Seconds between the beginnings of two landings. `behind`: for how long silver has not applied the oldest one."""
    return min(max(interval, behind / LANDINGS_BEHIND), interval * LONGEST_INTERVAL)


class Unapplied:
    """The landings of this process that silver has not applied."""

    def __init__(
        self, runtime: LakeRuntime, source: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._runtime, self._clock = runtime, clock
        self._targets = source_targets(source, runtime.lake.sources[source])
        self._oldest: dict[str, tuple[int, float]] = {}
        """By silver table, the offset and the time of the oldest landing that it may lack."""

    def add(self, files: Iterable[LoggedFile]) -> None:
        """Notes what has landed."""
        offsets = {table_text(*file.stream): file.offset for file in files}
        for target in self._targets:
            if (offset := offsets.get(target.table)) is not None:
                self._oldest.setdefault(target.identifier, (offset, self._clock()))

    def seconds(self) -> float:
        """How long the oldest has been unapplied; 0 if there is none."""
        for identifier, (offset, _) in [*self._oldest.items()][:MOST_LOOKS]:
            if read_position(load_table(self._runtime.catalog, identifier)).log_offset >= offset:
                del self._oldest[identifier]
        return self._clock() - min((since for _, since in self._oldest.values()), default=self._clock())

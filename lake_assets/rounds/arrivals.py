"""One scan of a source's bucket: logs new files, and warns of everything else.

Here: discovery for one configured source, with the warnings for a user. Not here: Dagster events.
"""

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.scan.discovery import Discovery, discover
from lake_assets.bronze.scan.notifications import Notifications, QueueUnavailable, Received
from lake_assets.bronze.scan.object_listing import Listing
from lake_assets.bronze.scan.strays import EMPTY
from lake_assets.bronze.scan.vanished import Removed
from lake_assets.config import table_text
from lake_assets.runtime import LakeRuntime
from lake_assets.storage.object_store import StoreError
from lake_assets.words import many

if TYPE_CHECKING:
    from lake_assets.rounds.stream_arrivals import StreamArrivals

MOST_WARNINGS = 20
MOST_REMOVALS = 100_000
"""Limit of the removed keys that a process remembers: S3 sends an event for each key, and a table has vanished with its
last key."""

LOOK_SECONDS = 0.1
"""Seconds between two looks for what another process has landed."""

logger = logging.getLogger(__name__)


def log_arrivals(
    runtime: LakeRuntime,
    source: str,
    warned: set[str] | None = None,
    *,
    listing: Listing | None = None,
    hints: Collection[str] = (),
    removals: Mapping[str, Removed] | None = None,
) -> Discovery:
    """Lists the source's location and logs new files. Raises StoreError when the location cannot be listed.

    Of a stream: lands what has arrived. `warned`: keys and tables that the caller was warned of; a caller that scans
    repeatedly keeps it, so that it is warned once of each. `listing`, `hints`, `removals`: see `discover`.
    """
    config, store = runtime.lake.sources[source], runtime.store(source)
    if config.stream is not None:
        with closing(opened_stream(runtime, source)) as arrivals:
            return arrivals.catch_up()
    try:
        found = discover(
            source, config, store, runtime.file_log, listing=listing, hints=hints, removals=removals
        )
    except BaseException as error:
        if listing is not None:
            listing.restart()
        if isinstance(error, Exception):
            runtime.scan_failures.note(source, error)
        raise
    runtime.scan_failures.note(source, None)
    # Skipped links are no keys of the location, and every scan finds them.
    runtime.strays.note(source, found.strays, found.seen, found.keys)
    _warn(source, found, set() if warned is None else warned)
    return found


def _warn(source: str, found: Discovery, warned: set[str]) -> None:
    """Logs what is odd about a source's location, at most MOST_WARNINGS of a kind; what is in `warned` is left out, and
    what is logged now is added."""
    for kind in _oddities(found):
        new = {about: sentence for about, sentence in kind.items() if about not in warned}
        for sentence in islice(new.values(), MOST_WARNINGS):
            logger.warning("%s: %s", source, sentence)
        if len(new) > MOST_WARNINGS:
            logger.warning("%s: and %d more of this kind", source, len(new) - MOST_WARNINGS)
        warned.update(new)
    for file in found.logged:
        if file.kind is FileKind.VANISHED:
            gone = table_text(*file.stream)
            logger.warning("%s: all files of %s have vanished from the bucket", source, gone)


def _oddities(found: Discovery) -> Iterator[dict[str, str]]:
    """By kind, a sentence for each odd key or table."""
    yield {key.key: f"{key.key} is no DMS file: {key.reason}" for key in found.unknown}
    yield {
        table: f"{many(count, 'file')} of {table}, which lake.yaml does not configure"
        + (f"; {near}" if (near := found.hints.get(table)) else "")
        for table, count in sorted(found.unconfigured.items())
    }
    yield {key: f"{key}: {EMPTY}" for key, reason in found.strays.items() if reason == EMPTY}
    yield {
        f"{table}: {reason}": unconfirmed_sentence(table, reason)
        for table, reason in sorted(found.unconfirmed.items())
    }


class Input(Protocol):
    """Who has news of a source: scans of its bucket, or the landings of another process."""

    def scan(self, wait_seconds: float = 0.0) -> Discovery:
        """Logs what is new; waits at most so long for it. Raises StoreError."""
        ...


def opened_input(runtime: LakeRuntime, source: str) -> Input:
    """The input of a source, for a process that asks it repeatedly. Messages of a stream are landed by a process of
    their own (`landings.py`): they land while silver is busy, and Kinesis answers few requests a second."""
    if runtime.lake.sources[source].stream is None:
        return Arrivals(runtime, source)
    return Landings(runtime)


class Landings:
    """What another process lands."""

    def __init__(self, runtime: LakeRuntime) -> None:
        self._runtime = runtime
        self._head = 0

    def scan(self, wait_seconds: float = 0.0) -> Discovery:
        """Waits until something was logged since the last call."""
        end = time.monotonic() + wait_seconds
        while (head := self._runtime.file_log.head()) == self._head and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
        self._head = head
        return Discovery([], [], {}, 0, 0)


def opened_stream(runtime: LakeRuntime, source: str) -> "StreamArrivals":
    """The input of a source with a stream. Raises StoreError without the libraries for it."""
    try:
        # Here, because its libraries are an extra.
        from lake_assets.rounds.stream_arrivals import StreamArrivals
    except ImportError as error:
        raise StoreError(
            f"{source} has a stream, and {error.name} is not installed: pip install 'lake_assets[stream]'"
        ) from error
    return StreamArrivals(runtime, source)


class Arrivals:
    """A process's repeated scans of one source, with their state: the listing, S3's notifications, past warnings."""

    def __init__(self, runtime: LakeRuntime, source: str) -> None:
        config = runtime.lake.sources[source]
        self._runtime = runtime
        self._source = source
        self._warned: set[str] = set()
        self._listing = Listing(config, runtime.store(source))
        self._queue = (
            Notifications(config.notifications, config.location, runtime.aws)
            if config.notifications is not None
            else None
        )
        self._queue_fails = False
        self._removals: dict[str, Removed] = {}

    def scan(self, wait_seconds: float = 0.0) -> Discovery:
        """Logs new files. `wait_seconds`: for S3's notifications, if they have a queue. Raises StoreError."""
        received = self._received(wait_seconds)
        self._note(received)
        found = log_arrivals(
            self._runtime,
            self._source,
            self._warned,
            listing=self._listing,
            hints=received.created,
            removals=self._removals,
        )
        for key in found.returned:
            self._removals.pop(key, None)
        for record in found.logged:
            if record.kind is FileKind.VANISHED:
                self._removals = {k: why for k, why in self._removals.items() if not k.startswith(record.key)}
        # Only now are the files that they name in the log.
        if self._queue is not None and received.handles:
            with self._hints_only():
                self._queue.done(received)
        return found

    def _note(self, received: Received) -> None:
        self._removals |= received.removals
        for key in received.created:
            self._removals.pop(key, None)
        for key in [*self._removals][:-MOST_REMOVALS]:
            del self._removals[key]

    def _received(self, wait_seconds: float) -> Received:
        if self._queue is not None:
            with self._hints_only():
                received = self._queue.receive(wait_seconds)
                self._queue_fails = False
                return received
        return Received()

    @contextmanager
    def _hints_only(self) -> Iterator[None]:
        """Goes on without a queue that fails, since the listing finds the files as well; warns of it once."""
        try:
            yield
        except QueueUnavailable as error:
            if not self._queue_fails:
                logger.warning("%s: %s Listing finds the files, later.", self._source, error)
            self._queue_fails = True


def unconfirmed_sentence(table: str, reason: str) -> str:
    """A sentence about a table whose files are all gone, when their deletion is unconfirmed."""
    return f"no file of {table} is in the bucket any more, and that is not taken for a TRUNCATE or DROP: {reason}"

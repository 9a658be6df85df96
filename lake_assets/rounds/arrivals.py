"""One look at a source's bucket: what is new goes to the file log, the rest is told.

Here: discovery for one configured source, with what a user should hear about it. Not here: Dagster events.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.scan.discovery import Discovery, discover
from lake_assets.bronze.scan.notifications import Notifications, QueueUnavailable, Received
from lake_assets.bronze.scan.object_listing import Listing
from lake_assets.bronze.scan.strays import EMPTY
from lake_assets.bronze.scan.vanished import Removed
from lake_assets.runtime import LakeRuntime
from lake_assets.words import many

MOST_TOLD = 20
MOST_REMOVALS = 100_000
"""Keys of which it is kept in mind how they went: S3's word comes in parts, and a table has vanished with its last."""

logger = logging.getLogger(__name__)


def log_arrivals(
    runtime: LakeRuntime,
    source: str,
    told: set[str] | None = None,
    *,
    listing: Listing | None = None,
    hints: Collection[str] = (),
    removals: Mapping[str, Removed] | None = None,
) -> Discovery:
    """Lists the source's location and logs new files. Raises StoreError when the location cannot be listed.

    `told`: keys and tables that were warned of; who looks twice a second keeps it, and hears each of them once.
    `listing`, `hints`, `removals`: see `discover`.
    """
    config, store = runtime.lake.sources[source], runtime.store(source)
    try:
        found = discover(
            source, config, store, runtime.file_log, listing=listing, hints=hints, removals=removals
        )
    except BaseException:
        if listing is not None:
            listing.restart()
        raise
    # Links that were left out are no keys of the location, and are met by every look.
    runtime.strays.note(source, found.strays, found.seen, found.keys)
    told = set() if told is None else told
    unknown = [key for key in found.unknown if key.key not in told]
    for key in unknown[:MOST_TOLD]:
        logger.warning("%s: %s is no DMS file: %s", source, key.key, key.reason)
    if len(unknown) > MOST_TOLD:
        more = len(unknown) - MOST_TOLD
        logger.warning("%s: and %s no DMS file", source, many(more, "more key", "are"))
    unconfigured = {table: count for table, count in found.unconfigured.items() if table not in told}
    for table, count in sorted(unconfigured.items()):
        near = found.hints.get(table)
        hint = f"; it configures {near}: correct its case, or set ignore_case: true" if near else ""
        files = many(count, "file")
        logger.warning("%s: %s of %s, which lake.yaml does not configure%s", source, files, table, hint)
    empty = [key for key, reason in found.strays.items() if reason == EMPTY and key not in told]
    for name in empty[:MOST_TOLD]:
        logger.warning("%s: %s: %s", source, name, EMPTY)
    told.update(empty)
    for file in found.logged:
        if file.kind is FileKind.VANISHED:
            logger.warning("%s: all files of %s have vanished from the bucket", source, file.qualified_table)
    doubtful = {table: doubt for table, doubt in found.doubtful.items() if f"{table}: {doubt}" not in told}
    for table, doubt in sorted(doubtful.items()):
        logger.warning("%s: %s", source, doubtful_sentence(table, doubt))
    told.update(f"{table}: {doubt}" for table, doubt in doubtful.items())
    told.update(key.key for key in unknown)
    told.update(unconfigured)
    return found


class Arrivals:
    """The looks of a process at one source: it remembers where to look, what S3 has told, and what it has warned of."""

    def __init__(self, runtime: LakeRuntime, source: str) -> None:
        config = runtime.lake.sources[source]
        self._runtime = runtime
        self._source = source
        self._told: set[str] = set()
        self._listing = Listing(config, runtime.store(source))
        self._queue = (
            Notifications(config.notifications, config.location) if config.notifications is not None else None
        )
        self._queue_fails = False
        self._removals: dict[str, Removed] = {}

    def look(self, wait_seconds: float = 0.0) -> Discovery:
        """Logs what is new. `wait_seconds`: for S3's word, where there is a queue for it. Raises StoreError."""
        received = self._received(wait_seconds)
        self._note(received)
        found = log_arrivals(
            self._runtime,
            self._source,
            self._told,
            listing=self._listing,
            hints=received.created,
            removals=self._removals,
        )
        for key in found.returned:
            self._removals.pop(key, None)
        for record in found.logged:
            if record.kind is FileKind.VANISHED:
                self._removals = {k: why for k, why in self._removals.items() if not k.startswith(record.key)}
        # Only now: what they name is in the log.
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
        """Without the queue, files are found all the same; that it fails is told once."""
        try:
            yield
        except QueueUnavailable as error:
            if not self._queue_fails:
                logger.warning("%s: %s Files are found by looking, later.", self._source, error)
            self._queue_fails = True


def doubtful_sentence(table: str, doubt: str) -> str:
    """What is said of a table whose files are all gone, when they need not have been deleted."""
    return (
        f"no file of {table} is in the bucket any more, and that is not taken for a TRUNCATE or DROP: {doubt}"
    )

"""Listing a location of any size with a bounded number of requests per scan.

Listing everything costs a request for each thousand objects, and each table has its files below a prefix of its own. So
one scan lists the tails of some tables: the keys above those that have long been known. Each scan includes the tables
that had new files recently, and some of the others in rotation. Each scan also continues a full pass by a few pages.
The pass finds what the tails do not show: a file with an old name, an unknown table, a folder that is empty now.

Here: which prefixes, from which key on, and the full pass. Not here: what a key means, or what follows from it
(`discovery.py`).
"""

import itertools
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from lake_assets.bronze.files.keys import TRANSACTIONS, FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.scan.table_folders import folder_of
from lake_assets.config import SourceConfig, TableName
from lake_assets.storage.object_store import ObjectStore, StoredObject

PAGE = 1000
"""Objects that S3 lists in one request."""
WHOLE_BELOW = 5000
"""Up to this many files, every scan lists them all."""
TAILS = 200
"""The number of tables whose newest files one scan lists: those with recent files, and others in rotation. With a
consistent cut, each scan lists the newest files of all tables."""
PAGES = 10
"""Further requests of one scan. Over several scans they make a full listing, which finds late files and files that are
gone."""
THREADS = 16
"""Parallel requests."""
OVERLAP = timedelta(minutes=15)
"""How far before its newest file a scan lists a table's files, by the times in their names; older names wait for the
full listing."""
RECENT_SECONDS = 600.0
"""Seconds for which every scan lists a table that had a new file."""
UNSORTED_SEQUENCES = ("mmyyyydd", "ddmmyyyy")
"""Date folders that do not sort by date."""
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Listed:
    """The objects of one scan."""

    objects: tuple[StoredObject, ...]
    keys: frozenset[str] | None
    """Every key of the location, if this scan completed the full pass; else None."""


@dataclass(slots=True)
class _Tail:
    """The state of one prefix."""

    newest: datetime = _NEVER
    recent: deque[tuple[datetime, str]] = field(default_factory=deque)
    """Flush times and keys of its newest files, in the order of the log."""
    start_after: str = ""
    """The highest key of an older file."""
    active: float = float("-inf")
    """When it last had a new file, by the process's clock."""


class Listing:
    """One process's listings of one source."""

    def __init__(
        self, source: SourceConfig, store: ObjectStore, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source = source
        self._store = store
        self._clock = clock
        self.head = 0
        """The offset up to which the log was read."""
        self._known = 0
        # For tables without a file yet, the folders that DMS will create.
        self._tails = {TableName.parse(table).prefix: _Tail() for table in source.tables}
        if source.dms.preserve_transactions and source.dms.cdc_path:
            self._tails[f"{source.dms.cdc_path}/"] = _Tail()
        self._rotation: deque[str] = deque()
        self._pass: Iterator[StoredObject] | None = None
        self._passed: set[str] = set()

    def scan(self, added: Iterable[LoggedFile], hints: Collection[str] = ()) -> Listed:
        """The objects that may be new, and some that are not. `added`: the log's records above `head`. `hints`: keys
        that are reported as new; their tables are listed. Raises StoreError."""
        first = self.head == 0
        self._read_log(added)
        if first or self._known <= WHOLE_BELOW:
            whole = tuple(self._store.list())
            return Listed(whole, frozenset(obj.key for obj in whole))
        prefixes = self._chosen(hints)
        try:
            with ThreadPoolExecutor(THREADS, thread_name_prefix="list") as pool:
                further = pool.submit(self._continue_pass)
                tails = pool.map(self._tail, prefixes)
                named = pool.map(lambda key: list(self._store.list(key)), self._below_tails(hints))
                found = {obj.key: obj for obj in itertools.chain(*tails, *named)}
            objects, keys = further.result()
        except BaseException:
            self.restart()
            raise
        found |= {obj.key: obj for obj in objects}
        return Listed(tuple(found.values()), keys)

    def restart(self) -> None:
        """Starts the full pass again, because the objects of the last scan were not logged."""
        self._pass = None

    def _read_log(self, records: Iterable[LoggedFile]) -> None:
        """Reads the records logged since the last scan."""
        now, at_first = self._clock(), self.head == 0
        for record in records:
            self.head = record.offset
            if record.kind is FileKind.VANISHED:
                continue
            self._known += not record.retry
            tail = self._tails.setdefault(_prefix(record), _Tail())
            if not at_first:
                tail.active = now
            if record.flush_time is None:
                continue
            tail.recent.append((record.flush_time, record.key))
            tail.newest = max(tail.newest, record.flush_time)
            while tail.recent and tail.recent[0][0] < tail.newest - OVERLAP:
                tail.start_after = max(tail.start_after, tail.recent.popleft()[1])

    def _chosen(self, hints: Collection[str]) -> list[str]:
        if self._source.consistent_cut is not None:
            # A consistent cut needs all tables, so each scan lists each of them.
            return list(self._tails)
        now, most = self._clock(), TAILS
        hinted = {prefix for key in hints if (prefix := _folder(key)) is not None}
        active = sorted(
            (prefix for prefix, tail in self._tails.items() if now - tail.active < RECENT_SECONDS),
            key=lambda prefix: -self._tails[prefix].active,
        )
        # A quarter of each scan is for the other tables, or a busy source would never list them.
        chosen = dict.fromkeys([*sorted(hinted), *active[: max(1, most - most // 4)]])
        for _ in range(len(self._tails)):
            if len(chosen) >= len(hinted) + min(most, len(self._tails)):
                break
            if not self._rotation:
                self._rotation.extend(self._tails)
            chosen[self._rotation.popleft()] = None
        return list(chosen)

    def _tail(self, prefix: str) -> list[StoredObject]:
        tail = self._tails.get(prefix, _Tail())
        rises = self._source.dms.date_partition_sequence not in UNSORTED_SEQUENCES
        start = tail.start_after if rises or not self._source.dms.date_partition_enabled else ""
        # The names of full loads sort above those of CDC files, so the tail includes them all: a reload rewrites them.
        return list(self._store.list(prefix, start_after=start or None))

    def _below_tails(self, hints: Collection[str]) -> list[str]:
        """The hints that a tail would not show: late files, or folders that do not sort by date."""
        found = []
        for key in hints:
            # A transaction file is not in a table's folder.
            tail = self._tails.get(_folder(key) or "") or self._tails.get(key[: key.rfind("/") + 1])
            if tail is not None and key <= tail.start_after:
                found.append(key)
        return found

    def _continue_pass(self) -> tuple[list[StoredObject], frozenset[str] | None]:
        """The next pages of the full pass; with all its keys, once it is complete."""
        if self._pass is None:
            self._pass, self._passed = iter(self._store.list()), set()
        objects = list(itertools.islice(self._pass, PAGE * PAGES))
        self._passed.update(obj.key for obj in objects)
        if len(objects) == PAGE * PAGES:
            return objects, None
        self._pass = None
        return objects, frozenset(self._passed)


def _prefix(record: LoggedFile) -> str:
    if record.format == TRANSACTIONS:
        return record.key[: record.key.rfind("/") + 1]
    return _folder(record.key) or ""


def _folder(key: str) -> str | None:
    folder = folder_of(key)
    return folder.prefix if folder is not None else None

"""Looking through a location of any size, a bounded number of requests at a time.

A listing of everything costs a request for each thousand objects, and each table has its files below a prefix of its
own. So one look asks for the tails of some tables: the keys above those that are long known. Tables that had new files
of late come each time, the others in turn. And it goes on with a pass through everything by a few pages, which finds
what the tails cannot: a file with an old name, a table nobody knows, a folder that is empty now.

Here: which prefixes, from which key on, and the pass. Not here: what a key means, or what is done with it
(`discovery.py`).
"""

import itertools
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lake_assets.bronze.files.keys import TRANSACTIONS, FileKind
from lake_assets.bronze.log.file_log import FileLog, LoggedFile
from lake_assets.bronze.scan.table_folders import folder_of
from lake_assets.config import SourceConfig
from lake_assets.storage.object_store import ObjectStore, StoredObject

PAGE = 1000
"""Objects that S3 lists in one request."""
OF_LATE = 600.0
"""Seconds for which a table that had a new file is asked for in every look."""
FALLING = ("mmyyyydd", "ddmmyyyy")
"""Date folders that do not sort by date."""
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Listed:
    """What one look has seen."""

    objects: tuple[StoredObject, ...]
    keys: frozenset[str] | None
    """Every key of the location, when this look has completed them; else None."""


@dataclass(slots=True)
class _Tail:
    """What is known of the files below one prefix."""

    newest: datetime = _NEVER
    recent: deque[tuple[datetime, str]] = field(default_factory=deque)
    """Flush times and keys of its newest files, by flush time as far as they came so."""
    start_after: str = ""
    """The highest key that is older than those."""
    active: float = float("-inf")
    """When it had a new file, by the process's clock."""


class Listing:
    """The looks of one process at one source."""

    def __init__(
        self, source: SourceConfig, store: ObjectStore, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source = source
        self._settings = source.listing
        self._store = store
        self._clock = clock
        self._head = 0
        self._known = 0
        # Of tables without a file yet: as DMS names their folders.
        self._tails = {f"{table.replace('.', '/', 1)}/": _Tail() for table in source.tables}
        if source.dms.preserve_transactions and source.dms.cdc_path:
            self._tails[f"{source.dms.cdc_path}/"] = _Tail()
        self._turn: deque[str] = deque()
        self._pass: Iterator[StoredObject] | None = None
        self._passed: set[str] = set()

    def look(self, log: FileLog, source_name: str, hints: Collection[str] = ()) -> Listed:
        """The objects that may be new, and some that are not. `hints`: keys that somebody says are new; their tables
        are asked for. Raises StoreError."""
        first = self._head == 0
        self._learn(log.files(source_name, after=self._head))
        if first or self._known <= self._settings.whole_below:
            whole = tuple(self._store.list())
            return Listed(whole, frozenset(obj.key for obj in whole))
        prefixes = self._chosen(hints)
        try:
            with ThreadPoolExecutor(self._settings.threads, thread_name_prefix="list") as pool:
                further = pool.submit(self._go_on)
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
        """What the last look has seen did not enter the log: the pass begins anew."""
        self._pass = None

    def _learn(self, records: Iterable[LoggedFile]) -> None:
        """Takes what has entered the log since the last look."""
        now, at_first = self._clock(), self._head == 0
        overlap = self._settings.overlap
        for record in records:
            self._head = record.offset
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
            while tail.recent and tail.recent[0][0] < tail.newest - overlap:
                tail.start_after = max(tail.start_after, tail.recent.popleft()[1])

    def _chosen(self, hints: Collection[str]) -> list[str]:
        if self._source.consistent_cut is not None:
            # A cut is as far as all tables are: each is asked for in each look.
            return list(self._tails)
        now, most = self._clock(), self._settings.tails
        told = {prefix for key in hints if (prefix := _folder(key)) is not None}
        active = sorted(
            (prefix for prefix, tail in self._tails.items() if now - tail.active < OF_LATE),
            key=lambda prefix: -self._tails[prefix].active,
        )
        # Some of every look is the others', or a busy source would hide them.
        chosen = dict.fromkeys([*sorted(told), *active[: max(1, most - most // 4)]])
        for _ in range(len(self._tails)):
            if len(chosen) >= len(told) + min(most, len(self._tails)):
                break
            if not self._turn:
                self._turn.extend(self._tails)
            chosen[self._turn.popleft()] = None
        return list(chosen)

    def _tail(self, prefix: str) -> list[StoredObject]:
        tail = self._tails.get(prefix, _Tail())
        rises = self._source.dms.date_partition_sequence not in FALLING
        start = tail.start_after if rises or not self._source.dms.date_partition_enabled else ""
        # The names of full loads are above those of changes, so that the tail has them all: a reload rewrites them.
        return list(self._store.list(prefix, start_after=start or None))

    def _below_tails(self, hints: Collection[str]) -> list[str]:
        """The keys among the hints that a tail would not show: late ones, or of folders that sort otherwise."""
        found = []
        for key in hints:
            # A transaction file is in no table's folder.
            tail = self._tails.get(_folder(key) or "") or self._tails.get(key[: key.rfind("/") + 1])
            if tail is not None and key <= tail.start_after:
                found.append(key)
        return found

    def _go_on(self) -> tuple[list[StoredObject], frozenset[str] | None]:
        """The next pages of the pass; with all its keys, when it is through."""
        if self._pass is None:
            self._pass, self._passed = iter(self._store.list()), set()
        objects = list(itertools.islice(self._pass, PAGE * self._settings.pages))
        self._passed.update(obj.key for obj in objects)
        if len(objects) == PAGE * self._settings.pages:
            return objects, None
        self._pass = None
        return objects, frozenset(self._passed)


def _prefix(record: LoggedFile) -> str:
    if record.format == TRANSACTIONS:
        return record.key[: record.key.rfind("/") + 1]
    return _folder(record.key) or ""


def _folder(key: str) -> str | None:
    folder = folder_of(key)
    return f"{folder[0]}/{folder[1]}/" if folder is not None else None

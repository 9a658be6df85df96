"""Which of the files that were found enter the log, in which order, into which epoch.

Here: pure decisions on what was found and what the log holds. Not here: finding (`discovery.py`), handing out
offsets and committing (`file_log.py`), or when a full load counts as complete (silver).

A full load is an *epoch* of its table, and rewriting a LOAD file opens the next one: DMS reloads a table under
the same keys, so a reload shows as new content under a known key. Its parts arrive one by one, over any number of
passes. Parts that come out with the bytes they had before can only be told by their time of modification, after
another part has opened the epoch. Without them, the reload of a table that only grew would lose its old rows.

A transaction file has a record for each table that it has rows of, its *shares*, so that every table's plan, position
and counts see their own. They enter the log together, and a version of the file is superseded in all tables at once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from lake_assets.bronze.keys import TRANSACTIONS, FileKind
from lake_assets.bronze.log_record import LoggedFile, NewFile

FIRST_EPOCH = 1

_by_table_and_key = attrgetter("schema", "table", "key")
_by_flush_time = attrgetter("flush_time", "key", "schema", "table")


@dataclass(slots=True)
class Known:
    """What the log holds of one source."""

    newest: dict[str, LoggedFile] = field(default_factory=dict)
    """By key, the record with the highest offset."""
    superseded: set[tuple[str, str]] = field(default_factory=set)
    """(key, version) of all others."""
    open_epochs: dict[tuple[str, str], int] = field(default_factory=dict)
    """By (schema, table)."""
    shares: dict[str, dict[str, LoggedFile]] = field(default_factory=dict)
    """By key of a transaction file and by `schema.table`, the records of the file's newest version."""

    def add(self, record: LoggedFile) -> None:
        """Takes the next record, in the order of offsets."""
        before = self.newest.get(record.key)
        if before is not None and before.version != record.version:
            self.superseded.add((before.key, before.version))
            self.shares.pop(record.key, None)
        self.newest[record.key] = record
        if record.format == TRANSACTIONS:
            # A new one, because a pass that is under way may be looking at the old one.
            self.shares[record.key] = {**self.shares.get(record.key, {}), record.qualified_table: record}
        table = (record.schema, record.table)
        self.open_epochs[table] = max(record.epoch, self.open_epochs.get(table, FIRST_EPOCH))


def admit(found: Iterable[NewFile], known: Known, based_on: int) -> list[tuple[NewFile, int]]:
    """The files to log with their epochs, in the order of their offsets: full loads by table and key, then CDC
    by flush time and key.

    `based_on` is the log's head before the files were listed. A key that was logged since is left out: what was
    listed of it is out of date, and the next pass sees better.
    """
    # A file found twice is one file.
    current = (file for file in found if _is_current(file, known, based_on))
    candidates = list({(file.key, file.version, file.qualified_table): file for file in current}.values())
    loads = sorted((file for file in candidates if file.kind is FileKind.LOAD), key=_by_table_and_key)
    changes = sorted((file for file in candidates if file.kind is FileKind.CDC), key=_by_flush_time)
    opened: dict[tuple[str, str], int] = {}
    admitted = []
    for file in loads:
        if _has_new_content(file, known):
            opened[file.schema, file.table] = _epoch(file, known, opened)
            admitted.append((file, opened[file.schema, file.table]))
    admitted += [
        (file, _open_epoch(file, known, opened))
        for file in loads
        if not _has_new_content(file, known) and _rewritten_for_open_epoch(file, known, opened)
    ]
    admitted.sort(key=lambda entry: _by_table_and_key(entry[0]))
    admitted += [
        (file, _open_epoch(file, known, opened)) for file in changes if _has_new_content(file, known)
    ]
    return admitted


def _is_current(file: NewFile, known: Known, based_on: int) -> bool:
    newest = known.newest.get(file.key)
    return newest is None or newest.offset <= based_on


def _has_new_content(file: NewFile, known: Known) -> bool:
    newest = known.newest.get(file.key)
    if newest is None:
        return True
    if newest.version == file.version:
        # A table that was configured after a transaction file had been found unreadable.
        return file.format == TRANSACTIONS and file.qualified_table not in known.shares[file.key]
    # Content of an earlier time: put back if it was written since, otherwise a repetition of what is known.
    return (file.key, file.version) not in known.superseded or file.last_modified > newest.last_modified


def _rewritten_for_open_epoch(file: NewFile, known: Known, opened: Mapping[tuple[str, str], int]) -> bool:
    newest = known.newest[file.key]
    same_bytes_written_again = newest.version == file.version and file.last_modified > newest.last_modified
    return same_bytes_written_again and newest.epoch < _open_epoch(file, known, opened)


def _epoch(file: NewFile, known: Known, opened: Mapping[tuple[str, str], int]) -> int:
    """Of a LOAD file with new content."""
    newest, open_epoch = known.newest.get(file.key), _open_epoch(file, known, opened)
    return open_epoch + 1 if newest is not None and newest.epoch == open_epoch else open_epoch


def _open_epoch(file: NewFile, known: Known, opened: Mapping[tuple[str, str], int]) -> int:
    table = (file.schema, file.table)
    return opened.get(table) or known.open_epochs.get(table, FIRST_EPOCH)

"""The log's records of one source, in memory, indexed for admission.

Here: records by key, by content and by table. Not here: which files are logged (`admission.py`), reading the log
(`log_view.py`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from lake_assets.bronze.files.keys import TRANSACTIONS, FileKind, name_of
from lake_assets.bronze.log.epochs import File
from lake_assets.bronze.log.log_record import LoggedFile, NewFile
from lake_assets.config import table_text

FIRST_EPOCH = 1
MOVED = "moved"
"""The version of a key whose content has moved to another key: no object has this version."""

_by_key = attrgetter("key")


Content = tuple[str, str, str, str | None]


def content_of(file: File) -> Content:
    """Table, name without folder and extension, and digest: a move or compression does not change them."""
    return *file.stream, name_of(file.key), file.content


def _place(file: File) -> str:
    """The key without its extension."""
    return file.key.partition(".")[0]


@dataclass(slots=True)
class Known:
    """The log's records of one source."""

    newest: dict[str, LoggedFile] = field(default_factory=dict)
    """By key, the record with the highest offset."""
    superseded: set[tuple[str, str]] = field(default_factory=set)
    """(key, version) of all earlier versions."""
    open_epochs: dict[tuple[str, str], int] = field(default_factory=dict)
    """By stream."""
    shares: dict[str, dict[str, LoggedFile]] = field(default_factory=dict)
    """By key of a transaction file and by `schema.table`, the records of the file's newest version."""
    vanished: dict[tuple[str, str], int] = field(default_factory=dict)
    """By stream, the offset of the newest record of vanished files: all files before it are gone."""
    tables: dict[tuple[str, str], list[LoggedFile]] = field(default_factory=lambda: defaultdict(list))
    """By stream, its records by offset."""
    contents: dict[Content, LoggedFile] = field(default_factory=dict)
    """By `content_of`, the newest record."""
    places: dict[int, str] = field(default_factory=dict)
    """By offset of a record that is not a copy, the key under which its content was last logged."""

    @classmethod
    def of(cls, records: Iterable[LoggedFile]) -> "Known":
        """From records in the order of their offsets."""
        known = cls()
        for record in records:
            known.add(record)
        return known

    def add(self, record: LoggedFile) -> None:
        """Adds the next record, in the order of offsets."""
        table = record.stream
        self.tables[table].append(record)
        if record.kind is FileKind.VANISHED:
            self.vanished[table] = record.offset
            self.open_epochs[table] = record.epoch + 1
            return
        before = self.newest.get(record.key)
        if before is not None and before.version != record.version:
            self.superseded.add((before.key, before.version))
            self.shares.pop(record.key, None)
        self._place(record)
        self.newest[record.key] = record
        if record.format == TRANSACTIONS:
            # A new dict, because a running scan may be reading the old one.
            self.shares[record.key] = {**self.shares.get(record.key, {}), table_text(*table): record}
        self.open_epochs[table] = max(record.epoch, self.open_epochs.get(table, FIRST_EPOCH))

    def _place(self, record: LoggedFile) -> None:
        if record.retry:
            return
        original = record.copy_of or record.offset
        if record.content is not None and record.format != TRANSACTIONS:
            self.contents[content_of(record)] = record
        before = self.places.get(original)
        self.places[original] = record.key
        if before is not None and before != record.key and self.newest[before].content == record.content:
            # Content that is restored under the old key is a new version.
            self.newest[before] = replace(self.newest[before], version=MOVED, size=-1)

    def holds(self, file: LoggedFile) -> bool:
        """Whether the record's content is still in the bucket, as far as the log shows."""
        now = self.newest[self.places.get(file.copy_of or file.offset, file.key)]
        same = file.content is not None and file.content == now.content
        return same or file.version == now.version

    def repeated(self, file: NewFile, absent: Collection[str]) -> LoggedFile | None:
        """The newest record with the same content as the file, or None. Under another key, equal content is a move only
        if the name without folder and extension is the same, and the former object is gone or has other content now:
        two changes without a timestamp may be equal, and so may two parts of a full load."""
        if file.content is None or file.format == TRANSACTIONS or file.kind is FileKind.VANISHED:
            return None
        if self._is_back(file, absent):
            return None
        own, other = self.newest.get(file.key), self.contents.get(content_of(file))
        if own is not None and not self.has_vanished(own):
            if own.content == file.content:
                return own if own.version != file.version else None
            # A compressed file may replace an older copy, and a moved one a former file of its name.
            if other is None or other.key == file.key:
                return None
            if _place(other) != _place(file) and other.key not in absent:
                return None
        if other is None or self.has_vanished(other):
            return None
        if self.newest[other.key] is other:
            return other if other.key in absent else None
        # A reload without timestamps may have the same rows as an earlier load.
        return other if file.kind is FileKind.CDC or file.first_commit_ts is not None else None

    def doubled(self, files: Sequence[NewFile], absent: Collection[str]) -> set[tuple[str, str]]:
        """(key, version) of duplicate objects. An object is a duplicate in three cases. Another object has the same
        content, folder and name, with another extension. Or the file is a full-load part that another folder has too:
        its rows have different timestamps, so DMS transferred them only once. Or the content was moved, and the former
        key has it again. A duplicate becomes a copy once the other object is gone."""
        there = {(_place(f), f.content): f.key for f in sorted(files, key=_by_key, reverse=True)}
        found = set()
        for file in files:
            if self._is_back(file, absent):
                found.add((file.key, file.version))
            if file.content is None or file.format == TRANSACTIONS or file.key in self.newest:
                continue
            other = self.contents.get(content_of(file))
            known = other is not None and other.key not in absent and self.newest[other.key] is other
            beside = known and other is not None and _place(other) == _place(file)
            twice = known and file.kind is FileKind.LOAD and file.one_stamp is False
            if beside or twice or there[_place(file), file.content] != file.key:
                found.add((file.key, file.version))
        return found

    def _is_back(self, file: NewFile, absent: Collection[str]) -> bool:
        """Whether content that was moved exists under its former key again, and still exists under its new key."""
        own, other = self.newest.get(file.key), self.contents.get(content_of(file))
        if own is None or other is None or own.version != MOVED or own.content != file.content:
            return False
        if other.key == file.key or other.key in absent:
            return False
        return self.newest[other.key].content == file.content

    def has_vanished(self, record: LoggedFile) -> bool:
        """Whether the record was logged before its table's files vanished."""
        return record.offset < self.vanished.get(record.stream, 0)

    def living(self, schema: str, table: str) -> list[LoggedFile]:
        """The table's records since its files vanished, or all of them."""
        return [r for r in self.tables.get((schema, table), ()) if not self.has_vanished(r)]

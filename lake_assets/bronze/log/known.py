"""The log's records of one source, in memory, indexed for admission.

Here: records by key, by content and by table. Not here: which files are logged (`admission.py`), reading the log
(`log_view.py`).
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter

from lake_assets.bronze.files.keys import TRANSACTIONS, FileKind, name_of, place_of
from lake_assets.bronze.log.copies import Chain, Chains
from lake_assets.bronze.log.epochs import File
from lake_assets.bronze.log.log_record import LoggedFile, NewFile
from lake_assets.bronze.log.streams.stream_positions import (
    Created,
    Read,
    merged,
    parse_created,
    parse_ranges,
    parse_transactions,
)
from lake_assets.bronze.log.streams.transaction_chain import Transactions
from lake_assets.config import table_text

FIRST_EPOCH = 1
_offset = attrgetter("offset")

Content = tuple[str, str, str, str | None]


def content_of(file: File) -> Content:
    """Table, name without folder and extension, and digest: a move or compression does not change them."""
    return *file.stream, name_of(file.key), file.content


@dataclass(slots=True)
class Known:
    """The log's records of one source."""

    newest: dict[str, LoggedFile] = field(default_factory=dict)
    """By key, the record with the highest offset, of the objects that the bucket has as far as the log shows."""
    superseded: set[tuple[str, str]] = field(default_factory=set)
    """(key, version) of all earlier versions."""
    open_epochs: dict[tuple[str, str], int] = field(default_factory=dict)
    """By stream."""
    shares: dict[str, dict[str, LoggedFile]] = field(default_factory=dict)
    """By place of a transaction file and by `schema.table`, the records of the file's newest version."""
    vanished: dict[tuple[str, str], int] = field(default_factory=dict)
    """By stream, the offset of the newest record of vanished files: all files before it are gone."""
    tables: dict[tuple[str, str], list[LoggedFile]] = field(default_factory=lambda: defaultdict(list))
    """By stream, its records by offset."""
    contents: dict[Content, LoggedFile] = field(default_factory=dict)
    """By `content_of`, the newest record."""
    read: dict[str, Read] = field(default_factory=dict)
    """By shard of the source's stream, what the newest landing has read of it."""
    created: Created = field(default_factory=dict)
    """By `schema.table` of the source's stream, when DMS created the table, in order."""
    transferred: dict[str, list[datetime]] = field(default_factory=dict)
    """By `schema.table`, when the first row of each full-load part was transferred, as far as known, in order."""
    transactions: Transactions = field(default_factory=Transactions)
    """What has landed of those of the source's stream."""
    chains: dict[tuple[str, str], Chains] = field(default_factory=lambda: defaultdict(Chains))
    """By stream, the objects that each of its files has been."""

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
        if record.ranges is not None:
            self.read |= parse_ranges(record.ranges, record.logged_at)
            self.created = merged(self.created, parse_created(record.ranges))
            self.transactions = parse_transactions(record.ranges) or self.transactions
        self.tables[table].append(record)
        if record.kind is FileKind.LOAD and record.first_commit_ts is not None:
            insort(self.transferred.setdefault(table_text(*table), []), record.first_commit_ts)
        if record.kind is FileKind.VANISHED:
            self.vanished[table] = record.offset
            self.open_epochs[table] = record.epoch + 1
            self.chains[table].add(record, None)
        if record.kind is FileKind.VANISHED or record.retry:
            return
        self._place(record)
        if record.format == TRANSACTIONS:
            self._share(record)
        elif record.content is not None:
            self.contents[content_of(record)] = record
        if self._is_withdrawal(record):
            self.open_epochs[table] = record.epoch
        else:
            self.open_epochs[table] = max(record.epoch, self.open_epochs.get(table, FIRST_EPOCH))

    def _is_withdrawal(self, record: LoggedFile) -> bool:
        """Whether a full-load part was logged again with an earlier load: the user has said that it is no reload."""
        if record.kind is not FileKind.LOAD or record.copy_of is not None:
            return False
        chain = self._chain_of(record)
        return chain is not None and any(one.epoch > record.epoch for one in chain.now.records)

    def _place(self, record: LoggedFile) -> None:
        """Notes the object as its file's, and that the object which had the content before has it no more."""
        chains, copied = self.chains[record.stream], self._copied(record)
        concerned = {chains.at(record.key), chains.of(copied) if copied is not None else None}
        before = [(other, other.now.at.key) for other in concerned if other is not None]
        chain = chains.add(record, copied)
        if chain is not None:
            for other, key in before:
                if (other is chain or other.taken_by is chain) and key != chain.now.at.key:
                    self._supersede(key)
        if chain is None or chain.now.at.key == record.key:
            self._supersede(record.key, unless=record.version)
            self.newest[record.key] = record

    def _supersede(self, key: str, unless: str | None = None) -> None:
        before = self.newest.get(key)
        if before is not None and before.version != unless:
            self.superseded.add((key, before.version))
            del self.newest[key]

    def _share(self, record: LoggedFile) -> None:
        place, version = place_of(record.key), (record.key, record.version)
        held = self.shares.get(place, {})
        same = {table: share for table, share in held.items() if (share.key, share.version) == version}
        # A new dict, because a running scan may be reading the old one.
        self.shares[place] = {**same, table_text(*record.stream): record}

    def _copied(self, record: LoggedFile) -> LoggedFile | None:
        """The record that a copy repeats."""
        if record.copy_of is None:
            return None
        records = self.tables[record.stream]
        at = bisect_left(records, record.copy_of, key=_offset)
        return records[at] if records[at].offset == record.copy_of else None

    def holds(self, file: LoggedFile) -> bool:
        """Whether the record's content is still in the bucket, as far as the log shows."""
        chain = self._chain_of(file) or self._living(file)  # a request is in no chain
        return chain is not None and chain.taken_by is None and chain.now.is_of(file)

    def former(self, file: NewFile) -> LoggedFile | None:
        """The newest record of the file to which an object belongs by its key; None for a new file."""
        chain, record = self._living(file), self.newest.get(file.key)
        if chain is not None:
            record = chain.now.newest
        return None if record is None or self.has_vanished(record) else record

    def has_now(self, file: NewFile) -> bool:
        """Whether an object has the content that its file has, as far as the log shows."""
        chain = self._living(file)
        return chain is not None and chain.now.is_of(file)

    def is_overwritten(self, file: NewFile) -> bool:
        """Whether an object had its file's content, and has another one now."""
        chain = self._living(file)
        return chain is not None and chain.now.at.key == file.key and not chain.now.is_of(file)

    def repeated(self, file: NewFile, absent: Collection[str]) -> LoggedFile | None:
        """The record of the object whose content the file has, or None. In another folder, equal content is a move only
        if the name is the same, and the former object is gone: two changes without a timestamp may be equal, and so may
        two parts of a full load."""
        if file.content is None or file.format == TRANSACTIONS or file.kind is FileKind.VANISHED:
            return None
        chain, other = self._living(file), self.with_content_of(file)
        if chain is not None and chain.now.is_of(file):
            at = chain.now.at
            return at if (at.key, at.version) != (file.key, file.version) else None
        if other is None or self.has_vanished(other):
            return None
        its_chain = self._chain_of(other)
        if its_chain is not None and its_chain.now.is_of(other):
            return its_chain.now.at if its_chain.now.at.key in absent else None
        # A former content of another file. A reload without timestamps may have the same rows as an earlier load.
        is_copy = file.kind is FileKind.CDC or file.first_commit_ts is not None
        return other if chain is None and is_copy else None

    def is_beside(self, file: NewFile, absent: Collection[str]) -> bool:
        """Whether an object is a duplicate: the object that has its file's content is there, and it has a content that
        the file has, or had before. Or it is a full-load part that another folder has too: its rows have different
        timestamps, so that DMS transferred them only once. A duplicate is logged once the other object is gone."""
        chain = self._living(file)
        if chain is not None:
            at = chain.now.at
            return at.key != file.key and at.key not in absent and chain.had(file)
        other = self.with_content_of(file)
        if other is None or file.kind is not FileKind.LOAD or file.one_stamp is not False:
            return False
        its_chain = self._chain_of(other)
        return its_chain is not None and its_chain.now.is_of(file) and its_chain.now.at.key not in absent

    def elsewhere(self, file: NewFile) -> set[str]:
        """The keys of other objects that have, or may have, the file's content: whether they are there decides what the
        file is."""
        other = self.with_content_of(file)
        chains = [self._living(file), self._chain_of(other) if other is not None else None]
        return {chain.now.at.key for chain in chains if chain is not None} - {file.key}

    def with_content_of(self, file: NewFile) -> LoggedFile | None:
        """The newest record that has the file's content, in any folder of the table."""
        return self.contents.get(content_of(file)) if file.content is not None else None

    def _living(self, file: NewFile) -> Chain | None:
        """The chain of the file to which an object belongs by its key, unless it has vanished."""
        chains = self.chains.get(file.stream)
        chain = chains.at(file.key) if chains is not None else None
        return chain if chain is not None and not chain.vanished else None

    def _chain_of(self, record: LoggedFile) -> Chain | None:
        original = self._copied(record) or record
        chains = self.chains.get(record.stream)
        return chains.of(original) if chains is not None else None

    def has_vanished(self, record: LoggedFile) -> bool:
        """Whether the record was logged before its table's files vanished."""
        return record.offset < self.vanished.get(record.stream, 0)

    def living(self, schema: str, table: str) -> list[LoggedFile]:
        """The table's records since its files vanished, or all of them."""
        return [r for r in self.tables.get((schema, table), ()) if not self.has_vanished(r)]

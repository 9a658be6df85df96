"""The objects that one file has been: one rule for every chain of names and bytes.

A file is not one object for ever. After a multipart copy, a change of KMS key, compression or a move, the same content
has another ETag or key. Somebody may also write the file again, with other quotes or in another order, under the same
name or with another extension. All of these objects are one file, and exactly one of them has its content now:

- An object with content that the file has already is a copy: it gets a record of its own (`copy_of`), so that the next
  scan knows the object, and changes no table. It may be in another folder.
  So does the object that takes the place of a file when rows of it are erased.
- An object with other content in the file's place (its key without extensions) is the file, written again. So is one in
  a place that the file had before, unless it is a part of another full load.

While the object that has the content exists, an object beside it with a content that the file has, or had before, is
left out (`known.py`). Here: the chains, and the files as a plan sees them. Not here: the digest of a content
(`bronze/files/content.py`), which objects are logged (`admission.py`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lake_assets.bronze.files.keys import FileKind, place_of
from lake_assets.bronze.log.log_record import LoggedFile, NewFile


@dataclass(slots=True, eq=False)
class Content:
    """One content of a file."""

    records: list[LoggedFile]
    """Those that log the content itself, by offset: several if it was logged again, as for a decision of the user."""
    at: LoggedFile
    """The record of the object that has, or last had, the content."""

    @property
    def newest(self) -> LoggedFile:
        """The record that was logged last."""
        return max(self.records[-1], self.at, key=lambda record: record.offset)

    def is_of(self, file: NewFile) -> bool:
        """Whether an object has this content."""
        same = (self.records[0], self.at)
        known = file.content is not None and any(one.content == file.content for one in same)
        return known or any((one.key, one.version) == (file.key, file.version) for one in same)


@dataclass(slots=True, eq=False)
class Chain:
    """The contents of one file, in the order of the log."""

    now: Content
    former: list[Content] = field(default_factory=list)
    taken_by: "Chain | None" = None
    """The file that was moved over this one, whose last content is gone since."""
    vanished: bool = False
    """Whether all files of its table have vanished since its newest record."""

    @property
    def contents(self) -> Iterator[Content]:
        yield from self.former
        yield self.now

    @property
    def first(self) -> int:
        """The offset of the first record; of the file that was moved over this one, if there is one."""
        chain = self
        while chain.taken_by is not None:
            chain = chain.taken_by
        return (chain.former or [chain.now])[0].records[0].offset

    @property
    def is_one_object(self) -> bool:
        """Whether the file has been one object only."""
        return not self.former and self.taken_by is None and self.now.records == [self.now.at]

    def had(self, file: NewFile) -> bool:
        """Whether the file has, or had before, the content of an object."""
        return any(content.is_of(file) for content in self.contents)

    def logs(self, record: LoggedFile) -> bool:
        """Whether a record is of one of the file's contents."""
        return any(record.offset == one.offset for content in self.contents for one in content.records)

    def continues_with(self, record: NewFile, epoch: int) -> bool:
        """Whether an object in one of the file's places is the file, written again."""
        here = place_of(record.key) == place_of(self.now.at.key)
        return here or record.kind is FileKind.CDC or epoch == self.now.records[-1].epoch

    def add(self, record: LoggedFile) -> None:
        """Adds a record of the file itself."""
        first = self.now.records[0]
        if (record.key, record.version) == (first.key, first.version):
            self.now.records.append(record)
            self.now.at = record if self.vanished else self.now.at
        else:
            self.former.append(self.now)
            self.now = Content([record], record)
        self.vanished = False


class Chains:
    """The chains of some records of one table."""

    def __init__(self) -> None:
        self._in_place: dict[str, Chain] = {}
        self._displaced: dict[int, Chain] = {}
        """By offset of their records, the chains that have lost a place to another."""

    def at(self, key: str) -> Chain | None:
        """The chain of the file in whose place a key is."""
        return self._in_place.get(place_of(key))

    def of(self, record: LoggedFile) -> Chain | None:
        """The chain of a record that was added and is no copy."""
        chain = self._displaced.get(record.offset) or self.at(record.key)
        return chain if chain is not None and chain.logs(record) else None

    def add(self, record: LoggedFile, copied: LoggedFile | None) -> Chain | None:
        """Adds the next record, in the order of offsets; `copied`: the record that it repeats. Returns the chain that
        has the place now; None for a record that puts no content into a place: a request for quarantined rows, a record
        of vanished files, a copy of a former content."""
        if record.kind is FileKind.VANISHED:
            for each in self._in_place.values():
                each.vanished = each.vanished or each.now.at.stream == record.stream
        if record.kind is FileKind.VANISHED or record.retry:
            return None
        if record.copy_of is not None:
            chain = self.of(copied) if copied is not None else None
            if chain is None or all(one.offset != record.copy_of for one in chain.now.records):
                return None
            chain.now.at = record
        else:
            chain = self.at(record.key)
            if chain is not None and chain.continues_with(record, record.epoch):
                chain.add(record)
            else:
                chain = Chain(Content([record], record))
        self._put(chain, place_of(record.key))
        return chain

    def _put(self, chain: Chain, place: str) -> None:
        before = self._in_place.get(place)
        if before is not None and before is not chain:
            self._displaced |= {one.offset: before for content in before.contents for one in content.records}
            if place == place_of(before.now.at.key):
                before.taken_by = chain
        self._in_place[place] = chain


def originals(files: Iterable[LoggedFile]) -> list[LoggedFile]:
    """The records that are not copies, in their order, each with its chain and the key under which its content is now.
    `files`: by offset."""
    listed = list(files)
    placed = _placed(listed)
    if not placed:
        return listed
    # A request for quarantined rows asks for them where the content is.
    contents = {_content(file): file for file in placed.values()}
    found = []
    for file in listed:
        if file.copy_of is None:
            same = contents.get(_content(file)) if file.retry else None
            found.append(_moved(file, same) if same is not None else placed.get(file.offset, file))
    return found


def _placed(files: Sequence[LoggedFile]) -> dict[int, LoggedFile]:
    """By offset, the records of the files that have been several objects."""
    tables: dict[tuple[str, str], Chains] = defaultdict(Chains)
    copied = {file.copy_of for file in files} - {None}
    records = {file.offset: file for file in files if file.offset in copied}
    chains: dict[int, Chain] = {}
    for file in files:
        original = records.get(file.copy_of) if file.copy_of is not None else None
        chain = tables[file.source, file.qualified_table].add(file, original)
        if chain is not None:
            chains[id(chain)] = chain
    return {
        record.offset: replace(
            _moved(record, content.at),
            chain=chain.first,
            placed_at=max(record.offset, content.at.offset),
        )
        for chain in chains.values()
        if not chain.is_one_object
        for content in chain.contents
        for record in content.records
    }


def _moved(file: LoggedFile, to: LoggedFile) -> LoggedFile:
    """The record with the object that has its content now."""
    moved = to.path if to.path != file.key else None
    # Rows may have been erased from the content.
    return replace(
        file, moved_to=moved, size=to.size, compression=to.compression, rows=to.rows, content=to.content
    )


def _content(file: LoggedFile) -> tuple[str, str, str, str]:
    return file.source, file.qualified_table, file.key, file.version

"""Which of the files that a scan found are logged, in which order, in which epoch.

Here: pure decisions from the scan's files and the log's records. Not here: scanning (`bronze/scan/discovery.py`),
assigning offsets and committing (`file_log.py`), or when a full load counts as complete (silver).

A full load begins an *epoch* of its table, and a LOAD file that is transferred again opens the next one: DMS reloads a
table under the same keys, so a reload appears as new content under a known key, with a later transfer stamp where the
files have stamps. New content with the same stamp or an older one is not a later transfer: the file stays in its epoch,
and the plan asks for a decision where that may be wrong (`silver/plan/ambiguous_parts.py`). Objects with content that
the log has already (`copies.py`) change nothing.

A reload's parts arrive one by one, over any number of scans. Where files have no stamps, a part with the same bytes as
before can only be recognised by its time of modification, after another part has opened the epoch. Without these parts,
the reload of a table that only grew would lose its old rows.

A reload may also have new keys, for example with another number of parallel threads. Either of two facts distinguishes
it from a late part of the open load: the files' own times (`epochs.py`), or the absence of the former parts from the
bucket. Where neither decides, the part joins the open epoch, and a table that has applied this epoch stops for a
decision (`silver/plan/ambiguous_parts.py`).

When all files of a table have vanished (`bronze/scan/vanished.py`), a record states it, and the table starts over:
files that return are logged again, and the next full load opens an epoch.

A transaction file has one record, a *share*, for each table of which it has rows, so that plan, position and counts of
each table use its own rows only. The shares are logged together, and a new version of the file supersedes them in all
tables at once.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from itertools import zip_longest
from operator import attrgetter

from lake_assets.bronze.files.keys import TRANSACTIONS, FileKind, place_of
from lake_assets.bronze.log.created_tables import within_announced
from lake_assets.bronze.log.epochs import (
    File,
    is_of_earlier_load,
    is_of_reload,
    is_of_same_load,
    load_end,
    may_be_reloaded,
)
from lake_assets.bronze.log.known import FIRST_EPOCH, Known
from lake_assets.bronze.log.log_record import LoggedFile, NewFile
from lake_assets.config import table_text

_by_table_and_key = attrgetter("schema", "table", "key")
_by_flush_time = attrgetter("flush_time", "key", "schema", "table")


_COPIED = tuple(field.name for field in fields(NewFile))


def new_records(
    found: Collection[NewFile],
    known: Known,
    history: Iterable[LoggedFile],
    *,
    source: str,
    head: int,
    based_on: int,
    now: datetime,
    listed: Collection[str] | None = None,
    absent: Collection[str] = (),
) -> list[LoggedFile]:
    """The records to append to the log above the offset `head`, logged `now` (UTC). `known` and `history`: the source's
    records so far; the others are those of `admit`."""
    records: list[LoggedFile] = []
    earlier = list(history) if len(groups := _rounds(found, known)) > 1 else []
    for files in groups:
        upto = based_on
        if records:
            created = known.created
            known, upto = Known.of([*earlier, *records]), records[-1].offset
            known.created = created
        # An object that was overwritten has its former content no more.
        overwritten = {file.key for file in found if known.is_overwritten(file)}
        admitted = admit(files, known, upto, listed, {*absent, *overwritten})
        first = head + len(records) + 1
        records += [
            LoggedFile(
                offset=offset,
                source=source,
                epoch=epoch,
                logged_at=now,
                **{name: getattr(file, name) for name in _COPIED},
            )
            for offset, (file, epoch) in enumerate(admitted, start=first)
        ]
    return records


def admit(
    found: Iterable[NewFile],
    known: Known,
    based_on: int,
    listed: Collection[str] | None = None,
    absent: Collection[str] = (),
) -> list[tuple[NewFile, int]]:
    """The files to log with their epochs, in the order of their offsets: copies, then records of vanished files, then
    full loads by table and key, then CDC by flush time and key.

    `based_on` is the log's head before the files were listed. A key that was logged since is left out: its listing is
    out of date, and the next scan lists it again. So is a file whose content was logged since under another key:
    whether that object is still there was not asked. `listed`: all keys of the bucket, if they were listed. `absent`:
    known keys that the bucket no longer has.
    """
    # A file found twice is one file.
    current = (file for file in found if _is_current(file, known, based_on))
    distinct = list({(file.key, file.version, file.stream): file for file in current}.values())
    distinct = [file for file in distinct if not known.is_beside(file, absent)]
    copies = _copies(distinct, known, absent)
    copied = {(file.key, file.version) for file, _ in copies}
    candidates = [file for file in distinct if (file.key, file.version) not in copied]
    vanished = sorted(_of_kind(candidates, FileKind.VANISHED), key=_by_table_and_key)
    loads = sorted(_of_kind(candidates, FileKind.LOAD), key=_by_table_and_key)
    changes = sorted(_of_kind(candidates, FileKind.CDC), key=_by_flush_time)
    epochs = _Epochs(known, changes, listed, {mark.stream for mark in vanished})
    admitted = copies + [(mark, epochs.ended_by(mark)) for mark in vanished]
    admitted += sorted(epochs.of_loads(loads), key=lambda entry: _by_table_and_key(entry[0]))
    admitted += [(file, epochs.open(file.stream)) for file in changes if _has_new_content(file, known)]
    return admitted


def _of_kind(files: Iterable[NewFile], kind: FileKind) -> list[NewFile]:
    return [file for file in files if file.kind is kind]


class _Epochs:
    """The epochs of the files of one scan. A full-load file may open an epoch, which the next ones join."""

    def __init__(
        self,
        known: Known,
        changes: Sequence[NewFile],
        listed: Collection[str] | None,
        gone: Collection[tuple[str, str]],
    ) -> None:
        """`gone`: the streams of which all files have vanished; the others are those of `admit`."""
        self._known, self._changes, self._listed, self._gone = known, changes, listed, gone
        self._opened: dict[tuple[str, str], int] = {}
        self._entering: list[tuple[NewFile, int]] = []

    def open(self, stream: tuple[str, str]) -> int:
        """The newest epoch of a table, or of one of its folders."""
        return self._opened.get(stream) or self._known.open_epochs.get(stream, FIRST_EPOCH)

    def ended_by(self, mark: NewFile) -> int:
        """The epoch that ends because all of its files have vanished."""
        epoch = self.open(mark.stream)
        self._opened[mark.stream] = epoch + 1
        return epoch

    def of_loads(self, loads: Sequence[NewFile]) -> list[tuple[NewFile, int]]:
        """The full-load files that are admitted, with their epochs."""
        for file in loads:
            if _is_rewritten(file, self._known) and file.stream not in self._gone:
                self._enter(file, self._of_rewritten(file))
        # In the order of their transfer: the first part of a reload opens its epoch, and the others join it.
        for file in sorted(loads, key=_transferred):
            if _is_never_seen(file, self._known) or file.stream in self._gone:
                self._enter(file, self._of_new_key(file))
        in_already = {(file.key, file.stream) for file, _ in self._entering}
        for file in loads:
            if (file.key, file.stream) not in in_already and self._is_unchanged_part(file):
                self._enter(file, self.open(file.stream))
        return self._with_moved_parts()

    def _enter(self, file: NewFile, epoch: int) -> None:
        self._opened[file.stream] = max(epoch, self.open(file.stream))
        self._entering.append((file, epoch))

    def _is_unchanged_part(self, file: NewFile) -> bool:
        """Whether a part of the previous load with unchanged bytes belongs to the reload."""
        newest = self._known.newest.get(file.key)
        if newest is None or newest.version != file.version:
            return False
        stamped = file.first_commit_ts is not None
        return may_be_reloaded(newest, file.last_modified, self.open(file.stream), stamped=stamped)

    def _of_rewritten(self, file: NewFile) -> int:
        newest, open_epoch = self._known.former(file), self.open(file.stream)
        if newest is None:
            return open_epoch
        if _is_no_later_transfer(file, newest):
            return newest.epoch
        opens = newest.epoch == open_epoch and not self._was_moved(newest)
        return open_epoch + 1 if opens else open_epoch

    def _was_moved(self, record: LoggedFile) -> bool:
        """Whether the part was first logged with the previous load."""
        return any(
            (r.key, r.version, r.epoch) == (record.key, record.version, record.epoch - 1)
            for r in self._known.living(*record.stream)
        )

    def _of_new_key(self, file: NewFile) -> int:
        stream = file.stream
        logged = [] if stream in self._gone else self._known.living(*stream)
        loads: dict[int, list[File]] = defaultdict(list)
        for record in logged:
            if record.kind is FileKind.LOAD:
                loads[record.epoch].append(record)
        for other, epoch in self._entering:
            if other.stream == stream:
                loads[epoch].append(other)
        cdc = self._changes_of(stream, logged)
        epoch = self._by_times(file, loads, cdc)
        return within_announced(epoch, file, loads, self._known.created.get(table_text(*stream), ()))

    def _changes_of(self, stream: tuple[str, str], logged: Iterable[LoggedFile]) -> list[File]:
        """The changes of a stream: those that are logged, and those of the scan."""
        cdc: list[File] = [record for record in logged if record.kind is FileKind.CDC]
        return cdc + [change for change in self._changes if change.stream == stream]

    def _by_times(self, file: NewFile, loads: Mapping[int, Sequence[File]], cdc: Sequence[File]) -> int:
        """The epoch of a file with a new key; `loads`: by epoch, the parts so far."""
        epoch = self.open(file.stream)
        others = loads.get(epoch, [])
        own = {(other.key, other.version) for other in others}
        # Without those that were moved to the open epoch.
        before = [part for part in loads.get(epoch - 1, []) if (part.key, part.version) not in own]
        if is_of_earlier_load(file, others, before, cdc, reload=epoch - 1 > FIRST_EPOCH):
            return epoch - 1
        earlier = [part for of, parts in loads.items() if of < epoch for part in parts]
        end = load_end(others, cdc, earlier, reload=epoch > FIRST_EPOCH)
        same = is_of_same_load(file, others, end)
        if same is None:
            same = self._is_beside_known_part(file, others)
        return epoch + 1 if same is False else epoch

    def _is_beside_known_part(self, file: NewFile, others: Sequence[File]) -> bool | None:
        """Whether a logged part of the load is still in the bucket; None if that shows nothing. If none is, DMS emptied
        the folder first (TargetTablePrepMode). A file with the stamp of a known part may be that part, moved."""
        logged = [part for part in others if isinstance(part, LoggedFile)]
        stamps = {part.first_commit_ts for part in logged} - {None}
        if not logged or self._listed is None or file.first_commit_ts in stamps:
            return None
        return any(part.key in self._listed for part in logged)

    def _with_moved_parts(self) -> list[tuple[NewFile, int]]:
        """What has entered, with parts moved to the reload's epoch: those that were assigned to the previous load, or
        logged with it, because nothing yet showed a reload.

        A later transfer of an object key shows the reload. Parts of the previous load under other object keys may
        belong to either load if DMS transferred them after that key's former transfer. The changes in between decide,
        else the nearer transfer. A part assigned to the wrong load is corrected when the reload writes its object key
        again.
        """
        found = dict(self._entering)
        for stream in {file.stream for file, _ in self._entering} - set(self._gone):
            own = [(file, epoch) for file, epoch in self._entering if file.stream == stream]
            again: dict[int, list[tuple[LoggedFile, NewFile]]] = defaultdict(list)
            for file, epoch in own:
                if (old := _former_transfer(file, epoch, self._known)) is not None:
                    again[epoch].append((old, file))
            for epoch, transferred in again.items():
                found |= dict.fromkeys(self._moved(stream, epoch, own, transferred), epoch)
        return list(found.items())

    def _moved(
        self,
        stream: tuple[str, str],
        epoch: int,
        own: Sequence[tuple[NewFile, int]],
        again: Sequence[tuple[LoggedFile, NewFile]],
    ) -> list[NewFile]:
        """The parts of the load before `epoch` that belong to it. `own`: the stream's files that have entered; `again`:
        the parts of `epoch` whose keys were transferred before, with their former records."""
        former = [old for old, _ in again]
        begun = min(_transferred(new)[0] for _, new in again)
        living = self._known.living(*stream)
        earlier = [c for c in self._changes_of(stream, living) if c.flush_time and c.flush_time < begun]
        end = load_end(former, earlier, reload=epoch > 2)
        keys = {file.key for file, _ in own}
        late = [
            record
            for record in living
            if record.kind is FileKind.LOAD
            and self._known.newest.get(record.key) is record
            and record.epoch == epoch - 1
            and record.key not in keys
        ]
        parts = [replace(NewFile(**{name: getattr(r, name) for name in _COPIED}), copy_of=None) for r in late]
        parts += [file for file, of in own if of == epoch - 1]
        return [part for part in parts if is_of_reload(part, former, begun, end)]


def _former_transfer(file: NewFile, epoch: int, known: Known) -> LoggedFile | None:
    """The record of the file's former transfer; None unless the file is a later one, rather than old content that was
    restored."""
    old = known.former(file)
    if old is None or old.epoch >= epoch:
        return None
    if file.first_commit_ts is None or old.first_commit_ts is None:
        return None
    return old if file.first_commit_ts > old.first_commit_ts else None


def _rounds(found: Iterable[NewFile], known: Known) -> list[list[NewFile]]:
    """The files in groups to be admitted one after the other, each with at most one object in each place: first the one
    with the content that the file has, then the others in the order in which they were written."""
    places: dict[str, dict[str, list[NewFile]]] = defaultdict(lambda: defaultdict(list))
    for file in sorted(found, key=lambda file: (not known.has_now(file), *_written(file))):
        places[place_of(file.key)][file.key].append(file)
    levels = zip_longest(*(objects.values() for objects in places.values()), fillvalue=())
    return [[file for files in level for file in files] for level in levels]


def _written(file: NewFile) -> tuple[datetime, datetime, str]:
    transferred, key = _transferred(file)
    return transferred, file.last_modified, key


def _copies(files: Sequence[NewFile], known: Known, absent: Collection[str]) -> list[tuple[NewFile, int]]:
    """The files whose content the log has already, as copies of a record, each with that record's epoch."""
    repeated = [(file, known.repeated(file, absent)) for file in sorted(files, key=_by_table_and_key)]
    return [(_copy(file, same), same.epoch) for file, same in repeated if same is not None]


def _copy(file: NewFile, same: LoggedFile) -> NewFile:
    """The file as a copy of a record. A full-load part without a timestamp may still belong to a reload that did not
    change it: with its former date, it stays a candidate for the epoch that another part opens."""
    undated = file.kind is FileKind.LOAD and file.first_commit_ts is None
    written = same.last_modified if undated else file.last_modified
    return replace(file, copy_of=same.copy_of or same.offset, last_modified=written)


def _is_current(file: NewFile, known: Known, based_on: int) -> bool:
    if file.kind is FileKind.VANISHED:
        records = known.living(*file.stream)
        return bool(records) and records[-1].offset <= based_on and records[-1].kind is not FileKind.VANISHED
    deciding = (known.newest.get(file.key), known.former(file), known.with_content_of(file))
    return all(record is None or record.offset <= based_on for record in deciding)


def _has_new_content(file: NewFile, known: Known) -> bool:
    return _is_never_seen(file, known) or _is_rewritten(file, known)


def _is_never_seen(file: NewFile, known: Known) -> bool:
    return known.former(file) is None


def _is_rewritten(file: NewFile, known: Known) -> bool:
    if _is_never_seen(file, known):
        return False
    newest = known.newest.get(file.key)
    if newest is None:
        return True  # the file had another key, or has left this one
    if newest.version == file.version:
        # The table was configured after the transaction file had been found unreadable.
        return (
            file.format == TRANSACTIONS and table_text(*file.stream) not in known.shares[place_of(file.key)]
        )
    # Earlier content: restored if it was written after the newest record, otherwise a repeated listing.
    return (file.key, file.version) not in known.superseded or file.last_modified > newest.last_modified


def _is_no_later_transfer(file: File, former: File) -> bool:
    """Whether, by the stamps, the file is not a later transfer than the former file of its key."""
    at, before = file.first_commit_ts, former.first_commit_ts
    return at is not None and before is not None and at <= before


def _transferred(file: NewFile) -> tuple[datetime, str]:
    return file.first_commit_ts or datetime.max.replace(tzinfo=UTC), file.key

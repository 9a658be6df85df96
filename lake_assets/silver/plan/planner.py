"""The next batch of a silver table: a pure decision over its position and the file log.

Here: full load or CDC, which files, the batch of a table whose files have vanished. Not here: whether a full load is
complete (`full_load_gate.py`), ambiguous LOAD files (`ambiguous_parts.py`), the consistent cut (`cut.py`).
"""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.epochs import load_end
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.config import FullLoadComplete, Mode, OnVanished
from lake_assets.silver.plan.ambiguous_parts import Ambiguity, Stamps, ambiguous_parts
from lake_assets.silver.plan.cut import NO_CUT, Cut, may_wait, why_nothing
from lake_assets.silver.plan.full_load_gate import Gate, why_incomplete
from lake_assets.silver.plan.members import (
    by_stream,
    empties,
    epoch_members,
    epoch_of,
    living_files,
    newest_versions,
    offset_of,
    table_epoch,
    with_requests,
)
from lake_assets.silver.plan.plan import UP_TO_DATE, Batch, Plan, Stop
from lake_assets.silver.table.position import Position
from lake_assets.words import many, them


def plan_batch(
    position: Position,
    files: Sequence[LoggedFile],
    *,
    mode: Mode,
    policy: FullLoadComplete,
    now: datetime,
    max_files: int | None,
    on_vanished: OnVanished = "keep",
    gate: Gate | None = None,
    cut: Cut = NO_CUT,
    stamps: Stamps = Stamps.TRANSFER,
    lacks: str | None = None,
) -> Plan:
    """The next batch, or why there is none.

    `files` are all files of the table in the log, by offset; `now` is UTC. `max_files`: None for all pending files in
    one batch, a full load with the changes since. `stamps`: what those of full-load rows are. `lacks`: a sentence about
    rows of files up to the position that the table lacks, so that it is computed again.
    """
    marks = [file for file in files if file.kind is FileKind.VANISHED]
    living = living_files(files, mode, on_vanished)
    # Of a table with folders, one may have vanished alone: then the table is computed again from the others.
    alone = any(file.offset < mark.offset for mark in marks[-1:] for file in living)
    may_empty = empties(mode, on_vanished)
    if may_empty and not alone and (emptied := _emptied(position, files, marks, on_vanished)) is not None:
        return Plan(emptied)
    if (stop := _loaded_twice(living, mode)) is not None:
        return Plan(stop=stop)
    if lacks is not None:
        return Plan(whole_table(position, living, mode), note=lacks)
    passed = [mark for mark in marks if mark.offset > position.log_offset and (alone or not may_empty)]
    unread = [file for file in living if file.offset > position.log_offset]
    pending = sorted((*unread, *passed), key=offset_of)
    upto = cut.of(position)
    if (reason := why_nothing(position, pending, upto)) is not None:
        return Plan(waiting=reason)
    if not (pending or position.waiting):
        return UP_TO_DATE
    chunk = pending[: _batch_size(position, living, pending, max_files)]
    next_batch = _NextBatch(position, living, chunk, policy, now, gate, stamps)
    if mode is Mode.CHANGE_LOG:
        plan = next_batch.of_log()
    else:
        left = passed if may_empty and _has_snapshot(position) else ()
        plan = next_batch.of_rows(left, in_one_batch=max_files is None)
    if (batch := plan.batch) is None:
        return plan
    if batch.kind == "cdc" and position.waiting:
        batch = _reopening(batch, position, living, mode, cut.margin)
    if (stop := _needs_vanished_files(batch, marks)) is not None:
        return Plan(stop=stop)
    return Plan(
        replace(batch, cut=upto, vanished=tuple(mark for mark in passed if mark.offset <= batch.upto))
    )


def whole_table(position: Position, files: Sequence[LoggedFile], mode: Mode) -> Batch:
    """The batch that computes a table again from its living `files`, up to its position."""
    upto, epoch = position.log_offset, position.epoch
    if mode is Mode.CHANGE_LOG:
        members = with_requests(newest_versions(files), files)
    else:
        members = epoch_members(files, upto)
        # Folders that have joined the table since may have full loads.
        epoch = max(epoch, table_epoch(members))
    return Batch("full_load", members, upto, epoch, cut=position.cut, again=True)


class _NextBatch:
    """The next batch of a table that has pending files."""

    def __init__(
        self,
        position: Position,
        files: Sequence[LoggedFile],
        chunk: Sequence[LoggedFile],
        policy: FullLoadComplete,
        now: datetime,
        gate: Gate | None,
        stamps: Stamps,
    ) -> None:
        """`files`: all living ones; `chunk`: the pending records that the batch takes."""
        self._position, self._files, self._chunk = position, files, chunk
        self._policy, self._now, self._gate, self._stamps = policy, now, gate, stamps
        self._newest = newest_versions(files)
        self._upto = chunk[-1].offset if chunk else position.log_offset
        self._own = sum(file.kind is not FileKind.VANISHED for file in chunk)
        """Files of the chunk, without the marks."""

    def of_log(self) -> Plan:
        """Of a change log, which keeps every change of every epoch: it waits for nothing, and no file is superseded.
        But whether the rows of a part are those of another load, or its former rows corrected, has to be known."""
        for records in by_stream(self._files).values():
            found = self._ambiguity(records)
            if found is not None and found.written_again and not set(self._chunk).isdisjoint(found.parts):
                return Plan(stop=_asking(found))
        held = {(file.key, file.version) for file in self._files if not self._is_pending(file)}
        wanted = tuple(
            file
            for file in with_requests(self._newest, self._files)
            if self._is_taken(file) and (file.retry or (file.key, file.version) not in held)
        )
        epochs = (self._position.epoch, *(file.epoch for file in self._chunk[-1:]))
        return Plan(Batch("cdc", wanted, self._upto, max(epochs), self._own - len(wanted)))

    def of_rows(self, withdrawn: Sequence[LoggedFile], *, in_one_batch: bool) -> Plan:
        """Of any other table. `withdrawn`: pending marks of folders that have vanished, whose rows leave the table."""
        loads = by_stream(file for file in self._files if file.kind is FileKind.LOAD)
        epoch = sum(map(epoch_of, loads.values()))
        decided = {stream: _decided_parts(own) for stream, own in loads.items()}
        due = {stream: parts for stream, parts in decided.items() if any(map(self._is_pending, parts))}
        if epoch > self._position.epoch and not due:
            due = decided
        if not (due or withdrawn):
            return self._of_changes()
        for stream in due:
            records = [file for file in self._files if stream[1] in file.names]
            if (plan := self._why_not(records)) is not None:
                return plan
        first = self._upto if in_one_batch else self._position.log_offset
        upto = max(first, *map(offset_of, chain(*due.values(), withdrawn)))
        return Plan(Batch("full_load", epoch_members(self._files, upto), upto, epoch))

    def _of_changes(self) -> Plan:
        members = epoch_members(self._files, self._upto)
        wanted = tuple(f for f in members if self._is_pending(f) and f.kind is FileKind.CDC)
        applied = {file.file for file in self._files if not self._is_pending(file)}
        left_out = self._own - len(wanted)
        if any(file.file in applied and not file.retry for file in wanted):
            # The file's former rows cannot be distinguished from its present ones, so that the table is recomputed.
            return Plan(Batch("full_load", members, self._upto, self._position.epoch, left_out))
        return Plan(Batch("cdc", wanted, self._upto, self._position.epoch, left_out))

    def _why_not(self, files: Sequence[LoggedFile]) -> Plan | None:
        """Why the newest full load of one folder, with the records `files`, may not be applied yet; None if it may."""
        loads = [file for file in files if file.kind is FileKind.LOAD]
        epoch = epoch_of(loads)
        parts = [file for file in newest_versions(loads) if file.epoch == epoch]
        own = {file.offset for file in files}
        changes = [file for file in self._newest if file.kind is FileKind.CDC and file.offset in own]
        end = load_end(parts, changes, [file for file in loads if file.epoch < epoch])
        ambiguity = self._ambiguity(files)
        if self._policy.when == "immediately" and ambiguity is not None and ambiguity.came_late:
            ambiguity = None
        if ambiguity is not None and not ambiguity.may_settle:
            return Plan(stop=_asking(ambiguity))
        if (reason := why_incomplete(parts, end, self._policy, self._now, self._gate)) is not None:
            return Plan(waiting=reason)
        return Plan(stop=_asking(ambiguity)) if ambiguity is not None else None

    def _ambiguity(self, files: Sequence[LoggedFile]) -> Ambiguity | None:
        """The ambiguity about the newest full load of one folder, with the records `files`."""
        then = replace(self._position, epoch=epoch_of(files, self._position.log_offset))
        return ambiguous_parts(files, epoch_of(files), then, self._stamps)

    def _is_pending(self, file: LoggedFile) -> bool:
        return file.offset > self._position.log_offset

    def _is_taken(self, file: LoggedFile) -> bool:
        return self._is_pending(file) and file.offset <= self._upto


def _decided_parts(loads: Sequence[LoggedFile]) -> tuple[LoggedFile, ...]:
    """The parts of a folder's newest full load, with the requests for their rows."""
    epoch = epoch_of(loads)
    return with_requests((file for file in newest_versions(loads) if file.epoch == epoch), loads)


def _loaded_twice(files: Sequence[LoggedFile], mode: Mode) -> Stop | None:
    """The stop of a table whose own folder and whose `folders` have full loads: a partitioned table's own load has the
    rows of all partitions. Rows that were deleted between the two would come back."""
    loads = by_stream(file for file in files if file.kind is FileKind.LOAD)
    own = [parts[0] for stream, parts in loads.items() if not parts[0].partitions]
    others = [parts[0] for stream, parts in loads.items() if parts[0].partitions]
    if not own or not others or mode is Mode.CHANGE_LOG:
        return None
    return Stop(
        f"{own[0].key} and {others[0].key} are both full loads of its rows: of the whole table, and of a partition.",
        "Have DMS load the partitions only, and delete all files of the table's own folder from the bucket.",
    )


def _batch_size(
    position: Position,
    files: Sequence[LoggedFile],
    pending: Sequence[LoggedFile],
    max_files: int | None,
) -> int | None:
    """How many pending files a batch takes; if rows wait in a file that was written again, all files up to its new
    content, because the rows that waited no longer exist."""
    if max_files is None or not position.waiting:
        return max_files
    read = {file.file for file in files if file.offset <= position.log_offset}
    again = [n for n, file in enumerate(pending, start=1) if file.file in read and not file.retry]
    return max(max_files, *again) if again else max_files


def _reopening(
    batch: Batch, position: Position, files: Sequence[LoggedFile], mode: Mode, margin: timedelta
) -> Batch:
    """The batch with the files that have rows waiting for its cut."""
    if mode is Mode.CHANGE_LOG:
        members = with_requests(newest_versions(files), files)
    else:
        members = epoch_members(files, position.log_offset)
    again = [file for file in members if may_wait(file, position, margin)]
    return replace(
        batch,
        files=tuple(sorted((*again, *batch.files), key=offset_of)),
        reopened=frozenset(file.offset for file in again),
    )


def _has_snapshot(position: Position) -> bool:
    return position.snapshot_id is not None


def _emptied(
    position: Position, files: Sequence[LoggedFile], marks: Sequence[LoggedFile], on_vanished: OnVanished
) -> Batch | None:
    """The batch of a table whose files have vanished, if the table still has to be emptied or dropped. It skips the
    files that were pending before: they are gone, and their rows would be deleted anyway."""
    if not marks or not _has_snapshot(position):
        return None
    upto = marks[-1].offset
    if position.log_offset < upto:
        passed = tuple(mark for mark in marks if mark.offset > position.log_offset)
        skipped = sum(position.log_offset < f.offset < upto and f not in passed for f in files)
        return Batch("truncate", (), upto, position.epoch, skipped, passed)
    if on_vanished == "drop" and position.log_offset == upto == files[-1].offset:
        return Batch("drop", (), upto, position.epoch)
    return None


def _needs_vanished_files(batch: Batch, marks: Sequence[LoggedFile]) -> Stop | None:
    """The stop of a batch that needs files which have vanished; None for any other."""
    last = {mark.stream: mark.offset for mark in marks}
    gone = [file for file in batch.files if file.offset < last.get(file.stream, 0)]
    if not gone:
        return None
    them_all = them(len(gone))
    return Stop(
        f"{gone[0].key}, which the next batch needs, has vanished from the bucket."
        if len(gone) == 1
        else f"{many(len(gone), 'file')} that the next batch needs have vanished from the bucket, the first of them "
        f"{gone[0].key}.",
        f"Put {them_all} back or have DMS reload the table; with on_vanished: truncate the table starts again without "
        f"{them_all}.",
    )


def _asking(ambiguity: Ambiguity) -> Stop:
    """The stop of a full load with ambiguous parts."""
    table = shlex.quote(ambiguity.parts[0].qualified_table)
    return Stop(
        ambiguity.reason,
        f"Run `lake-assets full-load {table} --reload` if DMS has loaded the table again, or "
        f"`lake-assets full-load {table} --same-load` if it has not.",
    )

"""The next batch of a silver table: a pure decision over its position and the file log.

Here: full load or CDC, which files, the batch of a table whose files have vanished. Not here: whether a full load is
complete (`full_load_gate.py`), ambiguous LOAD files (`ambiguous_parts.py`), the consistent cut (`cut.py`).
"""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.epochs import load_end
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.config import FullLoadComplete, Mode, OnVanished
from lake_assets.errors import Remedy, TableStopped
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
from lake_assets.silver.table.position import Position
from lake_assets.words import many, them

LARGE_ROWS, LARGE_BYTES = 50_000, 16 * 2**20
"""A batch with at least so many rows, or bytes as stored, takes longer than all usual batches of a round together."""


def are_large(files: Iterable[LoggedFile]) -> bool:
    """Whether these files make a large batch."""
    files = list(files)
    rows = sum(file.rows for file in files if file.rows is not None)
    return rows >= LARGE_ROWS or sum(file.size for file in files) >= LARGE_BYTES


class State(StrEnum):
    """The state of a silver table against the file log."""

    UP_TO_DATE = "up to date"
    NO_FILES = "no files"
    PENDING = "pending"
    WAITING = "waiting"
    STOPPED = "stopped"
    FAILING = "failing"
    """It has a batch, and its newest turn failed."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a table is stopped, and what the user has to do: sentences for the user."""

    reason: str
    next_step: str
    remedy: Remedy | None = None

    def error(self, table: str) -> TableStopped:
        """The error of the turn; `table` is `schema.table`."""
        return TableStopped(table, self.reason, self.next_step).mended_by(self.remedy)


@dataclass(frozen=True, slots=True)
class Batch:
    """Files that one commit applies. `files` is empty when all pending files are superseded."""

    kind: Literal["full_load", "cdc", "truncate", "drop"]
    """`full_load` replaces the table, `truncate` empties it, `drop` drops it once it is empty."""
    files: tuple[LoggedFile, ...]
    upto: int
    """The table's log offset once the batch is applied."""
    epoch: int
    superseded_files: int = 0
    """Files left out: flushed before the epoch began, so that the full load has their changes, or rewritten since."""
    vanished: tuple[LoggedFile, ...] = ()
    """Records that the batch passes, which mark all files before them as vanished."""
    cut: datetime | None = None
    """The commit up to which rows are applied, UTC; later ones wait. None: all are applied."""
    reopened: frozenset[int] = frozenset()
    """Offsets of those of `files` that an earlier batch has read, and that have waiting rows."""
    again: bool = False
    """Whether the files were applied before, and their keys are recomputed from all files."""

    @property
    def own_files(self) -> list[LoggedFile]:
        """The files without those that an earlier batch has read."""
        return [file for file in self.files if file.offset not in self.reopened]

    @property
    def rows(self) -> int | None:
        """Rows of all files by their own count; None if a file has no count."""
        counts = [file.rows for file in self.files]
        return None if None in counts else sum(count for count in counts if count is not None)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a table: at most one of the three, and none when the table is up to date."""

    batch: Batch | None = None
    waiting: str | None = None
    """Why no batch can be applied yet: a sentence for the user."""
    stop: Stop | None = None
    note: str | None = None
    """A sentence about a batch that the table's new files do not explain."""

    @property
    def state(self) -> State:
        if self.stop is not None:
            return State.STOPPED
        if self.waiting is not None:
            return State.WAITING
        return State.UP_TO_DATE if self.batch is None else State.PENDING


UP_TO_DATE = Plan()


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
    if marks and empties(mode, on_vanished) and _has_snapshot(position) and not alone:
        emptied = _emptied(position, files, marks, on_vanished)
        if emptied is not None:
            return Plan(emptied)
    if (stop := _loaded_twice(living, mode)) is not None:
        return Plan(stop=stop)
    if lacks is not None:
        return Plan(whole_table(position, living, mode), note=lacks)
    passed = [] if empties(mode, on_vanished) and not alone else marks
    pending = sorted((f for f in (*living, *passed) if f.offset > position.log_offset), key=offset_of)
    upto = cut.of(position)
    if (reason := why_nothing(position, pending, upto)) is not None:
        return Plan(waiting=reason)
    if not (pending or position.waiting):
        return UP_TO_DATE
    in_one_batch = max_files is None
    chunk = pending[: _batch_size(position, living, pending, max_files)]
    withdrawn = [m for m in passed if empties(mode, on_vanished) and m.offset > position.log_offset]
    plan = _plan(
        position,
        living,
        chunk,
        mode,
        policy,
        now,
        gate,
        in_one_batch=in_one_batch,
        stamps=stamps,
        withdrawn=withdrawn if _has_snapshot(position) else (),
    )
    if (batch := plan.batch) is None:
        return plan
    if batch.kind == "cdc" and position.waiting:
        batch = _reopening(batch, position, living, mode, cut.margin)
    if (stop := _needs_vanished_files(batch, marks)) is not None:
        return Plan(stop=stop)
    own = tuple(mark for mark in passed if position.log_offset < mark.offset <= batch.upto)
    return Plan(replace(batch, cut=upto, vanished=own))


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


def _plan(
    position: Position,
    files: Sequence[LoggedFile],
    chunk: Sequence[LoggedFile],
    mode: Mode,
    policy: FullLoadComplete,
    now: datetime,
    gate: Gate | None,
    *,
    in_one_batch: bool,
    stamps: Stamps,
    withdrawn: Sequence[LoggedFile] = (),
) -> Plan:
    """`withdrawn`: pending records of folders that have vanished, whose rows leave the table."""
    upto = chunk[-1].offset if chunk else position.log_offset
    newest = newest_versions(files)
    own = sum(file.kind is not FileKind.VANISHED for file in chunk)
    if mode is Mode.CHANGE_LOG:
        # A change log keeps every change of every epoch: it waits for nothing, and no file is superseded. But whether
        # the rows of a part are those of another load, or its former rows corrected, has to be known.
        for records in by_stream(files).values():
            ambiguity = _ambiguity(position, records, stamps)
            if (
                ambiguity is not None
                and ambiguity.written_again
                and not set(chunk).isdisjoint(ambiguity.parts)
            ):
                return Plan(stop=_asking(ambiguity))
        held = {(f.key, f.version) for f in files if f.offset <= position.log_offset}
        wanted = tuple(
            f
            for f in with_requests(newest, files)
            if position.log_offset < f.offset <= upto and (f.retry or (f.key, f.version) not in held)
        )
        epochs = (position.epoch, *(file.epoch for file in chunk[-1:]))
        return Plan(Batch("cdc", wanted, upto, max(epochs), own - len(wanted)))

    loads = by_stream(file for file in files if file.kind is FileKind.LOAD)
    epoch = sum(map(epoch_of, loads.values()))
    due = {stream: own for stream, own in loads.items() if _due(own, position)}
    if epoch > position.epoch and not due:
        due = loads
    if due or withdrawn:
        parts = [part for own in due.values() for part in _decided_parts(own)]
        upto = max(
            upto if in_one_batch else position.log_offset, *(file.offset for file in (*parts, *withdrawn))
        )
        for stream in due:
            records = [file for file in files if stream[1] in file.names]
            plan = _why_not(position, records, newest, policy, now, gate, stamps=stamps)
            if plan is not None:
                return plan
        return Plan(Batch("full_load", epoch_members(files, upto), upto, epoch))

    members = epoch_members(files, upto)
    wanted = tuple(f for f in members if f.offset > position.log_offset and f.kind is FileKind.CDC)
    applied = {f.file for f in files if f.offset <= position.log_offset}
    left_out = own - len(wanted)
    if any(f.file in applied and not f.retry for f in wanted):
        # The file's former rows cannot be distinguished from its present ones, so that the table is recomputed.
        return Plan(Batch("full_load", members, upto, position.epoch, left_out))
    return Plan(Batch("cdc", wanted, upto, position.epoch, left_out))


def _decided_parts(loads: Sequence[LoggedFile]) -> tuple[LoggedFile, ...]:
    """The parts of a folder's newest full load, with the requests for their rows."""
    epoch = epoch_of(loads)
    return with_requests((file for file in newest_versions(loads) if file.epoch == epoch), loads)


def _due(loads: Sequence[LoggedFile], position: Position) -> bool:
    return any(part.offset > position.log_offset for part in _decided_parts(loads))


def _why_not(
    position: Position,
    files: Sequence[LoggedFile],
    newest: Sequence[LoggedFile],
    policy: FullLoadComplete,
    now: datetime,
    gate: Gate | None,
    *,
    stamps: Stamps,
) -> Plan | None:
    """Why the newest full load of one folder, with the records `files`, may not be applied yet; None if it may.
    `newest`: the newest records of the table's objects."""
    loads = [file for file in files if file.kind is FileKind.LOAD]
    epoch = epoch_of(loads)
    parts = [file for file in newest_versions(loads) if file.epoch == epoch]
    own = {file.offset for file in files}
    changes = [file for file in newest if file.kind is FileKind.CDC and file.offset in own]
    end = load_end(parts, changes, [file for file in loads if file.epoch < epoch])
    ambiguity = _ambiguity(position, files, stamps)
    if policy.when == "immediately" and ambiguity is not None and ambiguity.came_late:
        ambiguity = None
    if ambiguity is not None and not ambiguity.may_settle:
        return Plan(stop=_asking(ambiguity))
    if (reason := why_incomplete(parts, end, policy, now, gate)) is not None:
        return Plan(waiting=reason)
    return Plan(stop=_asking(ambiguity)) if ambiguity is not None else None


def _ambiguity(position: Position, files: Sequence[LoggedFile], stamps: Stamps) -> Ambiguity | None:
    """The ambiguity about the newest full load of one folder, with the records `files`."""
    then = replace(position, epoch=epoch_of(files, position.log_offset))
    return ambiguous_parts(files, epoch_of(files), then, stamps)


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

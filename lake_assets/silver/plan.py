"""What the next batch of a silver table is: a pure decision over its position and the file log.

Here: full load or CDC, which files, whether the full load is complete. Not here: reading or writing anything.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from lake_assets.bronze.file_log import LoggedFile
from lake_assets.bronze.keys import FileKind
from lake_assets.config import FullLoadComplete, Mode
from lake_assets.silver.position import Position


@dataclass(frozen=True, slots=True)
class Batch:
    """Files to be applied in one commit. `files` is empty when all that is pending is superseded."""

    kind: Literal["full_load", "cdc"]
    """`full_load` replaces the table."""
    files: tuple[LoggedFile, ...]
    upto: int
    """The table's log offset once the batch is applied."""
    epoch: int
    superseded_files: int = 0
    """Files left out: flushed before the epoch began, so that the full load holds what they say, or rewritten since."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing can be applied yet, and why; a sentence for the user."""

    reason: str


def plan_batch(
    position: Position,
    files: Sequence[LoggedFile],
    *,
    mode: Mode,
    policy: FullLoadComplete,
    now: datetime,
    max_files: int,
) -> Batch | Waiting | None:
    """The next batch, or None when nothing is pending.

    `files` are all files of the table in the log, by offset; `now` is UTC. An unlogged file does not exist here.
    """
    pending = [file for file in files if file.offset > position.log_offset]
    if not pending:
        return None
    chunk = pending[:max_files]
    upto = chunk[-1].offset
    newest = newest_versions(files)
    if mode is Mode.CHANGE_LOG:
        # Every change is kept, whatever epoch it belongs to: nothing to wait for and nothing superseded.
        wanted = tuple(f for f in with_requests(newest, files) if position.log_offset < f.offset <= upto)
        return Batch("cdc", wanted, upto, max(position.epoch, chunk[-1].epoch), len(chunk) - len(wanted))

    loads = [file for file in files if file.kind is FileKind.LOAD]
    epoch = max((file.epoch for file in loads), default=0)
    parts = newest_versions(file for file in loads if file.epoch == epoch)
    start = epoch_start(parts)
    decided = with_requests(parts, loads)
    load_pending = epoch > position.epoch or any(part.offset > position.log_offset for part in decided)
    if load_pending:
        cdc = [f for f in files if f.kind is FileKind.CDC and not _superseded(f, start)]
        if (reason := _load_incomplete(parts, cdc, policy, now)) is not None:
            return Waiting(reason)
        upto = max(position.log_offset, *(part.offset for part in decided))
        return Batch("full_load", epoch_members(files, epoch, upto), upto=upto, epoch=epoch)

    members = epoch_members(files, position.epoch, upto)
    wanted = tuple(f for f in members if f.offset > position.log_offset and f.kind is FileKind.CDC)
    applied = {f.key for f in files if f.offset <= position.log_offset}
    left_out = len(chunk) - len(wanted)
    if any(f.key in applied and not f.retry for f in wanted):
        # What its rows said before cannot be told from the file as it is now, so that the table is made anew.
        return Batch("full_load", members, upto, position.epoch, left_out)
    return Batch("cdc", wanted, upto, position.epoch, left_out)


def epoch_members(files: Sequence[LoggedFile], epoch: int, upto: int) -> tuple[LoggedFile, ...]:
    """Every record that the table's state at log offset `upto` is a function of, in log order."""
    newest = newest_versions(files)
    parts = [f for f in newest if f.kind is FileKind.LOAD and f.epoch == epoch and f.offset <= upto]
    start = epoch_start(parts)
    cdc = [f for f in newest if f.kind is FileKind.CDC and f.offset <= upto and not _superseded(f, start)]
    return tuple(f for f in with_requests([*parts, *cdc], files) if f.offset <= upto)


def newest_versions(files: Iterable[LoggedFile]) -> tuple[LoggedFile, ...]:
    """One record per key, the newest, in log order: the bucket holds one object under a key, so that an older record
    names content that is gone. A request for rows that were set aside brings no content, and hides none."""
    return tuple(sorted({f.key: f for f in sorted(files, key=_offset) if not f.retry}.values(), key=_offset))


def with_requests(members: Iterable[LoggedFile], files: Iterable[LoggedFile]) -> tuple[LoggedFile, ...]:
    """The members and the records that ask again for rows of theirs, in log order."""
    at = {(member.key, member.version): member for member in members}
    requests = (f for f in files if f.retry and (f.key, f.version) in at)
    asking = [f for f in requests if f.offset > at[f.key, f.version].offset]
    return tuple(sorted([*at.values(), *asking], key=_offset))


def _offset(file: LoggedFile) -> int:
    return file.offset


def epoch_start(parts: Sequence[LoggedFile]) -> datetime | None:
    """When the full load began, UTC, on DMS's clock; None when nothing can have been superseded or nobody can tell.

    The transfer times in the files themselves decide. Without them a first load supersedes nothing: the objects' own
    dates are those of the latest copy of the bucket, and trusting them would drop every change made before it.
    """
    if not parts:
        return None
    stamps = [part.first_commit_ts for part in parts if part.first_commit_ts is not None]
    if stamps:
        return min(stamps)
    return min(part.last_modified for part in parts) if parts[0].epoch > 1 else None


def _superseded(file: LoggedFile, start: datetime | None) -> bool:
    return start is not None and file.flush_time is not None and file.flush_time < start


def _load_incomplete(
    parts: Sequence[LoggedFile], cdc: Sequence[LoggedFile], policy: FullLoadComplete, now: datetime
) -> str | None:
    """Why the full load must be waited for; None when it may be published."""
    if policy.when == "immediately" or (policy.when == "first_cdc" and cdc):
        return None
    quiet = now - max(part.last_modified for part in parts)
    if quiet >= policy.quiet:
        return None
    until = "the first CDC file or " if policy.when == "first_cdc" else ""
    left = int((policy.quiet - quiet).total_seconds())
    return f"full load of {len(parts)} files: waiting for {until}{left} more seconds without a new LOAD file"

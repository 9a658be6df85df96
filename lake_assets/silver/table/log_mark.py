"""The file log to which a table's position belongs, and the record at the position.

A position is an offset, and an offset means nothing in another log: one that was recreated after a loss, or that was
rolled back and appended to since. Here: the log's mark in a commit, and the comparison. Pure. Not here: recreating a
log (`commands/mend/recover.py`).
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b

from lake_assets.bronze.log.log_record import LoggedFile

LOG_ID = "lake.log-id"
LOG_FILE = "lake.log-file"
LOG_FILE_VERSION = "lake.log-file-version"
LOGGED_AT = "lake.logged-at"
FLUSHED = "lake.log-flushed"
MEMBERS = "lake.log-members"
MOST_TRIED = 100


@dataclass(frozen=True, slots=True)
class LogMark:
    """The log of an offset, and its record there. Times are UTC."""

    log_id: str
    """The log table's UUID."""
    key: str
    version: str
    logged_at: datetime
    flushed: datetime | None
    """The newest flush time of the table's files up to there."""
    members: str
    """Number and checksum of the files from which the table is computed there."""

    @classmethod
    def read(cls, properties: Mapping[str, str]) -> "LogMark | None":
        """The mark in a commit's properties; None for a commit of an earlier version, which has no mark."""
        if LOG_ID not in properties:
            return None
        flushed = properties.get(FLUSHED)
        return cls(
            properties[LOG_ID],
            properties[LOG_FILE],
            properties[LOG_FILE_VERSION],
            datetime.fromisoformat(properties[LOGGED_AT]),
            datetime.fromisoformat(flushed) if flushed else None,
            properties.get(MEMBERS, ""),
        )

    def properties(self) -> dict[str, str]:
        """The summary properties of a commit at this mark."""
        properties = {
            LOG_ID: self.log_id,
            LOG_FILE: self.key,
            LOG_FILE_VERSION: self.version,
            LOGGED_AT: self.logged_at.astimezone(UTC).isoformat(),
            MEMBERS: self.members,
        }
        if self.flushed is not None:
            properties[FLUSHED] = self.flushed.astimezone(UTC).isoformat()
        return properties


def checksum(members: Iterable[LoggedFile]) -> str:
    """The number of files, and a checksum of their contents and their keys without `.gz`, in any order."""
    paths = {f"{file.path.removesuffix('.gz')} {file.content or ''}" for file in members}
    total = 0
    for path in paths:
        total ^= int.from_bytes(blake2b(path.encode(), digest_size=8).digest())
    return f"{len(paths)}-{total:016x}"


def superfluous(files: Sequence[LoggedFile], members: str) -> list[LoggedFile] | None:
    """The files, at most two, without which the others have the checksum `members`; None if there are no such files.
    The table was computed without them: they arrived late."""
    paths = {file.path: file for file in files}
    if checksum(files) == members:
        return []
    for count in (1, 2):
        for left_out in itertools.combinations(paths, count) if len(paths) <= MOST_TRIED else ():
            if checksum(file for path, file in paths.items() if path not in left_out) == members:
                return [paths[path] for path in left_out]
    return None


def mark_of(
    log_id: str, upto: int, files: Sequence[LoggedFile], members: Iterable[LoggedFile]
) -> LogMark | None:
    """The mark of a position at the offset `upto`; `files` are the table's records up to there, `members` those from
    which it is computed. None without a record there."""
    at = next((file for file in reversed(files) if file.offset == upto), None)
    if at is None:
        return None
    flushed = max((file.flush_time for file in files if file.flush_time is not None), default=None)
    return LogMark(log_id, at.key, at.version, at.logged_at, flushed, checksum(members))


def why_other_log(offset: int, mark: LogMark | None, log_id: str, files: Sequence[LoggedFile]) -> str | None:
    """Why a position cannot be of this log; None if it can. `files` are all records of the table, `mark` is None for a
    commit of an earlier version, which has only the offset."""
    if not offset:
        return None
    at = next((file for file in files if file.offset == offset), None)
    if mark is None:
        known = at is not None
    else:
        known = at is not None and (at.key, at.version) == (mark.key, mark.version) and log_id == mark.log_id
    if known:
        return None
    head = files[-1].offset if files else 0
    name = f" ({mark.key})" if mark is not None else ""
    here = f"has {at.key} at that offset" if at is not None else f"has the table's files up to offset {head}"
    return (
        f"it was applied up to offset {offset}{name} of a file log that is not the one of this catalog, which {here}: "
        "the log was dropped, rolled back or restored."
    )

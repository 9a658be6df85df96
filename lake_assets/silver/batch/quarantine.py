"""Quarantining a batch's rows and files that cannot be used, within the limits of the table.

Here: the limits, naming each quarantined row, and a batch's changes of the quarantine. Not here: the quarantine's table
(`bronze/quarantine/quarantine_log.py`), deciding that a row is bad (`bronze/decode/changes.py`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from lake_assets.bronze.files.inspect import UnreadableFile
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.quarantine.bad_rows import stop_for_bad_rows
from lake_assets.bronze.quarantine.quarantine_log import IN_NO_FILE, Quarantined, State
from lake_assets.bronze.quarantine.raw_rows import RawRow, raw_records
from lake_assets.config import REDACTED, QuarantineLimits
from lake_assets.errors import TableStopped
from lake_assets.iceberg.erasure_log import ErasureLog
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.plan.parts import Part, Requested, request_of
from lake_assets.silver.table.change_events import ChangeFigures
from lake_assets.silver.table.targets import Target
from lake_assets.words import many, them

SHARE_FROM = 20
"""Rows of a batch below which the share of bad rows is not checked."""
MOST_NAMED = 20
"""Bad rows that the message of a stopped table names."""


class BatchQuarantine:
    """The rows and files of a batch that are quarantined, and those whose retry was requested."""

    def __init__(self, context: BatchContext) -> None:
        self._context = context
        self._log = context.runtime.quarantine
        self.held: list[Quarantined] = []
        """The rows and files of the batch that are quarantined."""
        self._failed_retries: list[Quarantined] = []

    def hold(self, found: Iterable[Quarantined]) -> None:
        """Adds rows and files that the batch quarantines."""
        self.held += found

    def retry_failed(self, requested: Iterable[Quarantined]) -> None:
        """Adds requested rows of files that the present contract cannot read."""
        self._failed_retries += requested

    def requested(self) -> list[Requested]:
        """The requested rows and files, of all files of the table."""
        return [Requested(held, at) for held, at in self._log.requested(self._context.target.identifier)]

    def record(self, parts: Sequence[Part]) -> None:
        """Records what is held of these parts, the batch's own, before the batch is published; idempotent. If
        `quarantine retry` has already logged a request for a row beyond this batch, the row stays in state RETRIED
        until a batch applies that request."""
        upto = self._context.batch.upto
        later = {one.held.id: one.at for one, request in self._requests() if request.offset > upto}
        self._log.add(
            [
                replace(held, state=State.RETRIED, at=later[held.id]) if held.id in later else held
                for held in self.held
            ]
        )
        requested = {held.id for part in parts for held in part.requested}
        again = [held for held in self.held if held.id in requested]
        self._log.becomes([*again, *self._failed_retries], State.HELD)

    def release(self, parts: Sequence[Part]) -> None:
        """Called after the batch is published: releases what was held of its files and is now applied, and marks as
        superseded what was held of files from which the table is no longer computed."""
        batch = self._context.batch
        still = {held.id for held in (*self.held, *self._failed_retries)}
        read = {
            (part.file.key, part.file.version)
            for part in parts
            if part.only is None and part.file.offset not in batch.reopened
        }
        # A run that died after its publish leaves some of these to the next one.
        due = {one.held.id for one, request in self._requests() if request.offset <= batch.upto}
        among = self._context.counted_among
        again = {(held.key, held.version, held.row) for held in (*self.held, *self._failed_retries)}
        applied: list[Quarantined] = []
        superseded: list[Quarantined] = []
        for held in self._log.open(self._context.target.identifier):
            place = held.key, held.version
            if held.version == IN_NO_FILE:
                continue  # nothing shows whether a reload has what the message said: the user decides
            if place not in among:
                # Entries above the batch's offset may be of a batch that another run is about to publish.
                if held.log_offset <= batch.upto or not self._is_logged(held):
                    superseded.append(held)
            elif held.id in still:
                continue
            elif not held.counts_among(among[place]) and held.log_offset <= batch.upto:
                # Another row has its place: the batch that came to it has held this one again.
                superseded.append(held)
            elif held.id in due or place in read:
                # An entry of an earlier release has another id than the same row has now.
                (superseded if (*place, held.row) in again else applied).append(held)
        self._log.becomes(applied, State.RELEASED)
        self._log.becomes(superseded, State.SUPERSEDED)

    def _is_logged(self, held: Quarantined) -> bool:
        """Whether the table has the file of the entry now; not one of a folder that has left it."""
        log, target = self._context.runtime.file_log, self._context.target
        files = log.files(target.source, target.table, after=held.log_offset - 1)
        return any((file.key, file.version) == (held.key, held.version) for file in files)

    def _requests(self) -> list[tuple[Requested, LoggedFile]]:
        """The requested rows and files, each with the record that was logged for it."""
        logged = [file for file in self._context.logged if file.retry]
        found = ((one, request_of(one, logged)) for one in (self.requested() if logged else ()))
        return [(one, request) for one, request in found if request is not None]


def bad_rows(context: BatchContext, reading: Reading, seen: ChangeFigures) -> list[Quarantined]:
    """The rows of a batch that cannot be used. Raises TableStopped when they exceed the table's limits; rows that are
    already known, from files that are read again, do not count."""
    if not seen.bad_rows:
        return []
    target, store = context.target, context.store
    files = [part.file for part in reading.parts]
    # The known bad rows of a file with waiting rows were in another batch.
    versions = {(f.key, f.version): f.counted_among for f in files if f.offset not in reading.cut.reopened}
    known = {
        (*place, one.row)
        for one in context.held()
        if one.row is not None
        and (place := (one.key, one.version)) in versions
        and one.counts_among(versions[place])
    }
    if (limit := _exceeded(target.config.quarantine, seen.bad_rows - len(known), seen.rows)) is not None:
        named = [(file, store.spark_uri(file.path), rows) for file, rows in reading.bad_rows(MOST_NAMED)]
        stop_for_bad_rows(target.table, seen.bad_rows, limit, named)
    held: list[Quarantined] = []
    moved = ErasureLog(context.runtime.catalog).states(target.source, target.table)
    for file, places in reading.bad_rows():
        dms = context.contracts.at(file.offset).contract.dms
        raw = raw_records(store, file, dms, [place for place, _ in places])
        held += (_held(target, file, files, bad, place, raw.get(place)) for place, bad in places)
    return [replace(one, counted_in=moved[one.key][-1] if one.key in moved else None) for one in held]


def _exceeded(limits: QuarantineLimits, new: int, rows: int) -> str | None:
    """The setting that the number of new bad rows exceeds, with its value; None if none."""
    if new > limits.max_rows:
        return f"quarantine.max_rows is {limits.max_rows}"
    if rows >= SHARE_FROM and new / rows > limits.max_share:
        return f"quarantine.max_share is {limits.max_share:g} of the batch's {many(rows, 'row')}"
    return None


def unreadable_file(
    target: Target, file: LoggedFile, batch: Sequence[LoggedFile], error: UnreadableFile
) -> Quarantined:
    """The entry of a file that cannot be read at all. Raises TableStopped for a part of a full load, because the table
    would lack its rows."""
    if file.kind is FileKind.LOAD:
        raise TableStopped(
            target.table,
            f"{error}.",
            "A full load is published with all its parts or not at all: have DMS reload the table.",
        ) from error
    return _held(target, file, batch, str(error), None, None)


def refuse_too_many_files(context: BatchContext, held: Sequence[Quarantined]) -> None:
    """Raises TableStopped for more files than the limit; files that are already known, when a table is recomputed, do
    not count."""
    if not held:
        return
    most = context.target.config.quarantine.max_files
    known = {one.id for one in context.held()}
    new = [one for one in held if one.id not in known]
    if len(new) > most:
        raise TableStopped(
            context.target.table,
            f"{new[0].reason}; {many(len(new), 'file')} of the batch would be quarantined, and quarantine.max_files is "
            f"{most}.",
            f"Have DMS write {them(len(new))} again, or raise the limit to go on without {them(len(new))}.",
        )


def _held(
    target: Target,
    file: LoggedFile,
    batch: Sequence[LoggedFile],
    reason: str,
    place: int | None,
    raw: RawRow | None,
) -> Quarantined:
    return Quarantined(
        silver_table=target.identifier,
        source=target.source,
        table=target.table,
        key=file.key,
        version=file.version,
        log_offset=file.offset,
        row=place,
        line=raw.line if raw is not None else None,
        # The fields of a row that does not fit cannot be assigned to columns with certainty.
        raw=REDACTED if target.config.mask and place is not None else raw.text if raw is not None else None,
        reason=reason,
        batch=f"{batch[0].key} to {batch[-1].key}",
        counted_among=file.counted_among if place is not None else None,
        at=datetime.now(UTC),
    )

"""Rows and files that cannot be used: into the quarantine, as long as they are few.

Here: how many are too many, and naming each row that is set aside. Not here: the quarantine's table
(`bronze/quarantine/quarantine_log.py`), deciding that a row is bad (`bronze/reader/typed_rows.py`).
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from lake_assets.bronze.files.inspect import UnreadableFile
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.quarantine.bad_rows import stop_for_bad_rows
from lake_assets.bronze.quarantine.quarantine_log import Held
from lake_assets.bronze.quarantine.raw_rows import RawRow, raw_records
from lake_assets.config import QuarantineLimits
from lake_assets.errors import TableStopped
from lake_assets.schema.contract import Contracts
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.table.change_events import ChangeFigures
from lake_assets.silver.table.targets import Target
from lake_assets.storage.object_store import ObjectStore
from lake_assets.words import many

SHARE_FROM = 20
"""Rows of a batch from which on a share of them says anything."""
MOST_NAMED = 20
"""Bad rows that the message of a stopped table names."""


def bad_rows(
    target: Target,
    store: ObjectStore,
    reading: Reading,
    seen: ChangeFigures,
    contracts: Contracts,
    known: Sequence[Held],
) -> list[Held]:
    """The rows of a batch that cannot be used. Raises TableStopped when they are more than the table's limits allow;
    those that are `known`, of files that are read again, are no news."""
    if not seen.bad_rows:
        return []
    limits = target.config.quarantine
    files = [part.file for part in reading.parts]
    # Of a file of which rows waited, those that are known were another batch's.
    versions = {(f.key, f.version) for f in files if f.offset not in reading.cut.reopened}
    new = seen.bad_rows - sum((held.key, held.version) in versions for held in known if held.row is not None)
    if (limit := _exceeded(limits, new, seen.rows)) is not None:
        named = [(file, store.spark_uri(file.path), rows) for file, rows in reading.bad_rows(MOST_NAMED)]
        stop_for_bad_rows(target.table, seen.bad_rows, limit, named)
    held: list[Held] = []
    for file, places in reading.bad_rows():
        dms = contracts.at(file.offset).contract.dms
        raw = raw_records(store, file, dms, [place for place, _ in places])
        held += (_held(target, file, files, bad, place, raw.get(place)) for place, bad in places)
    return held


def _exceeded(limits: QuarantineLimits, new: int, rows: int) -> str | None:
    """The setting that so many new bad rows of a batch exceed, with its value."""
    if new > limits.max_rows:
        return f"quarantine.max_rows is {limits.max_rows}"
    if rows >= SHARE_FROM and new / rows > limits.max_share:
        return f"quarantine.max_share is {limits.max_share:g} of the batch's {many(rows, 'row')}"
    return None


def unreadable_file(
    target: Target, file: LoggedFile, batch: Sequence[LoggedFile], error: UnreadableFile
) -> Held:
    """A file that cannot be read at all. Raises TableStopped for a part of a full load, which would leave a hole in the
    table that it replaces."""
    if file.kind is FileKind.LOAD:
        raise TableStopped(
            target.table,
            f"{error}.",
            "A full load is published with all its parts or not at all: have DMS reload the table.",
        ) from error
    return _held(target, file, batch, str(error), None, None)


def refuse_too_many_files(target: Target, held: Sequence[Held], known: Sequence[Held]) -> None:
    """Raises TableStopped; those that are `known`, of a table that is made anew, are no news."""
    most = target.config.quarantine.max_files
    ids = {one.id for one in known}
    new = [one for one in held if one.id not in ids]
    if len(new) > most:
        raise TableStopped(
            target.table,
            f"{new[0].reason}; {many(len(new), 'file')} of the batch would be set aside, and quarantine.max_files is "
            f"{most}.",
            "Have DMS write them again, or raise the limit to go on without them.",
        )


def _held(
    target: Target,
    file: LoggedFile,
    batch: Sequence[LoggedFile],
    reason: str,
    place: int | None,
    raw: RawRow | None,
) -> Held:
    return Held(
        silver_table=target.identifier,
        source=target.source,
        table=target.table,
        key=file.key,
        version=file.version,
        log_offset=file.offset,
        row=place,
        line=raw.line if raw is not None else None,
        raw=raw.text if raw is not None else None,
        reason=reason,
        batch=f"{batch[0].key} to {batch[-1].key}",
        at=datetime.now(UTC),
    )

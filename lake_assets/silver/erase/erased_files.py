"""Removing rows from the files of a table in the bucket.

The log first gets a record that the object without the rows has the content of the file, and then the object takes the
file's place. So a scan between the two, or after a kill, knows either object, and no table is computed from it again.
Here: that order. Not here: which rows (`found_rows.py`), the content (`rewritten_files.py`), the rows in silver
(`erased_rows.py`).
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.bronze.files.content import UnreadableFile
from lake_assets.bronze.files.inspect import inspect_file
from lake_assets.bronze.files.keys import TRANSACTIONS, FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.scan.discovery import INSPECT_BUDGET
from lake_assets.errors import LakeError
from lake_assets.iceberg.erasure_log import ErasedFile, Erasure, ErasureLog
from lake_assets.runtime import LakeRuntime
from lake_assets.schema.contract import Contracts
from lake_assets.silver.erase.found_rows import FoundRows, decoded
from lake_assets.silver.erase.rewritten_files import are_equal, content_without
from lake_assets.silver.table.targets import Target
from lake_assets.storage.object_store import ObjectStore, StoredObject
from lake_assets.storage.one_object import OneObject

LATER = timedelta(hours=1)
"""A bucket dates the object that takes a file's place later than the log expects. Until its date is logged, it must not
look like a full load that was transferred again."""


def erase_from_file(
    runtime: LakeRuntime,
    target: Target,
    contracts: Contracts,
    found: FoundRows,
    note: Callable[[ErasedFile], None],
) -> None:
    """Removes the found rows from their file. `note`: called before anything is changed. Raises StoreError, and
    LakeError for a file that cannot be written without them."""
    file = found.file
    store = runtime.store(file.source)
    content = content_without(store, file, contracts.at(file.offset).contract.dms, found.rows)
    _refuse_other_rows(store, target, contracts, found, content)
    now = _unchanged(store, found)
    note(ErasedFile(file.path, file.key, found.version, tuple(sorted(found.rows))))
    keeps_date = now.etag is None
    expected = now.last_modified if keeps_date else datetime.now(UTC) + LATER
    copies = [
        replace(copy, version=store.version_of(content), size=len(content), last_modified=expected)
        for copy in _copies(runtime, found, content)
    ]
    runtime.file_log.log_copies(copies)
    _unchanged(store, found)
    written = store.write(file.path, content, now)
    version = store.version(written)
    if not keeps_date or version != copies[0].version:
        runtime.file_log.log_copies(
            [replace(copy, version=version, last_modified=written.last_modified) for copy in copies]
        )


def _unchanged(store: ObjectStore, found: FoundRows) -> StoredObject:
    """The file's object as it is now. Raises LakeError if it was written again since its rows were found."""
    key = found.file.path
    now = next((obj for obj in store.list(key) if obj.key == key), None)
    if now is None or store.version(now) != found.version:
        raise LakeError(f"{key} was written again since its rows were found: run it again.")
    return now


def _refuse_other_rows(
    store: ObjectStore, target: Target, contracts: Contracts, found: FoundRows, content: bytes
) -> None:
    """Raises LakeError unless the content has all other rows of the file. Where a row with a damaged quote ends, for
    one, depends on the rows behind it."""

    def compared(store: ObjectStore) -> Iterator[pa.Table]:
        file = replace(found.file, size=found.file.size if store is not rewritten else len(content))
        for changes in decoded(store, target, contracts, file):
            gone = () if store is rewritten else found.rows
            erased = pc.is_in(changes["_row"], value_set=pa.array([*gone], pa.int64()))
            yield changes.filter(pc.invert(erased)).drop_columns(["_row", "_file"])

    rewritten = cast(ObjectStore, OneObject(content))
    if not are_equal(compared(store), compared(rewritten)):
        raise LakeError(
            f"{found.file.path}: its other rows would change without the erased ones, because a damaged row in it can "
            "be read in two ways. Correct or remove that row (see `lake-assets quarantine show`), and run it again."
        )


def _copies(runtime: LakeRuntime, found: FoundRows, content: bytes) -> list[LoggedFile]:
    """The records of the file's object as records of the object with the content: of a transaction file, one for each
    of its tables."""
    file = found.file
    here = [
        record
        for record in runtime.file_log.records(file.source)
        if record.key == file.path and not record.retry and record.kind is not FileKind.VANISHED
    ]
    newest = {record.stream: record for record in here if record.version == here[-1].version}
    rows = None if file.format == TRANSACTIONS else found.total - len(found.rows)
    digest = _digest(runtime, file, content)
    return [
        replace(record, copy_of=record.copy_of or record.offset, rows=rows, content=digest)
        for record in newest.values()
    ]


def _digest(runtime: LakeRuntime, file: LoggedFile, content: bytes) -> str | None:
    """The digest of the content, as a scan of the object makes it; None where a scan makes none."""
    if file.format == TRANSACTIONS or len(content) > INSPECT_BUDGET:
        return None
    dms = runtime.lake.sources[file.source].settings(file.qualified_table, file.flush_time)
    try:
        return inspect_file(cast(ObjectStore, OneObject(content)), replace(file, key=file.path), dms).content
    except UnreadableFile:
        return None


def settle(runtime: LakeRuntime, erasure: Erasure) -> None:
    """Has the quarantine count the rows of the erasure's files as they are now. May be repeated. Raises StoreError."""
    source, table = erasure.source, erasure.table
    store = runtime.store(source)
    present = {obj.key: obj for obj in store.list()}
    states = ErasureLog(runtime.catalog).states(source, table)
    for file in erasure.files:
        if file.key in present and store.version(present[file.key]) != file.before:
            after = erasure.state_of(file)
            known = states[file.logged_as]
            before = known[known.index(after) - 1] if known.index(after) else None
            runtime.quarantine.erase(source, table, file.logged_as, file.rows, before=before, after=after)
    runtime.quarantine.forget_texts(source, table)

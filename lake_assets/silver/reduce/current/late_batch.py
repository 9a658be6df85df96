"""Recomputing keys: those of a late batch, and those whose state the batch alone does not determine.

Here: from which files, and replacing the batch's own states by the result. Not here: when a batch is late
(`silver/plan/lateness.py`), how far back the files reach (`replay_basis.py`), following rows from key to key
(`silver/reduce/current/key_moves.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import pyarrow as pa
from pyspark.sql import DataFrame

from lake_assets.bronze.decode.files import address_of
from lake_assets.bronze.files.content import FilesUnusable, UnreadableFile
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.scan.vanished import missing_files
from lake_assets.iceberg.table_io import load_table, table_at
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.batch.reader import BatchReader
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.plan.lateness import is_committed_by, may_share_transaction, overlap_end
from lake_assets.silver.plan.replay_basis import Basis, newest_basis
from lake_assets.silver.plan.rewritten import lost_contents
from lake_assets.silver.reduce.current.key_moves import settled
from lake_assets.silver.reduce.current.keyed_edit import KeyedEdit, edit_of
from lake_assets.silver.reduce.current.last_changes import destinations, last_changes
from lake_assets.silver.reduce.edit_keys import keys_frame
from lake_assets.silver.table.change_events import ChangeFigures, commit_of
from lake_assets.spark.checkpoint import checkpointed


def replayed(reader: BatchReader, reading: Reading) -> KeyedEdit:
    """The edit of a late batch: its keys recomputed from all files with changes of its time or later. Raises
    FilesUnusable when one of these is gone."""
    context, key = reader.context, reader.context.target.key
    only, number = None, 0
    for piece in reading.events.pieces():
        keys = last_changes(piece, key).keys
        number += keys.num_rows
        # Of several pieces, all keys are recomputed: those of the batch may be too many for this process.
        only = keys if reading.events.is_one else None
    if not number:
        return edit_of(reading, context.target, _never, _never)
    context.stage("replay")
    with context.watch.stage("replay"):
        basis = _basis(reader, reading)
        again = reader.read_with_own(basis.files)
        if only is not None:
            # Also the keys to which rows moved by changes before the batch.
            only = destinations(again.events.partial_moves, key, only)

        def settle(keys: pa.Table) -> DataFrame:
            return _settled(reader, again, keys, _rows_at(context, basis))

        edit = edit_of(again, context.target, settle, lambda _: False, only=only)
        return replace(edit, followed=edit.keys.number - number)


def settled_in_order(reader: BatchReader, reading: Reading, keys: pa.Table) -> DataFrame:
    """The states of doubtful keys of an in-order batch. Raises FilesUnusable as `replayed`."""
    context = reader.context
    with context.watch.stage("replay"):
        if may_be_in_load(context, reader.seen):
            # The load may have read a row where this batch moves it to, and a batch before may have taken that for
            # another row.
            return _settled(reader, members_again(reader, reading), keys, None)
        if commit_of(reader.seen.min_sequence) > commit_of(context.position.max_sequence):
            # Nothing of its transactions was applied before.
            return _settled(reader, reading, keys, context.main)
        basis = _basis(reader, reading)
        return _settled(reader, reader.read_with_own(basis.files), keys, _rows_at(context, basis))


def settled_in_load(reader: BatchReader, reading: Reading, keys: pa.Table) -> DataFrame:
    """The states of doubtful keys of a full load, which have no earlier state."""
    with reader.context.watch.stage("replay"):
        return _settled(reader, reading, keys, None)


def may_be_in_load(context: BatchContext, seen: ChangeFigures) -> bool:
    """Whether the full load may have seen changes of the batch, and updates may lack columns, which it then has.
    `seen`: the batch's figures."""
    end = overlap_end(context.members, context.position)
    return context.target.may_be_partial and is_committed_by(seen, end)


def members_again(reader: BatchReader, reading: Reading) -> Reading:
    """A reading of all files of the epoch: a late batch is recomputed from them if the table keeps former rows, or has
    no key. Raises FilesUnusable when one of them is gone."""
    members = reader.context.members
    refuse_missing(reader.context, reading, members)
    return reader.read_with_own(members)


def _settled(reader: BatchReader, reading: Reading, keys: pa.Table, base: DataFrame | None) -> DataFrame:
    """The states of the keys by the changes of a reading and the table's rows before them, computed."""
    context, changes = reader.context, reading.good
    states = settled(
        context.spark,
        context.target,
        changes,
        keys_frame(context.spark, keys),
        base,
        overlap_end=overlap_end(context.members, context.position),
        observed=reading.observations,
    )
    return checkpointed(states)


def _never(*_: object) -> NoReturn:
    raise AssertionError("there are no keys")


def _basis(reader: BatchReader, reading: Reading) -> Basis:
    context, batch = reader.context, reader.context.batch
    table = load_table(context.runtime.catalog, context.target.identifier)
    assert table is not None, "it was created before the batch"
    if batch.again or batch.cut is not None or batch.reopened:
        # A snapshot at a cut does not have all rows of the files that were read for it.
        basis = Basis(context.members)
    else:
        lowest = reader.seen.min_sequence
        basis = newest_basis(table, context.position.snapshot_id, batch, context.logged, lowest)
    refuse_missing(context, reading, basis.files)
    return basis


def refuse_missing(context: BatchContext, reading: Reading, files: Sequence[LoggedFile]) -> None:
    """Raises FilesUnusable for the batch's late files when one of the other files or its former content is gone."""
    batch = {file.key for file in context.batch.files}
    needed = [file for file in files if file.key not in batch]
    if missing := missing_files(context.store, needed):
        raise FilesUnusable(_held_back(context, reading, missing[0].key, "is gone from the bucket"))
    if lost := lost_contents(needed, context.logged, context.damaged):
        raise FilesUnusable(
            _held_back(context, reading, lost[0].key, "was written again, and is quarantined")
        )


def _held_back(context: BatchContext, reading: Reading, needed: str, fate: str) -> list[UnreadableFile]:
    """The batch's files that have changes from before the newest applied one, as unusable ones."""
    applied, figures = context.position.max_sequence, reading.by_file()
    back = {address for address, seen in figures.items() if may_share_transaction(seen.min_sequence, applied)}
    reason = (
        f"it arrived late, and {needed}, without which its changes cannot be applied, {fate}: retry it once that file "
        "is back, or have DMS reload the table"
    )
    return [
        UnreadableFile(part.file.key, reason)
        for part in reading.parts
        if part.file.retry or address_of(context.store, part.file.path) in back
    ]


def _rows_at(context: BatchContext, basis: Basis) -> DataFrame | None:
    """The rows of the table before the files of the basis."""
    if basis.snapshot_id is None:
        return None
    catalog = context.runtime.lake.catalog.name
    return context.spark.sql(table_at(catalog, context.target.identifier, basis.snapshot_id))

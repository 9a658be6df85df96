"""Recomputing keys: those of a late batch, and those whose state the batch alone does not determine.

Here: from which files, and replacing the batch's own states by the result. Not here: when a batch is late
(`silver/plan/lateness.py`), how far back the files reach (`replay_basis.py`), following rows from key to key
(`silver/changes/key_moves.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.files.content import FilesUnusable, UnreadableFile
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.reader.places import plain
from lake_assets.bronze.scan.vanished import missing_files
from lake_assets.iceberg.table_io import load_table, table_at
from lake_assets.silver.changes.collapse import events
from lake_assets.silver.changes.key_moves import settled, with_destinations
from lake_assets.silver.changes.key_states import Counts, counted, keys_of, state_of
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.changes.row_cut import RowCut
from lake_assets.silver.plan.lateness import is_committed_by, may_share_transaction, overlap_end
from lake_assets.silver.plan.replay_basis import Basis, newest_basis
from lake_assets.silver.plan.rewritten import lost_contents
from lake_assets.silver.table.change_events import UPDATED, ChangeFigures, commit_of, key_columns
from lake_assets.silver.write.batch_context import BatchContext
from lake_assets.silver.write.batch_reader import BatchReader
from lake_assets.spark.checkpoint import checkpointed

States = tuple[DataFrame, Counts]


def replayed(reader: BatchReader, reading: Reading, delta: DataFrame, counts: Counts) -> States:
    """The states of a late batch's keys, recomputed from all files with changes of its time or later. Raises
    FilesUnusable when one of these is gone."""
    if not counts.keys:
        return delta, counts  # Spark would not read the files for an empty join, and count no rows
    context = reader.context
    context.stage("replay")
    with context.watch.stage("replay"):
        basis = _basis(reader, reading)
        affected = keys_of(delta, context.target, counts.keys)
        again = reader.read_with_own(basis.files)
        if context.target.may_be_partial:
            every = events(again.good, context.target.key, before_images=context.target.before_images)
            affected = with_destinations(context.target, every, affected)
        done, found = counted(context.target, state_of(context.target, again.good, only=affected), again)
        again.figures()
        if found.doubtful:
            done, found = _with_settled(reader, done, found, basis, _rows_at(context, basis))
        # Also the keys to which rows moved by changes before the batch.
        return done, replace(found, followed=found.keys - counts.keys)


def settled_in_order(reader: BatchReader, reading: Reading, delta: DataFrame, counts: Counts) -> States:
    """The states of an in-order batch's keys, with the doubtful ones settled. Raises FilesUnusable as `replayed`."""
    context = reader.context
    with context.watch.stage("replay"):
        if may_be_in_load(context, reader.seen):
            # The load may have read a row where this batch moves it to, and a batch before may have taken that for
            # another row.
            basis = Basis(context.members)
            refuse_missing(context, reading, basis.files)
            return _with_settled(reader, delta, counts, basis, None)
        if commit_of(reader.seen.min_sequence) > commit_of(context.position.max_sequence):
            # Nothing of its transactions was applied before.
            own = Basis(context.batch.files)
            return _with_settled(reader, delta, counts, own, context.main, cut=context.row_cut)
        basis = _basis(reader, reading)
        return _with_settled(reader, delta, counts, basis, _rows_at(context, basis))


def may_be_in_load(context: BatchContext, seen: ChangeFigures) -> bool:
    """Whether the full load may have seen changes of the batch, and updates may lack columns, which it then has.
    `seen`: the batch's figures."""
    end = overlap_end(context.members, context.position)
    return context.target.may_be_partial and is_committed_by(seen, end)


def settled_in_load(reader: BatchReader, delta: DataFrame, counts: Counts) -> States:
    """The states of a full load's keys, which have no earlier state, with the doubtful ones settled."""
    return _with_settled(reader, delta, counts, Basis(reader.context.batch.files), None)


def members_again(reader: BatchReader, reading: Reading) -> Reading:
    """A reading of all files of the epoch: a late batch is recomputed from them if the table keeps former rows, or has
    no key. Raises FilesUnusable when one of them is gone."""
    members = reader.context.members
    refuse_missing(reader.context, reading, members)
    return reader.read_with_own(members)


def _with_settled(
    reader: BatchReader,
    delta: DataFrame,
    counts: Counts,
    basis: Basis,
    base: DataFrame | None,
    cut: RowCut | None = None,
) -> States:
    names = key_columns(reader.context.target.key)
    doubtful = delta.filter("_doubtful")
    # A key's first change is known from its own changes; followed keys do not need one.
    firsts = F.broadcast(doubtful.select(*names, "_first"))
    found = _settled(reader, doubtful, basis, base, cut)
    found = found.drop("_first").join(firsts, on=names, how="left")
    # Followed keys may be in both.
    rest = delta.join(found.select(*names), on=names, how="left_anti")
    done, now = counted(reader.context.target, rest.unionByName(found))
    followed = now.keys - counts.keys
    return done, replace(now, present=counts.present, followed=followed)


def _settled(
    reader: BatchReader, doubtful: DataFrame, basis: Basis, base: DataFrame | None, cut: RowCut | None = None
) -> DataFrame:
    context = reader.context
    reading = reader.read_with_own(basis.files, cut)
    keys = doubtful.select(*key_columns(context.target.key))
    end = overlap_end(context.members, context.position)
    done = checkpointed(settled(context.spark, context.target, reading.good, keys, base, overlap_end=end))
    return done.withColumns({"_first": F.lit(UPDATED), "_doubtful": F.lit(False)})


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
    applied = context.position.max_sequence
    lowest = reading.changes.filter("_sequence != ''").groupBy("_file").agg(F.min("_sequence").alias("first"))
    back = {
        plain(unquote(row["_file"]))
        for row in lowest.collect()
        if may_share_transaction(row["first"], applied)
    }
    reason = (
        f"it arrived late, and {needed}, without which its changes cannot be applied, {fate}: retry it once that file "
        "is back, or have DMS reload the table"
    )
    return [
        UnreadableFile(part.file.key, reason)
        for part in reading.parts
        if part.file.retry or plain(context.store.spark_uri(part.file.path)) in back
    ]


def _rows_at(context: BatchContext, basis: Basis) -> DataFrame | None:
    """The rows of the table before the files of the basis."""
    if basis.snapshot_id is None:
        return None
    catalog = context.runtime.lake.catalog.name
    return context.spark.sql(table_at(catalog, context.target.identifier, basis.snapshot_id))

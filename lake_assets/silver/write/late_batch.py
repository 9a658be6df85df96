"""Keys that are computed again: of a batch that came late, and of one that does not tell by itself.

Here: from which files, and putting the outcome in the place of the batch's own. Not here: how far back the files reach
(`replay_basis.py`), following rows from key to key (`silver/changes/key_moves.py`).
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
from lake_assets.silver.changes.key_moves import settled
from lake_assets.silver.changes.key_states import Counts, broadcast_if_few, counted, state_of
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.changes.row_cut import RowCut
from lake_assets.silver.plan.rewritten import lost_contents
from lake_assets.silver.table.change_events import UPDATED, commit_of, key_columns
from lake_assets.silver.write.batch_context import BatchContext
from lake_assets.silver.write.batch_reader import BatchReader
from lake_assets.silver.write.replay_basis import Basis, basis
from lake_assets.spark.checkpoint import checkpointed

States = tuple[DataFrame, Counts]


def replayed(reader: BatchReader, reading: Reading, delta: DataFrame, counts: Counts) -> States:
    """The state of a late batch's keys from every file that tells of its time or a later one. Raises FilesUnusable when
    one of these is gone."""
    if not counts.keys:
        return delta, counts  # a join with nothing would not read the files, as if they had no rows
    context = reader.context
    context.stage("replay")
    with context.watch.stage("replay"):
        told = _told_since(reader, reading)
        affected = broadcast_if_few(delta.select(*key_columns(context.target.key)), counts.keys)
        again = reader.read_with_own(told.files)
        done, found = counted(state_of(context.target, again.good, only=affected), again)
        again.figures()
        if found.doubtful:
            done, found = _with_settled(reader, done, found, told, _rows_at(context, told))
        return done, found


def settled_in_order(reader: BatchReader, reading: Reading, delta: DataFrame, counts: Counts) -> States:
    """The state of an in-order batch's keys with the doubtful ones settled. Raises FilesUnusable as `replayed`."""
    context = reader.context
    with context.watch.stage("replay"):
        if commit_of(reader.seen.min_sequence) > commit_of(context.position.max_sequence):
            # Nothing of its transactions was applied before.
            own = Basis(context.batch.files)
            return _with_settled(reader, delta, counts, own, context.main, cut=context.row_cut)
        told = _told_since(reader, reading)
        return _with_settled(reader, delta, counts, told, _rows_at(context, told))


def settled_again(reader: BatchReader) -> States:
    """The states of the doubtful keys of a full load, which has no earlier state."""
    context = reader.context
    reading = reader.read_with_own(context.batch.files)
    states, _ = counted(state_of(context.target, reading.good).filter("_doubtful"), reading)
    return counted(_settled(reader, states, Basis(context.batch.files), None))


def members_again(reader: BatchReader, reading: Reading) -> Reading:
    """All files of the epoch, which the keys of a late batch are computed from where the table keeps what was before,
    or has no keys. Raises FilesUnusable when one of them is gone."""
    members = reader.context.members
    refuse_missing(reader.context, reading, members)
    return reader.read_with_own(members)


def _with_settled(
    reader: BatchReader,
    delta: DataFrame,
    counts: Counts,
    told: Basis,
    base: DataFrame | None,
    cut: RowCut | None = None,
) -> States:
    names = key_columns(reader.context.target.key)
    doubtful = delta.filter("_doubtful")
    # What a key's first change was, its own changes say; of keys that were found on the way of a row nobody asks.
    firsts = F.broadcast(doubtful.select(*names, "_first"))
    found = _settled(reader, doubtful, told, base, cut)
    found = found.drop("_first").join(firsts, on=names, how="left")
    # Keys that were found on the way of a row are in both.
    rest = delta.join(found.select(*names), on=names, how="left_anti")
    done, now = counted(rest.unionByName(found))
    followed = now.keys - counts.keys
    return done, replace(now, present=counts.present, updated=counts.updated, followed=followed)


def _settled(
    reader: BatchReader, doubtful: DataFrame, told: Basis, base: DataFrame | None, cut: RowCut | None = None
) -> DataFrame:
    context = reader.context
    reading = reader.read_with_own(told.files, cut)
    keys = doubtful.select(*key_columns(context.target.key))
    done = checkpointed(settled(context.spark, context.target, reading.good, keys, base))
    return done.withColumns({"_first": F.lit(UPDATED), "_doubtful": F.lit(False)})


def _told_since(reader: BatchReader, reading: Reading) -> Basis:
    context, batch = reader.context, reader.context.batch
    table = load_table(context.runtime.catalog, context.target.identifier)
    assert table is not None, "it was created before the batch"
    if context.again or batch.cut is not None or batch.reopened:
        # A snapshot at a cut does not have all rows of the files that were read for it.
        told = Basis(context.members)
    else:
        told = basis(table, context.position.snapshot_id, batch, context.logged, reader.seen.min_sequence)
    refuse_missing(context, reading, told.files)
    return told


def refuse_missing(context: BatchContext, reading: Reading, files: Sequence[LoggedFile]) -> None:
    """Raises FilesUnusable, for the batch's late files, when one of the others is gone, or its rows are."""
    batch = {file.key for file in context.batch.files}
    needed = [file for file in files if file.key not in batch]
    if missing := missing_files(context.store, needed):
        raise FilesUnusable(_held_back(context, reading, missing[0].key, "is gone from the bucket"))
    if lost := lost_contents(needed, context.logged, context.damaged):
        raise FilesUnusable(_held_back(context, reading, lost[0].key, "was written again, and is set aside"))


def _held_back(context: BatchContext, reading: Reading, needed: str, fate: str) -> list[UnreadableFile]:
    """The batch's files that reach back to what was applied before."""
    applied = commit_of(context.position.max_sequence)
    lowest = reading.changes.filter("_sequence != ''").groupBy("_file").agg(F.min("_sequence").alias("first"))
    back = {plain(unquote(row["_file"])) for row in lowest.collect() if commit_of(row["first"]) <= applied}
    reason = f"it comes late, and {needed}, which is needed to know what it changes, {fate}"
    return [
        UnreadableFile(part.file.key, reason)
        for part in reading.parts
        if part.file.retry or plain(context.store.spark_uri(part.file.path)) in back
    ]


def _rows_at(context: BatchContext, told: Basis) -> DataFrame | None:
    """The table as it was before those files."""
    if told.snapshot_id is None:
        return None
    catalog = context.runtime.lake.catalog.name
    return context.spark.sql(table_at(catalog, context.target.identifier, told.snapshot_id))

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
from lake_assets.iceberg.publish import Attempt
from lake_assets.iceberg.table_io import load_table, table_at
from lake_assets.silver.changes.key_moves import settled
from lake_assets.silver.changes.key_states import Counts, counted, observe_states, state_of
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.changes.row_cut import RowCut
from lake_assets.silver.plan.planner import epoch_members
from lake_assets.silver.plan.rewritten import lost_contents
from lake_assets.silver.table.change_events import UPDATED, ChangeFigures, commit_of, key_columns
from lake_assets.silver.write.batch_work import Work
from lake_assets.silver.write.replay_basis import Basis, basis
from lake_assets.spark.checkpoint import Observed, checkpointed

MOST_BROADCAST_KEYS = 1_000_000

States = tuple[DataFrame, Counts]


def replayed(work: Work, reading: Reading, delta: DataFrame, counts: Counts, seen: ChangeFigures) -> States:
    """The state of a late batch's keys from every file that tells of its time or a later one. Raises FilesUnusable when
    one of these is gone."""
    if not counts.keys:
        return delta, counts  # a join with nothing would not read the files, as if they had no rows
    work.stage("replay")
    with work.watch.stage("replay"):
        told = _told_since(work, seen, reading)
        affected = delta.select(*key_columns(work.target.key))
        if counts.keys <= MOST_BROADCAST_KEYS:
            affected = F.broadcast(affected)
        again = work.read_again(told.files)
        assert again is not None, "the batch's own files are among them"
        done, found = counted(again, state_of(work.target, again.good, only=affected))
        again.figures()
        if found.doubtful:
            done, found = _with_settled(work, done, found, told, _rows_at(work, told))
        return done, found


def settled_in_order(
    work: Work, current: Attempt, reading: Reading, delta: DataFrame, counts: Counts, seen: ChangeFigures
) -> States:
    """The state of an in-order batch's keys with the doubtful ones settled. Raises FilesUnusable as `replayed`."""
    with work.watch.stage("replay"):
        if commit_of(seen.min_sequence) > commit_of(work.position.max_sequence):
            # Nothing of its transactions was applied before.
            return _with_settled(
                work,
                delta,
                counts,
                Basis(work.batch.files),
                work.spark.table(current.table),
                cut=work.row_cut,
            )
        told = _told_since(work, seen, reading)
        return _with_settled(work, delta, counts, told, _rows_at(work, told))


def settled_again(work: Work) -> States:
    """The states of the doubtful keys of a full load, which has no earlier state."""
    reading = work.read_again(work.batch.files)
    assert reading is not None, "the batch was just read"
    states, _ = counted(reading, state_of(work.target, reading.good).filter("_doubtful"))
    return _computed(_settled(work, states, Basis(work.batch.files), None))


def _with_settled(
    work: Work,
    delta: DataFrame,
    counts: Counts,
    told: Basis,
    base: DataFrame | None,
    cut: RowCut | None = None,
) -> States:
    names = key_columns(work.target.key)
    # What a key's first change was, its own changes say; of keys that were found on the way of a row nobody asks.
    firsts = F.broadcast(delta.filter("_doubtful").select(*names, "_first"))
    found = _settled(work, delta.filter("_doubtful"), told, base, cut)
    found = found.drop("_first").join(firsts, on=names, how="left")
    # Keys that were found on the way of a row are in both.
    rest = delta.join(found.select(*names), on=names, how="left_anti")
    done, now = _computed(rest.unionByName(found))
    followed = now.keys - counts.keys
    return done, replace(now, present=counts.present, updated=counts.updated, followed=followed)


def _settled(
    work: Work, doubtful: DataFrame, told: Basis, base: DataFrame | None, cut: RowCut | None = None
) -> DataFrame:
    reading = work.read_again(told.files, cut)
    assert reading is not None, "the batch's own files are among them"
    keys = doubtful.select(*key_columns(work.target.key))
    done = checkpointed(settled(work.spark, work.target, reading.good, keys, base))
    return done.withColumns({"_first": F.lit(UPDATED), "_doubtful": F.lit(False)})


def _computed(states: DataFrame) -> States:
    observed = Observed()
    return checkpointed(observe_states(states, observed), [observed]), Counts.of(observed)


def _told_since(work: Work, seen: ChangeFigures, reading: Reading) -> Basis:
    table = load_table(work.runtime.catalog, work.target.identifier)
    assert table is not None, "it was created before the batch"
    if work.again or work.batch.cut is not None or work.batch.reopened:
        # A snapshot at a cut does not have all rows of the files that were read for it.
        told = Basis(epoch_members(work.logged, work.batch.epoch, work.batch.upto))
    else:
        told = basis(table, work.position.snapshot_id, work.batch, work.logged, seen.min_sequence)
    refuse_missing(work, reading, told.files)
    return told


def refuse_missing(work: Work, reading: Reading, files: Sequence[LoggedFile]) -> None:
    """Raises FilesUnusable, for the batch's late files, when one of the others is gone, or its rows are."""
    batch = {file.key for file in work.batch.files}
    needed = [file for file in files if file.key not in batch]
    if missing := missing_files(work.runtime.store(work.target.source), needed):
        raise FilesUnusable(_held_back(work, reading, missing[0].key, "is gone from the bucket"))
    if lost := lost_contents(needed, work.logged, work.damaged):
        raise FilesUnusable(_held_back(work, reading, lost[0].key, "was written again, and is set aside"))


def _held_back(work: Work, reading: Reading, needed: str, fate: str) -> list[UnreadableFile]:
    """The batch's files that reach back to what was applied before."""
    applied = commit_of(work.position.max_sequence)
    lowest = reading.changes.filter("_sequence != ''").groupBy("_file").agg(F.min("_sequence").alias("first"))
    back = {plain(unquote(row["_file"])) for row in lowest.collect() if commit_of(row["first"]) <= applied}
    store = work.runtime.store(work.target.source)
    reason = f"it comes late, and {needed}, which is needed to know what it changes, {fate}"
    return [
        UnreadableFile(part.file.key, reason)
        for part in reading.parts
        if part.file.retry or plain(store.spark_uri(part.file.path)) in back
    ]


def _rows_at(work: Work, told: Basis) -> DataFrame | None:
    """The table as it was before those files."""
    if told.snapshot_id is None:
        return None
    return work.spark.sql(table_at(work.runtime.lake.catalog.name, work.target.identifier, told.snapshot_id))

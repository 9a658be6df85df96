"""What a table's keys can be computed again from: an earlier state of the table, and the files since.

The state of a key is a function of all files of the epoch. Where a retained snapshot lies wholly before the changes in
question, the table as it was then stands for everything before. Here: finding it. Pure but for Iceberg's metadata.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.table import Table

from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.iceberg.retention import chain, snapshots_by_id
from lake_assets.iceberg.table_io import summary
from lake_assets.silver.plan.planner import Batch, epoch_members
from lake_assets.silver.table.change_events import commit_of
from lake_assets.silver.table.position import BATCH, CUT_WAITING, EPOCH, LOG_OFFSET, MAX_SEQUENCE
from lake_assets.silver.write.batch import NO_CHANGES

MIN_SEQUENCE, KIND = f"{BATCH}min-sequence", f"{BATCH}kind"


@dataclass(frozen=True, slots=True)
class Basis:
    """`files` tell everything that has changed since the snapshot; since the table was empty, if there is none."""

    files: tuple[LoggedFile, ...]
    snapshot_id: int | None = None


def basis(
    table: Table, snapshot_id: int | None, batch: Batch, logged: Sequence[LoggedFile], first: str
) -> Basis:
    """For changes from the sequence `first` on; `snapshot_id` is where the batch is planned from.

    The newest snapshot is taken that has nothing of the first change's transaction or of later ones, and after which no
    batch reached back behind it. Its columns must be today's. Files that were logged up to it need not be read.
    """
    members = epoch_members(logged, batch.epoch, batch.upto)
    lowest = commit_of(first)
    for snapshot in chain(snapshots_by_id(table), snapshot_id) if lowest else ():
        properties = summary(snapshot)
        if LOG_OFFSET not in properties:
            continue
        if int(properties[EPOCH]) != batch.epoch or snapshot.schema_id != table.metadata.current_schema_id:
            break
        offset = int(properties[LOG_OFFSET])
        since = tuple(file for file in members if file.offset > offset)
        # Of a file whose rows are tried again, all rows are read, and most of them were applied before.
        if any(file.retry for file in since):
            break
        # At a consistent cut, a snapshot has not all rows of the files that it counts as read.
        if int(properties.get(CUT_WAITING, "0")):
            break
        if commit_of(properties[MAX_SEQUENCE]) < lowest:
            return Basis(since, snapshot.snapshot_id)
        if KIND not in properties:
            continue
        own = properties.get(MIN_SEQUENCE, "")
        if properties[KIND] != "cdc" or not own:
            break
        if own != NO_CHANGES:
            lowest = min(lowest, commit_of(own))
    return Basis(members)

"""The basis from which a table's keys are recomputed: an earlier snapshot of the table, and the files since.

The state of a key is a function of all files of the epoch. A retained snapshot that has none of the changes in question
replaces all files before it. Here: finding it. Pure, except that it reads Iceberg's metadata.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.table import Table

from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.iceberg.table_io import summary
from lake_assets.iceberg.upkeep.retention import chain
from lake_assets.silver.plan.members import epoch_members
from lake_assets.silver.plan.plan import Batch
from lake_assets.silver.table.change_events import commit_of
from lake_assets.silver.table.position import (
    BATCH,
    CUT_WAITING,
    EPOCH,
    LOG_OFFSET,
    MAX_SEQUENCE,
    NO_CHANGES,
    REPAIR,
)

MIN_SEQUENCE, KIND, STRATEGY = f"{BATCH}min-sequence", f"{BATCH}kind", f"{BATCH}strategy"


@dataclass(frozen=True, slots=True)
class Basis:
    """`files` have all changes since the snapshot, or, without a snapshot, since the table was empty."""

    files: tuple[LoggedFile, ...]
    snapshot_id: int | None = None


def newest_basis(
    table: Table, snapshot_id: int | None, batch: Batch, logged: Sequence[LoggedFile], first: str
) -> Basis:
    """The basis for changes from the sequence `first` on; the batch is planned from the snapshot `snapshot_id`.

    Takes the newest snapshot that has no change of the first change's transaction or of later ones, and after which no
    batch applied an earlier change. Its columns must be today's. Files that were logged up to it are not read.
    """
    members = epoch_members(logged, batch.upto)
    lowest = commit_of(first)
    for snapshot in chain(table, snapshot_id) if lowest else ():
        properties = summary(snapshot)
        if LOG_OFFSET not in properties:
            continue
        if int(properties[EPOCH]) != batch.epoch or snapshot.schema_id != table.metadata.current_schema_id:
            break
        offset = int(properties[LOG_OFFSET])
        since = tuple(file for file in members if file.offset > offset)
        # All rows of a file with retried rows would be read, and most of them were applied before.
        if any(file.retry for file in since):
            break
        # At a consistent cut, a snapshot does not have all rows of the files up to its offset.
        if int(properties.get(CUT_WAITING, "0")):
            break
        if commit_of(properties[MAX_SEQUENCE]) < lowest:
            return Basis(since, snapshot.snapshot_id)
        # Earlier snapshots may have the wrong rows.
        if properties.get(STRATEGY) == REPAIR:
            break
        if KIND not in properties:
            continue
        own = properties.get(MIN_SEQUENCE, "")
        if properties[KIND] != "cdc" or not own:
            break
        if own != NO_CHANGES:
            lowest = min(lowest, commit_of(own))
    return Basis(members)

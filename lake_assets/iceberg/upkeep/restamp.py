"""Re-stamps: commits without rows that repeat a table's newest properties before the commit that has them expires.

A silver table's position and a mart's consumption are in the summaries of their own commits. Commits of maintenance
have no such properties, so that expiry would remove the last commit that has them. Here: finding that commit, and the
re-stamp. Not here: what the properties mean (`silver/table/position.py`, `gold/consumption.py`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from lake_assets.iceberg.table_io import (
    APPLIED_AT,
    RESTAMP_OF,
    applied_at,
    current_snapshot,
    load_table,
    summary,
)
from lake_assets.iceberg.upkeep.retention import main_chain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN = "lake."


@dataclass(frozen=True, slots=True)
class StampRule:
    """Which commits of a table are stamped: have the properties that must survive expiry."""

    marker: str
    """A stamped commit has properties with this prefix."""
    below_changes: bool
    """Whether a stamped commit still counts when later commits of other writers have changed rows."""
    not_repeated: tuple[str, ...] = ()
    """Prefixes of properties that are about a commit's own rows."""


def stamped_snapshot(table: Table, rule: StampRule) -> Snapshot | None:
    """The newest stamped snapshot of main."""
    for snapshot in main_chain(table):
        if any(name.startswith(rule.marker) for name in summary(snapshot)):
            return snapshot
        maintenance = snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE
        if not maintenance and not rule.below_changes:
            return None
    return None


def repeated(snapshot: Snapshot, rule: StampRule) -> dict[str, str]:
    """The properties of a re-stamp of the snapshot: all of ours but `not_repeated`, also those that only a later
    version of the package knows."""
    kept = {
        name: value
        for name, value in summary(snapshot).items()
        if name.startswith(OWN) and not name.startswith(rule.not_repeated)
    }
    # A re-stamp of a re-stamp keeps the time of the original commit.
    return {RESTAMP_OF: str(snapshot.snapshot_id), APPLIED_AT: applied_at(snapshot).isoformat(), **kept}


def restamp(
    spark: "SparkSession", catalog: Catalog, identifier: str, rule: StampRule, *, always: bool = False
) -> bool:
    """Repeats the properties unless main's head has them (`always`: even then); returns whether it did.

    Raises ApplyConflict when another process published meanwhile: the properties read are no longer the newest.
    """
    from lake_assets.iceberg.publish import attempt

    table = load_table(catalog, identifier)
    head = current_snapshot(table)
    stamped = stamped_snapshot(table, rule) if table is not None else None
    if head is None or stamped is None or (stamped.snapshot_id == head.snapshot_id and not always):
        return False
    with attempt(spark, catalog.name, identifier, head.snapshot_id) as current:
        current.publish_nothing(catalog, repeated(stamped, rule), head.snapshot_id)
    return True

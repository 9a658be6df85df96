"""Properties that a table's newest commits must bear, repeated in a commit without rows before older ones expire.

A silver table's position and a mart's consumption are in the summaries of their own commits. Commits of maintenance
carry none, so that expiry would take the last one that does. Here: which commit bears them, and the re-stamp. Not here:
what the properties mean (`silver/table/position.py`, `gold/consumption.py`).
"""

from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot
from pyspark.sql import SparkSession

from lake_assets.iceberg.publish import attempt
from lake_assets.iceberg.retention import main_chain
from lake_assets.iceberg.table_io import (
    APPLIED_AT,
    RESTAMP_OF,
    applied_at,
    current_snapshot,
    load_table,
    summary,
)

OWN = "lake."


@dataclass(frozen=True, slots=True)
class Bears:
    """Which commits of a table bear what must survive."""

    marker: str
    """Their properties begin with this."""
    below_changes: bool
    """Whether a commit still counts when later ones, of somebody else, have changed rows."""
    not_repeated: tuple[str, ...] = ()
    """Prefixes of properties that are about a commit's own rows."""


def bearer(table: Table, bears: Bears) -> Snapshot | None:
    """The newest snapshot of main that bears the properties."""
    for snapshot in main_chain(table):
        if any(name.startswith(bears.marker) for name in summary(snapshot)):
            return snapshot
        maintenance = snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE
        if not maintenance and not bears.below_changes:
            return None
    return None


def repeated(snapshot: Snapshot, bears: Bears) -> dict[str, str]:
    """The properties that a re-stamp of the snapshot carries. All of ours but those named: what a later version of
    the package puts there is none of this module's business, and must survive."""
    kept = {
        name: value
        for name, value in summary(snapshot).items()
        if name.startswith(OWN) and not name.startswith(bears.not_repeated)
    }
    # A re-stamp of a re-stamp is one of the first.
    return {RESTAMP_OF: str(snapshot.snapshot_id), APPLIED_AT: applied_at(snapshot).isoformat(), **kept}


def restamp(spark: SparkSession, catalog: Catalog, identifier: str, bears: Bears) -> bool:
    """Repeats the properties unless main's head bears them; whether it did.

    Raises ApplyConflict when another process published meanwhile: what was read is no longer the newest.
    """
    table = load_table(catalog, identifier)
    head = current_snapshot(table)
    stamped = bearer(table, bears) if table is not None else None
    if head is None or stamped is None or stamped.snapshot_id == head.snapshot_id:
        return False
    with attempt(spark, catalog.name, identifier, head.snapshot_id) as current:
        current.write_nothing(repeated(stamped, bears))
        current.publish()
    return True

"""What applying a table's files costs, to compare the cost of a cycle with it.

Here: the seconds that the table's own commits record. Not here: the cost of a comparison (`cycle.py`).
"""

from datetime import datetime, timedelta

from pyiceberg.table import Table

from lake_assets.iceberg.retention import main_chain
from lake_assets.iceberg.table_io import RESTAMP_OF, committed_at, summary
from lake_assets.silver.reconcile.cycle import Cycle
from lake_assets.silver.table.position import BATCH, REPAIR

SECONDS, STRATEGY = f"{BATCH}seconds", f"{BATCH}strategy"


def percent_of_apply(table: Table, cycle: Cycle, every: timedelta, now: datetime) -> float | None:
    """The time of a whole cycle, as a percentage of the time that applying takes within `every`, by the batches that
    the table still has. None before there is something to compare. The last write of a batch is not in its seconds, so
    that the real percentage is lower."""
    found = [
        (committed_at(snapshot), float(properties[SECONDS]))
        for snapshot in main_chain(table)
        if SECONDS in (properties := summary(snapshot))
        and RESTAMP_OF not in properties
        and properties[STRATEGY] != REPAIR
    ]
    # The oldest one begins the time over which the others are counted.
    counted = sum(seconds for _, seconds in found[:-1])
    if not counted or not cycle.next:
        return None
    applied = counted * (every / (now - found[-1][0]))
    return round(100 * cycle.seconds / cycle.next * cycle.number / applied, 3)

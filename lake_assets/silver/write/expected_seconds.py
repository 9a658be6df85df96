"""How long a batch should take, by the table's earlier batches.

Each batch's commit has its figures, so no model of the machine has to be calibrated. Here: that estimate. Not here: the
choice of the strategy (`batch_context.py`), what a batch took (`batch.py`).
"""

import statistics
from itertools import islice

from pyiceberg.table import Table

from lake_assets.iceberg.retention import main_chain
from lake_assets.iceberg.table_io import RESTAMP_OF, summary
from lake_assets.silver.table.position import BATCH

NEWEST, SIMILAR = 50, 5
"""The number of commits that are looked at, and of the batches among them with the most similar size that count."""
MOST_TIMES = 4
"""A batch with more than so many times the rows, or fewer than that fraction of them, does not count."""


def expected_seconds(table: Table | None, kind: str, strategy: str, rows: int) -> float | None:
    """The median seconds, until the last commit, of the earlier batches of this kind and strategy that have read about
    as many rows. None without any."""
    if table is None:
        return None
    found: list[tuple[float, float]] = []
    for snapshot in islice(main_chain(table), NEWEST):
        known = summary(snapshot)
        if (
            known.get(f"{BATCH}kind") != kind
            or known.get(f"{BATCH}strategy") != strategy
            or RESTAMP_OF in known
        ):
            continue
        other = int(known[f"{BATCH}rows-read"])
        times = (max(rows, other) + 1) / (min(rows, other) + 1)
        if times <= MOST_TIMES:
            found.append((times, float(known[f"{BATCH}seconds"])))
    # Among equally similar batches, the newest come first.
    similar = sorted(found, key=lambda one: one[0])[:SIMILAR]
    return round(statistics.median(seconds for _, seconds in similar), 3) if similar else None

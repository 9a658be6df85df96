"""How long changes took to be readable in a mart.

Here: computing it from the mart's own snapshots and the silver snapshots that they consumed, without Dagster. Not here:
the latency of silver (`silver/table/batch_latency.py`).
"""

from itertools import pairwise

from lake_assets.gold.changed_periods import Commit
from lake_assets.gold.consumption import PREFIX, read_consumption
from lake_assets.gold.mart import Mart
from lake_assets.gold.table_snapshots import LoadedTables, commits_since
from lake_assets.iceberg.table_io import RESTAMP_OF, committed_at, summary
from lake_assets.iceberg.upkeep.retention import main_chain
from lake_assets.silver.table.batch_latency import Passage, oldest


def mart_passages(loaded: LoadedTables, mart: Mart) -> list[Passage]:
    """For each retained snapshot that a computation of the mart made, the passage of the oldest change that it was the
    first to include; the newest first. Computations whose silver commits have expired are left out."""
    table = loaded.table(mart.identifier)
    computed = [
        snapshot
        for snapshot in (main_chain(table) if table is not None else ())
        if RESTAMP_OF not in summary(snapshot) and any(name.startswith(PREFIX) for name in summary(snapshot))
    ]
    found = []
    for newer, older in pairwise(computed):
        upto, since = (read_consumption(summary(snapshot)).snapshots for snapshot in (newer, older))
        seen = list[Commit]()
        for rule in mart.rules:
            silver = loaded.table(rule.identifier)
            if silver is not None and rule.identifier in upto:
                seen += commits_since(silver, since.get(rule.identifier), upto[rule.identifier]) or ()
        passage = oldest((commit.summary for commit in seen), committed_at(newer))
        if passage is not None:
            found.append(passage)
    return found

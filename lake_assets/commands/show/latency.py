"""`lake-assets latency`: how long changes took from the source's commit to the file, to silver, to the marts.

Here: the figures over silver's batches and the snapshots that the marts still have. Not here: the figures of one of
them (`silver/table/batch_latency.py`, `gold/mart_latency.py`), printing (`show.py`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from lake_assets.gold.mart_latency import mart_passages
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.lake import Lake
from lake_assets.silver.batch_log.record_batches import batches_since, recently
from lake_assets.silver.table.batch_latency import Passage, Spread

BOUNDS = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
"""Upper bounds of the histogram's bars, in seconds; the last bar has the values above."""


@dataclass(frozen=True, slots=True)
class TableLatency:
    """The latency of one silver table or mart."""

    table: str
    commits: int
    """Commits with changes."""
    to_file: Spread | None
    """From the source's commit to the file: the time that DMS takes."""
    from_file: Spread | None
    """From the file to the table."""
    from_commit: Spread | None
    """From the source's commit to the table."""
    histogram: tuple[int, ...]
    """Commits by `from_file`: up to each of BOUNDS, and above."""


def latency(lake: Lake, since: datetime | None = None) -> list[TableLatency]:
    """Every silver table and mart that has a commit with changes; without Spark and Dagster. `since` (UTC): only of
    files that were written at or after this time; by default, silver's batches of the last day count."""
    loaded = LoadedTables(lake.runtime.catalog)
    tables = {target.identifier: loaded.table(target.identifier) for target in lake.targets}
    batches = batches_since(lake.runtime.catalog, tables, since or recently())
    found = [
        (name, [way for row in rows if (way := row.passage) is not None]) for name, rows in batches.items()
    ]
    found += [(mart.identifier, mart_passages(loaded, mart)) for mart in lake.marts]
    if since is not None:
        found = [(name, [way for way in ways if way.landed >= since]) for name, ways in found]
    return [of_table(name, ways) for name, ways in found if ways]


def of_table(name: str, ways: Sequence[Passage]) -> TableLatency:
    """The figures of one table."""
    return TableLatency(
        name,
        len(ways),
        Spread.of(way.to_file for way in ways),
        Spread.of(way.from_file for way in ways),
        Spread.of(way.from_commit for way in ways),
        histogram(way.from_file for way in ways),
    )


def histogram(values: Iterable[float]) -> tuple[int, ...]:
    """The number of values between each of BOUNDS and the previous one, and above the last."""
    counts = [0] * (len(BOUNDS) + 1)
    for value in values:
        counts[sum(value > bound for bound in BOUNDS)] += 1
    return tuple(counts)

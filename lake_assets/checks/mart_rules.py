"""Rules about a mart as a whole: its files have its rows, and it has its inputs' changes.

Both read the tables' metadata alone, without Spark.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from pyiceberg.table import Table

from lake_assets.checks.data_check import Outcome, Rule
from lake_assets.checks.live_rows import counted_rows
from lake_assets.config import GoldConfig
from lake_assets.gold.consumption import Consumption, read_consumption
from lake_assets.gold.mart import Mart
from lake_assets.gold.table_snapshots import LoadedTables, changed_since, snapshot_of_rows
from lake_assets.gold.view import mart_view
from lake_assets.iceberg.table_io import committed_at, load_table, summary
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.row_count import live_rows_problem
from lake_assets.words import many


def has_its_rows(identifier: str) -> Rule:
    """The mart's data files have as many rows as its newest snapshot says, and as its newest own commit had."""

    def rule(runtime: LakeRuntime, earlier: Sequence[float]) -> Outcome:
        rows = counted_rows(
            load_table(runtime.catalog, identifier),
            lambda properties: bool(read_consumption(properties).snapshots),
        )
        problem = live_rows_problem(rows)
        figures = {"rows": rows.by_summary, "rows_in_files": rows.by_files}
        return Outcome(
            problem is None, problem or f"{many(rows.by_summary, 'row')}, by every count.", figures
        )

    return rule


def follows_its_inputs(
    mart: Mart, longest: timedelta, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> Rule:
    """No change of an input has been in silver for longer than `longest` without being in the mart. An idle source has
    no such change, whatever the mart's age."""

    def rule(runtime: LakeRuntime, earlier: Sequence[float]) -> Outcome:
        loaded = LoadedTables(runtime.catalog)
        view = mart_view(loaded, mart, runtime.lake.gold)
        if view is None:
            return Outcome(True, "An input has no rows yet.")
        since = _waiting_since(loaded, mart, runtime.lake.gold) if view.stale else None
        if since is None:
            return Outcome(True, "The mart has every change of its inputs.", {"waiting_seconds": 0.0})
        waited = clock() - since
        sentence = (
            f"A change of its inputs waits since {since:%Y-%m-%d %H:%M:%S} UTC, the limit is {longest}."
        )
        return Outcome(waited <= longest, sentence, {"waiting_seconds": round(waited.total_seconds(), 3)})

    return rule


def _waiting_since(loaded: LoadedTables, mart: Mart, gold: GoldConfig) -> datetime | None:
    """When silver committed the oldest change that is not in the mart, UTC."""
    newest = snapshot_of_rows(loaded.table(mart.identifier))
    consumed = read_consumption(summary(newest))
    waiting = [
        since
        for rule in mart.rules
        if (since := _changed_at(loaded.table(rule.identifier), rule.identifier, consumed)) is not None
    ]
    # Periods before gold.start_date and in the future have no partition, so no run computes them.
    start, today = consumed.grain.of(gold.start_date), consumed.grain.of(datetime.now(UTC))
    if newest is not None and any(start <= period <= today for period in consumed.pending):
        waiting.append(committed_at(newest))
    return min(waiting, default=None)


def _changed_at(table: Table | None, identifier: str, consumed: Consumption) -> datetime | None:
    changes = changed_since(table, consumed.snapshots.get(identifier)) if table is not None else []
    return min(map(committed_at, changes), default=None)

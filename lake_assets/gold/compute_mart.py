"""A mart's DataFrame over its inputs at the snapshots of one view, and the properties of its commit.

Here: both, and by which mode the rows are stored, for all callers. Not here: what a mart computes, when
(`orchestration/assets/mart_runs.py`), storing it (`gold/write_mart.py`).
"""

from datetime import date, datetime
from typing import Any

from lake_assets.gold.consumption import Consumption
from lake_assets.gold.mart import Mart, MartRequest
from lake_assets.gold.view import MartView
from lake_assets.gold.write_mart import WHOLE, Computed, Mode, Store
from lake_assets.iceberg.table_io import table_at
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.batch_latency import oldest


def mart_store(mart: Mart) -> Store:
    """How the rows of an unpartitioned mart are stored."""
    return Store(mode=Mode.DIFFERENCE, key=mart.key) if mart.key else WHOLE


def computed_mart(
    runtime: LakeRuntime, mart: Mart, view: MartView, days: tuple[date, date] | None
) -> tuple[Computed, dict[str, Any]]:
    """The plan of a mart's rows in the `days` (None for an unpartitioned mart), and metadata about it."""
    spark, catalog = runtime.sessions.root(), runtime.lake.catalog.name
    request = MartRequest(
        inputs={
            name: spark.sql(table_at(catalog, rule.identifier, view.snapshots[rule.identifier]))
            for name, rule in mart.tables.items()
        },
        now=view.now,
        first_day=days[0] if days else None,
        last_day=days[1] if days else None,
        settings=runtime.lake.gold.settings,
    )
    computed = [day for day in view.work if days is not None and days[0] <= day <= days[1]]
    metadata = {
        "days_still_pending": len(view.work) - len(computed),
        "consumed": {table: str(snapshot) for table, snapshot in view.snapshots.items()},
    }
    pending = frozenset(view.work) - frozenset(computed)
    state = Consumption(view.snapshots, pending, view.now, view.settings, view.span)
    frame = mart.compute(request)

    def latency(shown: datetime) -> dict[str, float]:
        passage = oldest(view.changes, shown)
        return passage.metadata() if passage is not None else {}

    done = Computed(
        frame, mart.columns, properties=state.properties(), latency=latency, planned_from=view.mart_snapshot
    )
    return done, metadata

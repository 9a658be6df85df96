"""A mart's DataFrame over its inputs at the snapshots of one view, and how and with which properties it is stored.

Here: both, for all callers. Not here: what a mart computes, when (`orchestration/assets/mart_runs.py`), reading and
storing tables by the IO manager (`partition_rows.py`, `write/write_mart.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from lake_assets.gold.consumption import Consumption
from lake_assets.gold.mart import Mart, MartRequest
from lake_assets.gold.partition_rows import ColumnRows, PartitionRows
from lake_assets.gold.periods.grain import Grain, Period, beginning, between, stretches
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.gold.view import MartView, mart_view
from lake_assets.gold.write.write_mart import WHOLE, Computed, Store, WriteMode
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.batch_latency import oldest
from lake_assets.spark.session import FEW_ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Read(Protocol):
    """Reads a table at a snapshot; `few_rows`: see `SparkSessions.root`."""

    def __call__(self, identifier: str, snapshot_id: int | None, /, *, few_rows: bool) -> "DataFrame": ...


def mart_store(mart: Mart, ranges: Sequence[tuple[Period, Period]]) -> Store:
    """How the rows of these ranges of a mart's partitions are stored; no range for an unpartitioned mart."""
    if not ranges:
        return Store(mode=WriteMode.DIFFERENCE, key=mart.key) if mart.key else WHOLE
    assert mart.partition_column is not None, "a mart with periods has partitions"
    grain, column = mart.partitions, mart.partition_column
    keys = [(grain.key(first), grain.key(last)) for first, last in ranges]
    parts = [
        (ColumnRows(column, ends, grain.window(first, last)),)
        for ends, (first, last) in zip(keys, ranges, strict=True)
    ]
    is_date = any(each.name == column and each.type == "date" for each in mart.columns)
    transform = column if is_date else f"{'hour' if grain is Grain.HOUR else 'day'}({column})"
    return Store(PartitionRows(tuple(parts), ", ".join(" to ".join(ends) for ends in keys)), (transform,))


def computed_mart(
    runtime: LakeRuntime, read: Read, mart: Mart, view: MartView, periods: tuple[Period, Period] | None
) -> tuple[Computed, dict[str, Any]]:
    """The plan of a mart's rows from the first to the last of `periods` (None for an unpartitioned mart), and metadata
    about it."""
    few = view.rows <= FEW_ROWS
    request = MartRequest(
        inputs={
            name: read(rule.identifier, view.snapshots[rule.identifier], few_rows=few)
            for name, rule in mart.tables.items()
        },
        now=view.now,
        first_day=beginning(periods[0]).date() if periods else None,
        last_day=mart.partitions.last_day(periods[1]) if periods else None,
        settings=runtime.lake.gold.settings,
        hours=(beginning(periods[0]), beginning(periods[1]))
        if periods and mart.partitions is Grain.HOUR
        else None,
    )
    computed = [period for period in view.work if periods is not None and periods[0] <= period <= periods[1]]
    metadata = {
        "days_still_pending": len(view.work) - len(computed),
        "consumed": {table: str(snapshot) for table, snapshot in view.snapshots.items()},
    }
    pending = frozenset(view.work) - frozenset(computed)
    columns = frozenset(column.name for column in mart.columns)
    state = Consumption(view.snapshots, pending, view.now, view.settings, view.span, mart.partitions, columns)
    frame = mart.compute(request)

    def latency(shown: datetime) -> dict[str, float]:
        passage = oldest(view.changes, shown)
        return passage.metadata() if passage is not None else {}

    done = Computed(
        frame,
        mart.columns,
        comments=mart.comments,
        properties=state.properties(),
        few_rows=few,
        latency=latency,
        planned_from=view.mart_snapshot,
        store=mart_store(mart, [periods] if periods else []),
        outrun=lambda computed: _still_current(runtime, mart, periods, state, computed) if periods else None,
    )
    return done, metadata


def _still_current(
    runtime: LakeRuntime, mart: Mart, periods: tuple[Period, Period], state: Consumption, computed: Computed
) -> Computed | None:
    """What to store if another run has published first: the computed partitions that no change since their plan
    concerns. None if there are none. The others are left to the run that knows the change."""
    loaded, grain = LoadedTables(runtime.catalog), mart.partitions
    head = mart_view(loaded, mart, runtime.lake.gold)
    since = mart_view(loaded, mart, runtime.lake.gold, replace(state, pending=frozenset()))
    if head is None or since is None or since.every:
        return None
    current = set(between(grain, *periods)) - set(since.work)
    if not current:
        return None
    pending = frozenset(head.work) - current
    now = replace(
        state,
        snapshots=head.snapshots,
        pending=pending,
        now=head.now,
        settings=head.settings,
        span=head.span | since.span,
    )
    return replace(
        computed,
        properties=now.properties(),
        planned_from=head.mart_snapshot,
        store=mart_store(mart, stretches(grain, current)),
    )

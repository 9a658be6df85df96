"""The output of a mart's step: its rows and what Dagster shows of them.

Here: planning the rows, in a run's own process or in its job. Not here: storing them
(`io_managers/iceberg_io_manager.py`), the asset (`mart_assets.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import dagster as dg

from lake_assets.errors import NoRowsYet
from lake_assets.gold.compute_mart import Read, computed_mart
from lake_assets.gold.mart import Mart
from lake_assets.gold.periods.grain import Period
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.gold.view import mart_view
from lake_assets.gold.write.write_mart import Computed
from lake_assets.orchestration.assets.mart_lineage import Lineage, derived_lineage
from lake_assets.orchestration.assets.mart_runs import outside_sentence
from lake_assets.orchestration.io_managers.iceberg_io_manager import IO_MANAGER_KEY, Stored
from lake_assets.orchestration.shared.first_periods import FirstPeriods
from lake_assets.runtime import LakeRuntime

Partitions = tuple[str, str]
"""The keys of a run's first and last partition."""


@dataclass(frozen=True, slots=True)
class MartOutput:
    """Rows to be stored, or rows that a job has stored."""

    rows: Computed | Stored
    figures: Mapping[str, Any]
    """Metadata, as `computed_mart` returns it."""
    source_now: datetime
    """The newest source commit that the rows show, UTC."""
    outside: str | None
    """Which rows of the inputs are in none of the mart's partitions, or None."""
    lineage: Lineage


class Output(Protocol):
    """Plans or stores a mart's rows from within its step, as `own_output` does."""

    def __call__(
        self,
        context: dg.AssetExecutionContext,
        runtime: LakeRuntime,
        mart: Mart,
        partitions: Partitions | None,
        known: Lineage,
    ) -> MartOutput: ...


def own_output(
    context: dg.AssetExecutionContext,
    runtime: LakeRuntime,
    mart: Mart,
    partitions: Partitions | None,
    known: Lineage,
) -> MartOutput:
    """As `planned_output`; the step's IO manager computes and stores the rows."""
    tables = getattr(context.resources, IO_MANAGER_KEY)
    return planned_output(runtime, tables.read, mart, partitions, known)


def periods_of(mart: Mart, partitions: Partitions | None) -> tuple[Period, Period] | None:
    """The first and the last period of a run; None for a mart without partitions."""
    if partitions is None:
        return None
    return mart.partitions.of_key(partitions[0]), mart.partitions.of_key(partitions[1])


def planned_output(
    runtime: LakeRuntime, read: Read, mart: Mart, partitions: Partitions | None, known: Lineage
) -> MartOutput:
    """The plan of the mart's rows; `known`: its lineage, if that is known. Raises NoRowsYet."""
    view = mart_view(LoadedTables(runtime.catalog), mart, runtime.lake.gold)
    if view is None:
        raise NoRowsYet(f"{mart.identifier}: an input has no rows yet; apply its files first.")
    periods = periods_of(mart, partitions)
    rows, figures = computed_mart(runtime, read, mart, view, periods)
    outside = outside_sentence(mart, view.work, FirstPeriods.any(runtime.lake)) if periods else None
    lineage = known or derived_lineage(runtime.lake.catalog.name, mart, rows.frame)
    return MartOutput(rows, figures, view.now, outside, lineage)

"""Runs of marts without Dagster: what a run computes and stores, as the continuous run does it."""

from lake_assets.gold.compute_mart import computed_mart
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.gold.view import mart_view
from lake_assets.lake import Lake
from lake_assets.orchestration.assets.mart_runs import MartRun
from lake_assets.orchestration.io_managers.iceberg_io_manager import TableIOManager


def run_marts(lake: Lake, run: MartRun) -> None:
    """Computes what was requested."""
    tables = TableIOManager(lake.runtime)
    for mart in lake.marts:
        if mart.name in run.marts:
            view = mart_view(LoadedTables(lake.runtime.catalog), mart, lake.config.gold)
            assert view is not None
            computed, _ = computed_mart(lake.runtime, tables.read, mart, view, run.periods)
            tables.store(mart.identifier, computed)

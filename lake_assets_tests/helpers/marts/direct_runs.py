"""Runs of marts without Dagster: what a run computes and stores, as the continuous run does it; and a mart's files."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta

from lake_assets.gold.compute_mart import computed_mart
from lake_assets.gold.mart import Mart
from lake_assets.gold.periods.grain import Grain, Period
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


def partition_files(lake: Lake, mart: Mart) -> dict[Period, set[str]]:
    """The mart's data files by partition; none before it has been computed."""
    length = timedelta(hours=1) if mart.partitions is Grain.HOUR else timedelta(days=1)
    found: dict[Period, set[str]] = defaultdict(set)
    table = LoadedTables(lake.runtime.catalog).table(mart.identifier)
    for task in table.scan().plan_files() if table is not None else ():
        start = datetime(1970, 1, 1, tzinfo=UTC) + task.file.partition[0] * length
        assert mart.partitions.of(start) in (start, start.date()), "a partition is a whole period"
        found[mart.partitions.of(start)].add(task.file.file_path)
    return found

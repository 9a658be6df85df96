"""Builds Dagster's Definitions from a lake. The parts are defined in their own modules."""

import warnings

import dagster as dg

from lake_assets.lake import Lake, open_lake
from lake_assets.orchestration.assets.bronze_assets import IO_MANAGER_KEY as BRONZE_IO_MANAGER_KEY
from lake_assets.orchestration.assets.bronze_assets import bronze_specs
from lake_assets.orchestration.assets.mart_assets import IO_MANAGER_KEY, gold_assets
from lake_assets.orchestration.assets.silver_assets import silver_assets
from lake_assets.orchestration.io_managers.bronze_io_manager import BronzeIOManager
from lake_assets.orchestration.io_managers.iceberg_io_manager import IcebergIOManager
from lake_assets.orchestration.runs.continuous_job import continuous_job, continuous_sensor
from lake_assets.orchestration.sensors.file_sensor import file_sensor
from lake_assets.orchestration.sensors.freshness_sensor import freshness_sensor
from lake_assets.orchestration.sensors.mart_sensor import mart_sensor
from lake_assets.silver.apply.turn import Progress

__all__ = ["Lake", "build_definitions", "open_lake"]


def build_definitions(lake: Lake, progress: Progress = lambda target, stage: None) -> dg.Definitions:
    """All Dagster definitions of a lake; `progress` is called with each table's stages as they begin."""
    # Single-run backfills are in beta; they compute a range of days in one run.
    warnings.filterwarnings("ignore", category=dg.BetaWarning, message=".*backfill_policy.*")
    runtime = lake.runtime
    sensors = [file_sensor(runtime, source, lake.targets, lake.marts) for source in lake.config.sources]
    sensors.append(freshness_sensor(runtime, lake.targets))
    if lake.marts:
        sensors.append(mart_sensor(runtime, lake.marts))
    jobs = []
    if (continuous := lake.config.automation.continuous) is not None:
        for source in lake.config.sources:
            jobs.append(continuous_job(runtime, source, lake.targets, lake.marts, continuous))
            sensors.append(continuous_sensor(runtime, source, jobs[-1]))
    silver = silver_assets(runtime, lake.targets, progress)
    return dg.Definitions(
        assets=[
            *bronze_specs(lake.config),
            *(part for part in silver if not isinstance(part, dg.AssetChecksDefinition)),
            *gold_assets(runtime, lake.marts),
        ],
        asset_checks=[part for part in silver if isinstance(part, dg.AssetChecksDefinition)],
        sensors=sensors,
        jobs=jobs,
        resources={
            IO_MANAGER_KEY: IcebergIOManager(runtime),
            BRONZE_IO_MANAGER_KEY: BronzeIOManager(runtime),
        },
        # One process, so that all the steps of a run share one Spark session.
        executor=dg.in_process_executor,
    )

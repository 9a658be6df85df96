"""Builds Dagster's Definitions from a lake. The parts are defined in their own modules."""

import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from lake_assets.config.config_file import lake_path, load_lake
from lake_assets.lake import Lake, open_lake
from lake_assets.logs import print_json_if_asked
from lake_assets.orchestration.assets.bronze_assets import IO_MANAGER_KEY as BRONZE_IO_MANAGER_KEY
from lake_assets.orchestration.assets.bronze_assets import bronze_specs
from lake_assets.orchestration.assets.mart_assets import gold_assets
from lake_assets.orchestration.assets.mart_output import Output, own_output
from lake_assets.orchestration.assets.silver_assets import silver_assets
from lake_assets.orchestration.checks.data_checks import check_schedules, data_checks
from lake_assets.orchestration.dagster_private import shows_definitions
from lake_assets.orchestration.io_managers.bronze_io_manager import BronzeIOManager
from lake_assets.orchestration.io_managers.iceberg_io_manager import IO_MANAGER_KEY, TableIOManager
from lake_assets.orchestration.runs.continuous_job import continuous_job, continuous_sensor
from lake_assets.orchestration.runs.landing_job import landing_job, landing_sensor
from lake_assets.orchestration.runs.maintenance_job import maintenance_job, maintenance_sensor
from lake_assets.orchestration.runs.run_retention import retention_sensor
from lake_assets.orchestration.sensors.file_sensor import file_sensor
from lake_assets.orchestration.sensors.freshness_sensor import freshness_sensor
from lake_assets.orchestration.sensors.mart_sensor import mart_sensor
from lake_assets.orchestration.sensors.output_sensor import LONGEST, output_checks, output_sensor
from lake_assets.orchestration.shared.first_periods import FirstPeriods, first_periods
from lake_assets.outputs.lake_outputs import lake_outputs
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply.engine import Apply, apply_tables

logger = logging.getLogger(__name__)

__all__ = ["Lake", "build_definitions", "lake_definitions", "open_lake"]


def lake_definitions(
    config: str | Path | None = None,
    *,
    resources: Mapping[str, Any] | None = None,
    executor: dg.ExecutorDefinition | None = dg.in_process_executor,
) -> dg.Definitions:
    """All Dagster definitions of a lake, to be used as they are or merged with others by `dg.Definitions.merge`.

    `config`: a lake.yaml, by default the file that LAKE_CONFIG names, or the one of the working directory. `resources`:
    by key, resources that replace the lake's, its IO managers included; None leaves one out. `executor`: None leaves it
    to the definitions that the lake is merged with; by default all steps of a run share one process and its Spark
    session. Raises ConfigError with every mistake of the file, and LakeError for an unusable mart.
    """
    # Here, because `lake-assets sync` needs no resources, and importing dagster-aws takes 0.6 s.
    from lake_assets.orchestration.resources import lake_resources

    print_json_if_asked()
    file = lake_path(None if config is None else Path(config)).absolute()
    lake = open_lake(load_lake(file))
    for reason in lake.broken:
        logger.warning("%s", reason)
    # Not in a run's process, whose definitions nobody sees.
    first = first_periods(lake.runtime, lake.marts) if shows_definitions() else None
    own = lake_resources(lake.runtime, str(file), resources)
    if lake.config.jobs is None:
        return build_definitions(lake, first=first, resources=own, executor=executor)
    from lake_assets.orchestration.jobs.job_steps import apply_by_job, output_by_job

    return build_definitions(lake, apply_by_job, output_by_job, first=first, resources=own, executor=executor)


def build_definitions(
    lake: Lake,
    apply: Apply = apply_tables,
    output: Output = own_output,
    *,
    checks: bool = True,
    first: FirstPeriods | None = None,
    resources: Mapping[str, Any] | None = None,
    executor: dg.ExecutorDefinition | None = dg.in_process_executor,
) -> dg.Definitions:
    """All Dagster definitions of a lake. `apply`: as of `silver_assets`. `output`: as of `gold_assets`. `checks`:
    whether to include the checks that are evaluated on a schedule; a run of an asset executes every check of it.
    `first`: where partitions begin, by default as in a run. `resources`: by key, further resources, or replacements for
    the IO managers.
    """
    first = first or FirstPeriods.any(lake.config)
    # Single-run backfills are in beta; they compute a range of days in one run.
    warnings.filterwarnings("ignore", category=dg.BetaWarning, message=".*backfill_policy.*")
    # Links to code are in beta too, and so are owners of sensors, which Dagster itself names when it copies a sensor.
    warnings.filterwarnings("ignore", category=dg.BetaWarning, message=".*CodeReference.*")
    warnings.filterwarnings("ignore", category=dg.BetaWarning, message=".*owners.*SensorDefinition.*")
    runtime = lake.runtime
    sensors = [file_sensor(runtime, source, lake.targets, lake.marts) for source in lake.config.sources]
    sensors.append(freshness_sensor(runtime, lake.targets, lake.marts, first, lake.checks))
    sensors.append(retention_sensor(lake.config))
    if lake.marts:
        sensors.append(mart_sensor(runtime, lake.marts, first))
    outputs = lake_outputs(lake, LONGEST)
    sensors += [output_sensor(lake, output) for output in outputs]
    jobs = [maintenance_job(lake)]
    sensors.append(maintenance_sensor(lake, jobs[0]))
    if (continuous := lake.config.automation.continuous) is not None:
        for source in lake.config.sources:
            jobs.append(continuous_job(runtime, source, lake.targets, lake.marts, continuous))
            sensors.append(continuous_sensor(runtime, source, jobs[-1]))
    for source, settings in lake.config.sources.items():
        if settings.stream is not None:
            jobs.append(landing_job(runtime, source))
            sensors.append(landing_sensor(runtime, source, jobs[-1]))
    silver = silver_assets(runtime, lake.targets, apply)
    found = {IO_MANAGER_KEY: _tables(runtime), BRONZE_IO_MANAGER_KEY: _bronze(runtime), **(resources or {})}
    return dg.Definitions(
        assets=[
            *bronze_specs(lake.config, first),
            *(part for part in silver if not isinstance(part, dg.AssetChecksDefinition)),
            *gold_assets(runtime, lake.marts, first, output),
        ],
        asset_checks=[
            *(part for part in silver if isinstance(part, dg.AssetChecksDefinition)),
            *(data_checks(runtime, lake.checks) if checks else ()),
            *(output_checks(lake, output) for output in outputs if checks and output.shows_tables),
        ],
        schedules=check_schedules(lake.config, lake.checks) if checks else (),
        sensors=sensors,
        jobs=jobs,
        resources={key: value for key, value in found.items() if value is not None},
        executor=executor,
    )


def _tables(runtime: LakeRuntime) -> dg.IOManagerDefinition:
    # A function with a name, which Dagster shows as the resource's type.
    def iceberg_tables(_: dg.InitResourceContext) -> TableIOManager:
        return TableIOManager(runtime)

    return dg.IOManagerDefinition(
        iceberg_tables,
        description="Loads tables of the lake for parameters, and stores results as Iceberg tables.",
    )


def _bronze(runtime: LakeRuntime) -> dg.IOManagerDefinition:
    def bronze_files(_: dg.InitResourceContext) -> BronzeIOManager:
        return BronzeIOManager(runtime)

    return dg.IOManagerDefinition(
        bronze_files, description="Loads the DMS files of a table's days, as typed changes."
    )

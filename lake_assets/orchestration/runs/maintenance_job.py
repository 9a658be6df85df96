"""Maintenance by itself in Dagster: a sensor that looks at the tables' metadata, and the job that it starts.

Here: when a run is requested, and what a run reports. Not here: which tables are due (`rounds/due_maintenance.py`).
"""

import math
import time
from datetime import UTC, datetime
from random import shuffle

import dagster as dg

from lake_assets.checks.lake_checks import READ_HEALTH
from lake_assets.config.secrets import hidden_in
from lake_assets.iceberg.upkeep.table_maintenance import Maintained
from lake_assets.lake import Lake
from lake_assets.orchestration.checks.check_history import latest_evaluation
from lake_assets.orchestration.checks.data_checks import check_key, evaluation_of
from lake_assets.orchestration.runs.continuous_job import alive_runs
from lake_assets.orchestration.runs.in_flight import unfinished_runs
from lake_assets.orchestration.runs.marts_in_silver_runs import keeps_up
from lake_assets.orchestration.runs.retry_wait import starts_retry_wait
from lake_assets.orchestration.shared.asset_keys import bronze_key, prefixed
from lake_assets.orchestration.shared.equal_keys import refuse_equal_keys
from lake_assets.orchestration.shared.heartbeat import Heartbeat
from lake_assets.orchestration.shared.run_tags import run_tags
from lake_assets.rounds.due_maintenance import TableUpkeep, due_upkeep
from lake_assets.rounds.ops_upkeep import due_ops, maintain_ops
from lake_assets.rounds.superseded_files import delete_superseded, due_sources
from lake_assets.spark.causes import root_cause
from lake_assets.words import many

LOOK_SECONDS = 300
"""Between two looks of the sensor: each loads all tables, and a table becomes due within hours rather than seconds."""
RUN_SECONDS = 600.0
"""After this time a run takes up no further table; the next run goes on."""
NAME = "maintenance"


def maintenance_job(lake: Lake) -> dg.JobDefinition:
    """The job that maintains the tables of silver, gold and `lake_ops` that are due, one after the other."""

    @dg.op(
        name="maintain_tables",
        description="Merges small files, rewrites files with deleted rows and expires snapshots where that is due, and "
        "deletes superseded files of sources.",
    )
    def maintain_tables(context: dg.OpExecutionContext) -> None:
        began = time.monotonic()
        failed: list[str] = []
        with Heartbeat(context.instance, context.run_id):
            due = due_upkeep(lake, shared=_of_continuous_runs(context.instance, lake))
            # In no order: else small tables that are soon due again could keep a large one from its turn.
            shuffle(due)
            for table in due:
                if time.monotonic() - began > RUN_SECONDS:
                    break
                context.log.info("%s: %s", table.table, table.reason)
                done = table.run()
                context.log_event(observation(table, done))
                report_health(context.instance, lake, table)
                failed += _faults(lake, done)
            for identifier in due_ops(lake.runtime):
                failed += _faults(lake, maintain_ops(lake.runtime, identifier))
            for source in due_sources(lake.runtime, datetime.now(UTC)):
                for table_of_files, done in delete_superseded(lake.runtime, source).items():
                    if table_of_files:
                        context.log_event(deletion(lake, source, table_of_files, done))
                    failed += _faults(lake, done)
        if failed:
            raise dg.Failure("\n".join(failed))

    @dg.job(name=prefixed(lake.config, NAME), executor_def=dg.in_process_executor)
    def maintenance() -> None:
        maintain_tables()

    return maintenance


def maintenance_sensor(lake: Lake, job: dg.JobDefinition) -> dg.SensorDefinition:
    """Starts a run of the job when a table is due; running by default. Stop it in the UI where `lake-assets maintain`
    runs by cron."""

    @dg.sensor(
        name=prefixed(lake.config, "tables_stay_small"),
        job=job,
        minimum_interval_seconds=LOOK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Maintains tables with many small files, deleted rows or snapshots, by their own metadata.",
    )
    def tables_stay_small(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        refuse_equal_keys(context, lake.config)
        if runs := unfinished_runs(context.instance, job.name):
            return dg.SkipReason(f"run {min(runs)[:8]} is under way")
        wait = starts_retry_wait(context.instance, job.name, young=math.inf)
        if wait > 0:
            return dg.SkipReason(f"the last run failed; the next one is requested in {wait:.0f} s")
        due = due_upkeep(lake, shared=_of_continuous_runs(context.instance, lake))
        number = len(due) + len(due_ops(lake.runtime)) + len(due_sources(lake.runtime, datetime.now(UTC)))
        if not number:
            return dg.SkipReason("no table is due")
        context.log.info("; ".join(f"{table.table}: {table.reason}" for table in due))
        for table in due:
            report_health(context.instance, lake, table)
        return dg.RunRequest(tags={**run_tags(lake.config), "tables": many(number, "table")})

    return tables_stay_small


def _faults(lake: Lake, done: Maintained) -> list[str]:
    if done.error is None:
        return []
    return [f"{done.table}: {hidden_in(lake.config, root_cause(done.error))}"]


def observation(table: TableUpkeep, done: Maintained) -> dg.AssetObservation:
    """What was done to a table, with the figures before and after, which the UI plots."""
    figures = {
        "files_before": done.files_before,
        "files_rewritten": done.files_rewritten,
        "files_after": done.files_after,
        **{f"{name}_before": value for name, value in table.health.figures().items() if name != "data_files"},
        "snapshots_before": done.snapshots_before,
        "snapshots_after": done.snapshots_after,
        "orphan_files_removed": done.orphans_removed,
        "rows_removed": done.rows_removed,
        "maintenance_seconds": done.seconds,
    }
    return dg.AssetObservation(
        dg.AssetKey(table.asset_key),
        description=f"Maintained: {table.reason}.",
        metadata={name: value for name, value in figures.items() if value},
    )


def deletion(lake: Lake, source: str, table: str, done: Maintained) -> dg.AssetObservation:
    """That files of a source table were deleted."""
    removed = many(done.files_before - done.files_after, "superseded file", "were")
    return dg.AssetObservation(
        bronze_key(lake.config, source, table),
        description=f"{removed} deleted (maintenance.keep_superseded_files).",
        metadata={
            "files_removed": done.files_before - done.files_after,
            "bytes_removed": done.bytes_removed,
            "maintenance_seconds": done.seconds,
        },
    )


def report_health(instance: dg.DagsterInstance, lake: Lake, table: TableUpkeep) -> None:
    """Evaluates the table's check `read_health` now, and not only on its schedule, if that changes its outcome."""
    own = (each for each in lake.checks if each.asset_key == table.asset_key and each.name == READ_HEALTH)
    if (check := next(own, None)) is None:
        return  # `broken` of the lake says why it has no checks
    last = latest_evaluation(instance, check_key(check))
    has_failed = last is not None and last.passed is False
    if has_failed or table.health.behind:
        found = evaluation_of(lake.runtime, instance, check)
        if found.passed is has_failed:
            instance.report_runless_asset_event(found)


def _of_continuous_runs(instance: dg.DagsterInstance, lake: Lake) -> set[str]:
    """The tables that living continuous runs maintain, too."""
    alive = {source for source in lake.config.sources if alive_runs(instance, lake.runtime, [source])}
    targets = {target.identifier for target in lake.targets if target.source in alive}
    return targets | {mart.identifier for mart in lake.marts if any(keeps_up(mart, s) for s in alive)}

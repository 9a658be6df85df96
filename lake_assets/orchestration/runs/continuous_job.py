"""The continuous run in Dagster: a job for each source, and the sensor that starts it again.

Here: how long the run lasts, what it reports when it is stopped, and whether one is alive. Not here: its rounds
(`continuous_run.py`).
"""

import time
from collections.abc import Iterable, Sequence

import dagster as dg

from lake_assets.config import ContinuousConfig, LakeConfig
from lake_assets.gold.mart import Mart
from lake_assets.orchestration.assets.mart_assets import repository_of
from lake_assets.orchestration.dagster_private import of_newest_materialization
from lake_assets.orchestration.io_managers.iceberg_io_manager import IO_MANAGER_KEY
from lake_assets.orchestration.runs.continuous_run import Continuous
from lake_assets.orchestration.runs.kept_alive import HAND_OVER_SECONDS, kept_alive, runs_of
from lake_assets.orchestration.shared.asset_keys import prefixed
from lake_assets.orchestration.shared.heartbeat import Heartbeat
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.targets import Target
from lake_assets.words import many

LISTENING_SECONDS = 1.0
"""How long a round without new files waits for an S3 event, where the source has a queue."""
REPORT_SECONDS = 30.0
"""How often a table's batches are reported to Dagster as one event: each event takes 10 ms, and space for ever."""
HAND_OVER_EVENTS = 5000
"""After this many events, a new run takes over: a run's page in the UI reads them all."""
IDLE_SECONDS = 0.2
"""Pause after a round that had nothing to do: a scan costs a request."""


def job_name(lake: LakeConfig, source: str) -> str:
    """The job that keeps a source current."""
    return prefixed(lake, f"{source}_continuous")


def continuous_job(
    runtime: LakeRuntime,
    source: str,
    targets: Sequence[Target],
    marts: Sequence[Mart],
    settings: ContinuousConfig,
) -> dg.JobDefinition:
    """The job has an op, not assets: the UI would show assets as in progress for hours."""

    @dg.op(
        name=f"keep_{source}_current",
        required_resource_keys={IO_MANAGER_KEY},
        description=f"Applies the new files of {source} at once, and refreshes the marts that show the present.",
    )
    def keep_current(context: dg.OpExecutionContext) -> None:
        tables = getattr(context.resources, IO_MANAGER_KEY)
        rounds = Continuous(
            runtime,
            source,
            targets,
            marts,
            context.instance,
            settings=settings,
            tables=tables,
            repository=repository_of(context),
            run_id=context.run_id,
        )
        with Heartbeat(context.instance, context.run_id):
            events = _run_rounds(context, rounds, settings)
        context.log.info("%s; a fresh run takes over", many(events, "event"))

    @dg.job(name=job_name(runtime.lake, source), executor_def=dg.in_process_executor, tags={"source": source})
    def continuous() -> None:
        keep_current()

    return continuous


def _run_rounds(context: dg.OpExecutionContext, rounds: Continuous, settings: ContinuousConfig) -> int:
    """Runs rounds until the run hands over; returns the number of events. Reports what has been applied however the
    run ends, also at a termination, which is not an Exception."""
    began = reported = time.monotonic()
    events = 0
    try:
        while time.monotonic() - began < HAND_OVER_SECONDS and events < HAND_OVER_EVENTS:
            done = rounds.round(LISTENING_SECONDS)
            if time.monotonic() - reported >= REPORT_SECONDS:
                events += _report_events(context, rounds)
                reported = time.monotonic()
            pause = settings.interval.total_seconds()
            time.sleep(pause if done.batches or done.marts else max(pause, IDLE_SECONDS))
    finally:
        try:
            rounds.finish()
            events += _report_events(context, rounds)
        finally:
            rounds.close()
    return events


def _report_events(context: dg.OpExecutionContext, rounds: Continuous) -> int:
    events = 0
    for event in rounds.events():
        if isinstance(event, dg.AssetCheckEvaluation) and rounds.is_behind_another_run(event):
            newest = of_newest_materialization(context.instance, event)
            context.instance.report_runless_asset_event(newest or event)
        else:
            # Dagster stores a logged event at once; it would store a yielded one at the end of the op.
            context.log_event(event)  # type: ignore[arg-type]  # it takes checks, too
        events += 1
    return events


def continuous_sensor(runtime: LakeRuntime, source: str, job: dg.JobDefinition) -> dg.SensorDefinition:
    """Keeps the continuous run of a source alive."""
    return kept_alive(runtime, source, job, f"{source}_stays_current", f"keeps {source} current")


def alive_runs(instance: dg.DagsterInstance, runtime: LakeRuntime, sources: Iterable[str]) -> list[str]:
    """Continuous runs of the sources that have left the queue and have a heartbeat. Runs without a heartbeat are
    declared failed."""
    if runtime.lake.automation.continuous is None:
        return []
    return [
        run
        for source in sources
        for run, begun in runs_of(instance, runtime, job_name(runtime.lake, source)).items()
        if begun
    ]

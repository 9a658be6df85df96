"""Sensors that keep one run of a job alive.

Here: whether a run is alive, and when the next one is requested. Not here: what the runs do (`continuous_job.py`,
`landing_job.py`).
"""

import dagster as dg

from lake_assets.orchestration.runs.in_flight import unfinished_runs
from lake_assets.orchestration.runs.retry_wait import starts_retry_wait
from lake_assets.orchestration.shared.asset_keys import prefixed
from lake_assets.orchestration.shared.equal_keys import refuse_equal_keys
from lake_assets.orchestration.shared.run_tags import run_tags
from lake_assets.runtime import LakeRuntime

HAND_OVER_SECONDS = 6 * 3600.0
"""After this time, a new run takes over, with the definitions of its day."""


def kept_alive(
    runtime: LakeRuntime, source: str, job: dg.JobDefinition, name: str, doing: str
) -> dg.SensorDefinition:
    """A sensor that starts a run of the source's job unless one is alive; running by default. `doing`: what the run
    does, such as "keeps shop current"."""

    @dg.sensor(
        name=prefixed(runtime.lake, name),
        job=job,
        minimum_interval_seconds=1,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Keeps one run of {job.name} alive.",
        tags={"source": source},
    )
    def stays_alive(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        refuse_equal_keys(context, runtime.lake)
        runs = runs_of(context.instance, runtime, job.name)
        if begun := [run for run, has_begun in runs.items() if has_begun]:
            return dg.SkipReason(f"run {begun[0][:8]} {doing}")
        if runs:
            return dg.SkipReason(
                f"run {min(runs)[:8]} waits in Dagster's queue: raise run_queue.max_concurrent_runs if it stays"
            )
        wait = starts_retry_wait(context.instance, job.name)
        if wait > 0:
            return dg.SkipReason(f"the last run died young; the next one is requested in {wait:.0f} s")
        return dg.RunRequest(tags=run_tags(runtime.lake))

    return stays_alive


def runs_of(instance: dg.DagsterInstance, runtime: LakeRuntime, job_name: str) -> dict[str, bool]:
    """The job's runs that have a heartbeat or are queued, and whether each has left the queue. Runs without a
    heartbeat are declared failed."""
    return unfinished_runs(instance, job_name)

"""Runs that are under way: the sensors' only memory of what they have requested.

Here: which assets are being computed by a run that gives signs of life, and declaring silent runs failed. Correctness
does not depend on it, since two runs of a table cannot both publish a batch; it saves computing twice.
"""

import logging
import time
from collections.abc import Iterable

import dagster as dg
from dagster import DagsterEventType, DagsterRun, DagsterRunStatus, RunRecord, RunsFilter

from lake_assets.orchestration.launcher.run_process import is_known, process_of
from lake_assets.orchestration.shared.heartbeat import HEARTBEAT

QUEUED = (DagsterRunStatus.QUEUED, DagsterRunStatus.SUSPENDED)
"""Nothing runs that could give a sign, and the daemon that holds them back is the one that runs the sensors."""
LAUNCHING = (DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTING)
RUNNING = (DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING)

LAUNCH_SECONDS = 600.0
"""A container can need minutes to start, and Dagster's run monitoring (`start_timeout_seconds`) speaks long before;
without it, this ends the waiting for a run whose launch was lost."""

logger = logging.getLogger(__name__)


def assets_in_flight(
    instance: dg.DagsterInstance,
    keys: Iterable[dg.AssetKey],
    heartbeat_timeout: float,
    now: float | None = None,
) -> dict[dg.AssetKey, list[str]]:
    """Of `keys`, those that unfinished runs compute, with the runs' ids.

    A run whose process is gone, or whose last sign of life is older than `heartbeat_timeout` seconds, is declared
    failed and not counted: Dagster itself never notices.
    """
    wanted = set(keys)
    moment = time.time() if now is None else now
    found: dict[dg.AssetKey, list[str]] = {}
    for record in instance.get_run_records(RunsFilter(statuses=[*QUEUED, *LAUNCHING, *RUNNING])):
        computed = wanted & _computed(instance, record.dagster_run)
        if not computed:
            continue
        if _end(record, heartbeat_timeout, moment) is not None:
            _declare_failed(instance, record.dagster_run.run_id, heartbeat_timeout, moment)
            continue
        for key in computed:
            found.setdefault(key, []).append(record.dagster_run.run_id)
    return found


def unfinished_runs(
    instance: dg.DagsterInstance, heartbeat_timeout: float, job_name: str, now: float | None = None
) -> dict[str, bool]:
    """By id of a job's unfinished runs, whether it has left the queue; silent ones are declared failed, and not
    counted."""
    moment = time.time() if now is None else now
    found = {}
    wanted = RunsFilter(job_name=job_name, statuses=[*QUEUED, *LAUNCHING, *RUNNING])
    for record in instance.get_run_records(wanted):
        if _end(record, heartbeat_timeout, moment) is not None:
            _declare_failed(instance, record.dagster_run.run_id, heartbeat_timeout, moment)
        else:
            found[record.dagster_run.run_id] = record.dagster_run.status not in QUEUED
    return found


def _computed(instance: dg.DagsterInstance, run: DagsterRun) -> set[dg.AssetKey]:
    """A job that was launched whole has no asset selection, whether it computes all assets or none."""
    if run.asset_selection is not None:
        return set(run.asset_selection)
    planned = instance.get_records_for_run(run.run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
    return {record.asset_key for record in planned.records if record.asset_key is not None}


def _end(record: RunRecord, heartbeat_timeout: float, moment: float) -> str | None:
    """Why the run is taken to be dead, if it is."""
    run = record.dagster_run
    if run.status in QUEUED:
        return None
    if is_known(run) and process_of(run) is None:
        return "Its process is gone"
    silent = moment - _last_sign(record)
    limit = heartbeat_timeout if run.status in RUNNING else max(heartbeat_timeout, LAUNCH_SECONDS)
    return f"No heartbeat for {silent:.0f} s, so its process is taken to be gone" if silent > limit else None


def _last_sign(record: RunRecord) -> float:
    """Seconds since the epoch. A change of the run's state counts too: before the first heartbeat there is nothing
    else, and a run that was re-executed in the UI has a copy of its parent's tags, an old heartbeat among them."""
    beat = float(record.dagster_run.tags.get(HEARTBEAT, 0))
    return max(beat, record.start_time or 0.0, record.update_timestamp.timestamp())


def _declare_failed(
    instance: dg.DagsterInstance, run_id: str, heartbeat_timeout: float, moment: float
) -> None:
    # Read once more: it may have ended, or beaten, or been declared failed by another sensor since the list was read.
    record = instance.get_run_record_by_id(run_id)
    if record is None or record.dagster_run.is_finished:
        return
    end = _end(record, heartbeat_timeout, moment)
    if end is None:
        return
    logger.warning("run %s: %s: declared failed", run_id, end)
    instance.report_run_failed(
        record.dagster_run,
        f"{end}, and its tables are requested again. If it lives after all, nothing is lost or doubled: of two runs "
        "only one can publish a batch.",
    )

"""Unfinished runs: the sensors' only memory of what they have requested.

Here: which assets a live run is computing, and declaring silent runs failed. Correctness does not depend on it, since
two runs of a table cannot both publish a batch; it avoids computing twice.
"""

import logging
import time
from collections.abc import Iterable

import dagster as dg
from dagster import DagsterEventType, DagsterRun, DagsterRunStatus, RunRecord, RunsFilter

from lake_assets.orchestration.launcher.run_process import is_known, process_of
from lake_assets.orchestration.shared.heartbeat import HEARTBEAT, SILENT_SECONDS
from lake_assets.orchestration.shared.run_tags import BACKFILL

QUEUED = tuple(status for status in DagsterRunStatus if status.name in ("QUEUED", "SUSPENDED"))
"""In these statuses no process exists that could write a heartbeat, and the daemon that queues the runs also runs the
sensors. They are found by name, because Dagster 1.13.0 has no SUSPENDED."""
LAUNCHING = (DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTING)
RUNNING = (DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING)

LAUNCH_SECONDS = 600.0
"""A container can need minutes to start. Dagster's run monitoring (`start_timeout_seconds`) fails a lost launch much
earlier; this limit is for instances without it."""

logger = logging.getLogger(__name__)


def assets_in_flight(
    instance: dg.DagsterInstance,
    keys: Iterable[dg.AssetKey],
    now: float | None = None,
    *,
    backfills: bool = True,
) -> dict[dg.AssetKey, list[str]]:
    """The assets of `keys` that unfinished runs compute, with the runs' ids. `backfills`: whether runs of backfills
    count.

    A run whose process is gone, or whose last sign of life is older than SILENT_SECONDS, is declared
    failed and left out: Dagster itself does not detect it.
    """
    wanted = set(keys)
    moment = time.time() if now is None else now
    found: dict[dg.AssetKey, list[str]] = {}
    for record in instance.get_run_records(RunsFilter(statuses=[*QUEUED, *LAUNCHING, *RUNNING])):
        computed = wanted & _computed(instance, record.dagster_run)
        if not computed:
            continue
        if _reason_dead(record, moment) is not None:
            _declare_failed(instance, record.dagster_run.run_id, moment)
            continue
        if not backfills and BACKFILL in record.dagster_run.tags:
            continue
        for key in computed:
            found.setdefault(key, []).append(record.dagster_run.run_id)
    return found


def unfinished_runs(instance: dg.DagsterInstance, job_name: str, now: float | None = None) -> dict[str, bool]:
    """A job's unfinished runs by id, and whether each has left the queue. Silent runs are declared failed and left
    out."""
    moment = time.time() if now is None else now
    found = {}
    wanted = RunsFilter(job_name=job_name, statuses=[*QUEUED, *LAUNCHING, *RUNNING])
    for record in instance.get_run_records(wanted):
        if _reason_dead(record, moment) is not None:
            _declare_failed(instance, record.dagster_run.run_id, moment)
        else:
            found[record.dagster_run.run_id] = record.dagster_run.status not in QUEUED
    return found


def silent_runs(instance: dg.DagsterInstance, tags: dict[str, str]) -> dict[str, str]:
    """By unfinished run with these tags that is considered dead, the reason. Declares nothing."""
    wanted = RunsFilter(tags=tags, statuses=[*LAUNCHING, *RUNNING])
    found = ((record, _reason_dead(record, time.time())) for record in instance.get_run_records(wanted))
    return {record.dagster_run.run_id: reason for record, reason in found if reason is not None}


def _computed(instance: dg.DagsterInstance, run: DagsterRun) -> set[dg.AssetKey]:
    """The assets that the run computes. A job that was launched whole has no asset selection, whether it computes all
    assets or none."""
    if run.asset_selection is not None:
        return set(run.asset_selection)
    planned = instance.get_records_for_run(run.run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
    return {record.asset_key for record in planned.records if record.asset_key is not None}


def _reason_dead(record: RunRecord, moment: float) -> str | None:
    """Why the run is considered dead; None if it is not."""
    run = record.dagster_run
    if run.status in QUEUED:
        return None
    if is_known(run) and process_of(run) is None:
        return "Its process is gone"
    silent = moment - _last_sign(record)
    limit = SILENT_SECONDS if run.status in RUNNING else LAUNCH_SECONDS
    return f"No heartbeat for {silent:.0f} s, so its process is considered dead" if silent > limit else None


def _last_sign(record: RunRecord) -> float:
    """Seconds since the epoch. A change of the run's state counts too: a run has no heartbeat at first, and one that
    was re-executed in the UI has a copy of its parent's tags, including an old heartbeat."""
    beat = float(record.dagster_run.tags.get(HEARTBEAT, 0))
    return max(beat, record.start_time or 0.0, record.update_timestamp.timestamp())


def _declare_failed(instance: dg.DagsterInstance, run_id: str, moment: float) -> None:
    # Read again: since the list was read, the run may have ended or written a heartbeat, or another sensor may have
    # declared it failed.
    record = instance.get_run_record_by_id(run_id)
    if record is None or record.dagster_run.is_finished:
        return
    end = _reason_dead(record, moment)
    if end is None:
        return
    logger.warning("run %s: %s: declared failed", run_id, end)
    instance.report_run_failed(
        record.dagster_run,
        f"{end}, and its tables are requested again. If it is still alive, nothing is lost or doubled: only one of two "
        "runs can publish a batch.",
    )

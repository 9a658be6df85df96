"""Runs that are under way: the sensors' only memory of what they have requested.

Here: which assets are being computed by a run with a fresh heartbeat, and declaring dead runs failed. Correctness does
not depend on it, since two runs of a table cannot both publish a batch; it saves computing twice.
"""

import logging
import time
from collections.abc import Iterable

import dagster as dg
from dagster import DagsterRunStatus, RunRecord, RunsFilter

from lake_assets.automation.heartbeat import HEARTBEAT

UNFINISHED = (
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
)
WAITING = (DagsterRunStatus.NOT_STARTED, DagsterRunStatus.QUEUED)

logger = logging.getLogger(__name__)


def assets_in_flight(
    instance: dg.DagsterInstance, keys: Iterable[dg.AssetKey], heartbeat_timeout: float, now: float | None = None
) -> dict[dg.AssetKey, list[str]]:
    """Of `keys`, those that unfinished runs compute, with the runs' ids.

    A started run whose last sign of life is older than `heartbeat_timeout` seconds is declared failed and not counted:
    Dagster itself never notices that its process is gone. A queued run needs no heartbeat.
    """
    wanted = set(keys)
    moment = time.time() if now is None else now
    found: dict[dg.AssetKey, list[str]] = {}
    for record in instance.get_run_records(RunsFilter(statuses=list(UNFINISHED))):
        run = record.dagster_run
        computed = wanted if run.asset_selection is None else wanted & set(run.asset_selection)
        if not computed:
            continue
        if run.status not in WAITING and moment - _last_sign(record) > heartbeat_timeout:
            silent = moment - _last_sign(record)
            logger.warning("run %s has been silent for %.0f s: declared failed", run.run_id, silent)
            instance.report_run_failed(run, f"No heartbeat for {silent:.0f} s: its process is gone.")
            continue
        for key in computed:
            found.setdefault(key, []).append(run.run_id)
    return found


def _last_sign(record: RunRecord) -> float:
    """Seconds since the epoch. Before the first heartbeat, the latest change of the run's state is its sign of life."""
    beats = record.dagster_run.tags.get(HEARTBEAT)
    return max(float(beats or 0), record.start_time or 0, record.update_timestamp.timestamp() if not beats else 0)

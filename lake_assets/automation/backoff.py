"""Waiting longer and longer before a failing asset is tried again.

Derived from the history that Dagster keeps anyway, so that there is no state to lose: with the history deleted, the
next attempt comes at once and the waiting begins anew.
"""

import time
from datetime import timedelta

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from lake_assets.checks.history import DEPTH, check_turns


def delay(failures: int, base: timedelta, most: timedelta) -> timedelta:
    """How long to wait after that many failures in a row: base, twice base, four times base … at most `most`."""
    return timedelta(0) if failures == 0 else min(base * 2 ** (failures - 1), most)


def check_backing_off(
    instance: dg.DagsterInstance,
    check: dg.AssetCheckKey,
    base: timedelta,
    most: timedelta,
    now: float | None = None,
) -> float:
    """Seconds until the asset of `check` may be tried again; 0 when it may be tried now.

    A turn counts as failed when its check failed, and when its run ended without evaluating the check at all.
    """
    moment = time.time() if now is None else now
    failures, newest = 0, None
    for turn in check_turns(instance, check):
        if turn.passed:
            break
        failures += 1
        newest = newest or turn.at
    if newest is None:
        return 0.0
    return max(0.0, newest + delay(failures, base, most).total_seconds() - moment)


def runs_backing_off(
    instance: dg.DagsterInstance, tags: dict[str, str], base: timedelta, most: timedelta, now: float | None = None
) -> float:
    """Seconds until runs with these tags may be requested again, by how many of the latest ended in failure."""
    moment = time.time() if now is None else now
    failures, newest = 0, None
    for record in instance.get_run_records(RunsFilter(tags=tags), limit=DEPTH):
        if record.dagster_run.status is not DagsterRunStatus.FAILURE:
            break
        failures += 1
        newest = newest or record.end_time or record.update_timestamp.timestamp()
    if newest is None:
        return 0.0
    return max(0.0, newest + delay(failures, base, most).total_seconds() - moment)

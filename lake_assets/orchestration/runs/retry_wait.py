"""How long a failing asset or continuous run waits before it is tried again.

The wait is computed from Dagster's own history, so there is no other state to lose. Without the history, the next
attempt starts at once. Not here: the rule (`rounds/backoff.py`).
"""

import time
from collections.abc import Iterator
from itertools import takewhile

import dagster as dg
from dagster import DagsterRunStatus, RunRecord, RunsFilter

from lake_assets.gold.mart import Mart
from lake_assets.orchestration.checks.check_history import DEPTH, check_executions
from lake_assets.orchestration.shared.run_tags import mart_tag
from lake_assets.rounds.backoff import seconds_left

YOUNG_SECONDS = 60.0
"""A continuous run that fails sooner is likely to fail again."""


def check_retry_wait(
    instance: dg.DagsterInstance, check: dg.AssetCheckKey, now: float | None = None
) -> float:
    """Seconds until the asset of `check` may be tried again; 0 when it may be tried now.

    A turn counts as failed when its check failed, or when its run ended without evaluating the check. A run that was
    canceled before it began, as in the queue, had no turn.
    """
    failed = []
    for turn in check_executions(instance, check):
        if turn.passed:
            break
        if turn.has_begun:
            failed.append(turn.at)
    return seconds_left(failed, time.time() if now is None else now)


def mart_retry_wait(instance: dg.DagsterInstance, mart: Mart) -> float:
    """Seconds until a run of the mart may be requested again, whichever sensor requested the failed runs."""
    tags, key = {mart_tag(mart.name, mart.key_prefix): "1"}, dg.AssetKey(mart.asset_key)
    return runs_retry_wait(instance, tags, key)


def runs_retry_wait(
    instance: dg.DagsterInstance,
    tags: dict[str, str],
    asset: dg.AssetKey,
    now: float | None = None,
) -> float:
    """Seconds until runs with these tags may be requested again for `asset`.

    A run counts as failed for the asset when it failed and the asset was not materialized in it or later: a run of
    several assets fails when one of them does.
    """
    event = instance.get_latest_materialization_event(asset)
    run_id, materialized = (event.run_id, event.timestamp) if event is not None else ("", 0.0)
    failed = takewhile(
        lambda failure: failure[0].dagster_run.run_id != run_id and failure[1] >= materialized,
        _failures(instance, RunsFilter(tags=tags)),
    )
    return seconds_left([ended for _, ended in failed], time.time() if now is None else now)


def starts_retry_wait(instance: dg.DagsterInstance, job: str, young: float = YOUNG_SECONDS) -> float:
    """Seconds until a job may be started again; 0 unless its last runs failed within `young` seconds."""
    failed = takewhile(
        lambda failure: failure[1] - (failure[0].start_time or failure[1]) < young,
        _failures(instance, RunsFilter(job_name=job)),
    )
    return seconds_left([ended for _, ended in failed], time.time())


def _failures(instance: dg.DagsterInstance, runs: RunsFilter) -> Iterator[tuple[RunRecord, float]]:
    """The failed runs since the last run that did not fail, newest first, each with its end in seconds since the
    epoch."""
    for record in instance.get_run_records(runs, limit=DEPTH):
        if record.dagster_run.status is not DagsterRunStatus.FAILURE:
            return
        yield record, record.end_time or record.update_timestamp.timestamp()

"""The sensor for marts: compares what each mart has consumed with the silver snapshots, and requests the difference.

Level-triggered like the file sensor. It does not request a mart that reads a table whose blocking check failed; a mart
whose inputs are being applied waits for a limited time (`mart_hold.py`). Not here: marts that silver runs compute with
their tables (`orchestration/runs/marts_in_silver_runs.py`), and those of the continuous run
(`orchestration/runs/continuous_run.py`).
"""

import time
from collections.abc import Sequence

import dagster as dg

from lake_assets.config import LakeConfig
from lake_assets.gold.mart import Mart
from lake_assets.gold.table_snapshots import snapshot_of_rows
from lake_assets.iceberg.table_io import load_table
from lake_assets.orchestration.assets.mart_runs import MartRun, mart_work
from lake_assets.orchestration.checks.blocking_checks import failed_inputs, silver_keys
from lake_assets.orchestration.checks.data_checks import checks_of_run
from lake_assets.orchestration.runs.continuous_job import alive_runs
from lake_assets.orchestration.runs.in_flight import assets_in_flight
from lake_assets.orchestration.runs.retry_wait import mart_retry_wait
from lake_assets.orchestration.sensors.mart_hold import Hold
from lake_assets.orchestration.sensors.polling import poll, sentence
from lake_assets.orchestration.shared.asset_keys import prefixed
from lake_assets.orchestration.shared.equal_keys import refuse_equal_keys
from lake_assets.orchestration.shared.first_periods import FirstPeriods
from lake_assets.orchestration.shared.run_tags import mart_tag, run_tags, scope_tag
from lake_assets.runtime import LakeRuntime


def mart_sensor(runtime: LakeRuntime, marts: Sequence[Mart], first: FirstPeriods) -> dg.SensorDefinition:
    """The sensor of all marts; running by default. `first`: where the partitions of its definitions begin."""
    keys = [dg.AssetKey(mart.asset_key) for mart in marts]
    hold = Hold()

    @dg.sensor(
        name=prefixed(runtime.lake, "marts"),
        # Not `target`, whose job takes no marts with partitions of different lengths.
        asset_selection=dg.AssetSelection.assets(*keys),
        minimum_interval_seconds=1,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Requests marts for the days that silver commits changed, one run per contiguous range.",
    )
    def stale_marts(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        refuse_equal_keys(context, runtime.lake)

        def evaluate() -> dg.SensorResult:
            requests, reasons = mart_requests(
                context.instance, runtime, marts, hold, context.repository_def, first
            )
            if requests:
                return dg.SensorResult(run_requests=requests)
            return dg.SensorResult(skip_reason=sentence(reasons, "every mart is up to date"))

        return poll(evaluate, runtime.lake.automation)

    return stale_marts


def mart_requests(
    instance: dg.DagsterInstance,
    runtime: LakeRuntime,
    marts: Sequence[Mart],
    hold: Hold,
    repository: dg.RepositoryDefinition | None,
    first: FirstPeriods,
) -> tuple[list[dg.RunRequest], list[str]]:
    """The runs to request now, and the reasons why other stale marts are not requested."""
    stale: set[str] = set()
    sources = {source for mart in marts for source in mart.sources}
    alive = {source: alive_runs(instance, runtime, [source]) for source in sources}

    def refuse(mart: Mart) -> str | None:
        stale.add(mart.name)
        runs = [run for source in mart.sources for run in alive[source]]
        if runs and (reason := _kept_current(runtime, mart, runs[0])) is not None:
            return reason
        applying = assets_in_flight(instance, silver_keys(mart)).values()
        held = hold.waits_for(mart.name, {run for ids in applying for run in ids})
        if failed := failed_inputs(instance, mart, repository):
            return f"{mart.identifier} waits for {', '.join(failed)}"
        if held:
            return f"{mart.identifier} waits for run {held[0][:8]}, which is applying its inputs"
        wait = mart_retry_wait(instance, mart)
        return f"{mart.identifier} failed and is tried again in {wait:.0f} s" if wait > 0 else None

    if assets_in_flight(instance, [dg.AssetKey(mart.asset_key) for mart in marts], backfills=False):
        # Its commit decides which days are left; a request before it would compute days twice. A backfill may take
        # hours, and the marts must not wait for its end.
        return [], ["a run of marts is under way"]
    work = mart_work(runtime, marts, refuse, first)
    requested = {name for run in work.runs for name in run.marts}
    hold.forget({mart.name for mart in marts} - (stale - requested))
    reasons = list(work.reasons)
    reasons += work.outside.values()
    return [_request(runtime.lake, run, repository) for run in work.runs], reasons


def _kept_current(runtime: LakeRuntime, mart: Mart, run: str) -> str | None:
    """Why a mart is not requested while its source has a continuous run; None if it is requested."""
    if mart.partition_column is None and mart.with_silver:
        return f"{mart.identifier} is refreshed by run {run[:8]}" if len(mart.sources) == 1 else None
    settings = runtime.lake.automation.continuous
    newest = snapshot_of_rows(load_table(runtime.catalog, mart.identifier))
    if settings is None or newest is None:
        return None
    age = time.time() - newest.timestamp_ms / 1000
    left = settings.daily_marts_every.total_seconds() - age
    return f"{mart.identifier} is computed again in {left:.0f} s (daily_marts_every)" if left > 0 else None


def _request(lake: LakeConfig, run: MartRun, repository: dg.RepositoryDefinition | None) -> dg.RunRequest:
    of_marts = {mart_tag(name, lake.key_prefix): "1" for name in run.marts}
    tags = scope_tag(lake, "gold") | run_tags(lake) | of_marts | run.tags
    return dg.RunRequest(
        asset_selection=run.keys, asset_check_keys=checks_of_run(repository, run.keys), tags=tags
    )

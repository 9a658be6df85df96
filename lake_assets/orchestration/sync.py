"""`lake-assets sync`: scan, apply, compute the marts. The main job, without a UI.

It runs the assets that the UI shows, in this process, and reports to the same Dagster instance. Here: the order of the
work. Not here: finding it (`rounds/pending_work.py`), printing (`cli.py`), the progress bar
(`commands/run/progress.py`).
"""

import logging
import time
from collections.abc import Sequence
from random import choice
from typing import Any

import dagster as dg

from lake_assets.bronze.log.day_totals import DayTotals
from lake_assets.config.secrets import hidden_in
from lake_assets.gold.mart import Mart
from lake_assets.iceberg.upkeep.parts_and_limits import Part
from lake_assets.lake import Lake
from lake_assets.orchestration.assets.bronze_assets import landed_events
from lake_assets.orchestration.assets.mart_runs import MartRun, mart_work
from lake_assets.orchestration.assets.silver_assets import batch_keys
from lake_assets.orchestration.checks.blocking_checks import (
    failed_in_dagster,
    failed_inputs,
    failed_when_evaluated,
    silver_keys,
)
from lake_assets.orchestration.checks.silver_checks import APPLIED
from lake_assets.orchestration.lake_definitions import build_definitions
from lake_assets.orchestration.runs.maintenance_job import observation, report_health
from lake_assets.orchestration.shared.asset_metadata import figures_of
from lake_assets.orchestration.shared.run_tags import own_tag
from lake_assets.rounds.begun_turns import BegunTurns
from lake_assets.rounds.due_maintenance import due_upkeep
from lake_assets.rounds.pending_work import PendingWork, Progress, SyncResult, find_work, quarantined_sentence
from lake_assets.silver.apply.engine import Apply, apply_tables
from lake_assets.silver.table.targets import Target
from lake_assets.spark.causes import root_cause, root_cause_in

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
MOST_MAINTAINED = 256 << 20
"""The most bytes that `sync` rewrites: some seconds of work. The rest is for `lake-assets maintain`."""
ROUNDS = 3
"""Marts are planned again after they ran; more rounds are needed only while other processes apply files."""

logger = logging.getLogger(__name__)


def sync(
    lake: Lake,
    instance: dg.DagsterInstance,
    *,
    source: str | None = None,
    table: str | None = None,
    gold: bool = True,
    progress: Progress | None = None,
    work: PendingWork | None = None,
    turns: BegunTurns | None = None,
) -> SyncResult:
    """Applies everything that is pending. A failing table is in the result; the others are applied.

    `table` is a name that `Target.is_called` accepts; with it or `source`, only those tables are applied. `work` and
    `turns`: the pending work, if the caller has found it already, and its turns, if they have begun.
    """
    bar = progress or Progress()
    work = work or find_work(lake, source=source, table=table, gold=gold, progress=bar)
    turns = turns or BegunTurns(lake, work.ready, bar)
    try:
        return _sync(lake, instance, work, turns, bar)
    finally:
        turns.close()


def _sync(
    lake: Lake, instance: dg.DagsterInstance, work: PendingWork, turns: BegunTurns, bar: Progress
) -> SyncResult:
    result = work.result
    for name, found in work.found.items():
        days = DayTotals(lake.runtime.file_log, name)
        for event in landed_events(lake.config, name, found.logged, days):
            instance.report_runless_asset_event(event)
    if work.ready:
        _apply(lake, instance, work.ready, result, turns)
        result.seconds["silver"] = time.perf_counter() - turns.began
    if work.marts:
        start = time.perf_counter()
        _compute_marts(lake, instance, result, bar)
        result.seconds["gold"] = time.perf_counter() - start
    _maintain_one(lake, instance, result)
    return result


def _maintain_one(lake: Lake, instance: dg.DagsterInstance, result: SyncResult) -> None:
    """Maintains at most one of the tables that this call has changed, if it is due and is done soon: every twentieth
    call or so, so that maintenance takes a share of the time that `sync` takes. Never raises: all is applied."""
    marts = {mart.identifier for mart in lake.marts if mart.name in result.marts}
    try:
        due = due_upkeep(lake, among={*result.applied, *marts})
        if soon_done := [table for table in due if table.rewritten_bytes <= MOST_MAINTAINED]:
            # Old rows can wait. Any of the others: else those that are soon due again could keep one from its turn.
            urgent = [table for table in soon_done if {*table.health.due(table.times)} - {Part.HISTORY}]
            table = choice(urgent or soon_done)
            done = table.run()
            instance.report_runless_asset_event(observation(table, done))
            report_health(instance, lake, table)
            result.seconds["maintenance"] = done.seconds
            if done.error is not None:
                reason = hidden_in(lake.config, root_cause(done.error))
                result.notes.append(f"{table.table} could not be maintained, which is tried again: {reason}")
        elif due:
            result.notes.append(f"{due[0].table} has {due[0].reason}: run `lake-assets maintain`.")
    except Exception as error:  # noqa: BLE001  (of the catalog, or of Dagster's storage)
        reason = hidden_in(lake.config, root_cause(error))
        result.notes.append(f"no table could be maintained, which is tried again: {reason}")


def _apply(
    lake: Lake,
    instance: dg.DagsterInstance,
    ready: Sequence[Target],
    result: SyncResult,
    turns: BegunTurns,
) -> None:
    keys = [dg.AssetKey(target.asset_key) for target in ready] + sorted(
        key for name in lake.config.sources for key in batch_keys(name, lake.targets, ready)
    )
    run = execute_assets(lake, instance, keys, {}, turns.results)
    by_key = {dg.AssetKey(target.asset_key): target.identifier for target in ready}
    for key, metadata in _materialized(run):
        if key in by_key:
            result.applied[by_key[key]] = metadata
    by_name = {target.identifier: target for target in ready}
    for name, metadata in sorted(result.applied.items()):
        rows, files = metadata.get("rows_quarantined", 0), metadata.get("files_quarantined", 0)
        if sentence := quarantined_sentence(name, by_name[name].table, rows, files):
            result.quarantine_notes.append(sentence)
    reported = set()
    for evaluation in run.get_asset_check_evaluations():
        if evaluation.check_name == APPLIED and evaluation.asset_key in by_key:
            reported.add(evaluation.asset_key)
            if not evaluation.passed:
                result.failed[by_key[evaluation.asset_key]] = str(evaluation.metadata["error"].value)
    for key in set(by_key) - reported:
        result.failed[by_key[key]] = failure_of(run) or "its run ended before the table had its turn"


def recompute_marts(lake: Lake, instance: dg.DagsterInstance) -> dict[str, str]:
    """Recomputes the marts whose tables have changed; returns by mart why some of them could not be."""
    result = SyncResult()
    _compute_marts(lake, instance, result, Progress())
    # Rows outside of its partitions are in no mart, whatever is computed.
    outside = mart_work(lake.runtime, lake.marts, lambda mart: None).outside
    waiting = {name: why for name, why in result.waiting.items() if outside.get(name) != why}
    return waiting | result.failed


def _compute_marts(lake: Lake, instance: dg.DagsterInstance, result: SyncResult, bar: Progress) -> None:
    attempted: set[MartRun] = set()
    for _ in range(ROUNDS):
        work = mart_work(lake.runtime, lake.marts, lambda mart: blocked(lake, instance, mart))
        runs = [run for run in work.runs if run not in attempted]
        for reason in work.reasons:
            result.waiting[reason.split(" ")[0]] = reason
        result.waiting |= work.outside
        if not runs:
            return
        bar.begin("gold", sum(len(run.marts) for run in runs))
        for run in runs:
            attempted.add(run)
            bar.stage("gold", run.described)
            executed = execute_assets(lake, instance, run.keys, run.tags)
            done = {key.path[-1]: metadata for key, metadata in _materialized(executed)}
            result.marts |= done
            for mart in run.marts:
                bar.done("gold")
                if mart not in done:
                    result.failed[f"gold.{mart}"] = failure_of(executed) or "its run ended without it"


def blocked(lake: Lake, instance: dg.DagsterInstance, mart: Mart) -> str | None:
    """Why the mart is not computed: a blocking check of a table that it reads fails. None if it may be computed."""
    failed, read = failed_inputs(instance, mart), silver_keys(mart)
    inputs = [target for target in lake.targets if dg.AssetKey(target.asset_key) in read]
    # The runs of a command evaluate only the checks of batches, and perhaps no schedule runs.
    failed += failed_when_evaluated(lake.runtime, instance, lake.checks, inputs)
    failed += failed_in_dagster(lake.runtime, instance, inputs)
    return f"{mart.identifier} waits for {', '.join(failed)}" if failed else None


def execute_assets(
    lake: Lake,
    instance: dg.DagsterInstance,
    keys: Sequence[dg.AssetKey],
    tags: dict[str, str],
    apply: Apply = apply_tables,
) -> dg.ExecuteInProcessResult:
    """Runs assets in this process."""
    job = build_definitions(lake, apply, checks=False).resolve_implicit_global_asset_job_def()
    return job.execute_in_process(
        instance=instance,
        asset_selection=list(keys),
        tags={**own_tag(lake.config), **tags},
        run_config=QUIET,
        raise_on_error=False,
    )


def _materialized(run: dg.ExecuteInProcessResult) -> list[tuple[dg.AssetKey, dict[str, Any]]]:
    return [
        (event.asset_key, figures_of(event.materialization.metadata))
        for event in run.get_asset_materialization_events()
        if event.asset_key is not None
    ]


def failure_of(run: dg.ExecuteInProcessResult) -> str | None:
    """The innermost cause of the first failed step, in one line."""
    for event in run.all_events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            while error is not None and error.cause is not None:
                error = error.cause
            described = event.step_failure_data.user_failure_data
            if described is not None and described.description:
                return described.description.strip()
            if error is None:
                return None
            logger.debug("a step failed:\n%s", error.to_string())
            return root_cause_in(error.message) or error.message.strip().partition("\n")[0]
    return None

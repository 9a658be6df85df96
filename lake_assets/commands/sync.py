"""`lake-assets sync`: list, apply, compute the marts. The main job, without a UI.

It runs the very assets that the UI shows, in this process, and reports to the same Dagster instance. Here: the order of
the work and its result. Not here: printing (`cli.py`), the progress bar's looks (`progress.py`).
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from lake_assets.bronze.arrivals import doubtful_sentence, log_arrivals
from lake_assets.bronze.assets import landed_events
from lake_assets.bronze.keys import FileKind
from lake_assets.bronze.object_store import StoreError
from lake_assets.bronze.stored_object import NotLogged
from lake_assets.build import Lake, build_definitions
from lake_assets.checks.silver_checks import APPLIED
from lake_assets.gold.assets import failed_inputs
from lake_assets.gold.work import MartRun, mart_work
from lake_assets.silver.assets import batch_keys
from lake_assets.silver.pending import TableState, table_states
from lake_assets.silver.plan import Batch, Waiting
from lake_assets.silver.targets import Target
from lake_assets.spark.causes import root_cause_in
from lake_assets.words import does, many

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
ROUNDS = 3
"""Marts are planned again after they ran; more rounds than this only happen while others apply files meanwhile."""

logger = logging.getLogger(__name__)


class Progress:
    """Told what happens as it happens; this one keeps quiet."""

    def begin(self, task: str, steps: int) -> None: ...

    def stage(self, task: str, stage: str) -> None: ...

    def done(self, task: str) -> None: ...


@dataclass(slots=True)
class SyncResult:
    """What one call did."""

    files: dict[str, int] = field(default_factory=dict)
    """New files per source."""
    file_rows: dict[str, int] = field(default_factory=dict)
    unlisted: dict[str, str] = field(default_factory=dict)
    """Sources whose location could not be listed, and why."""
    applied: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Materialization metadata per silver table that got rows."""
    failed: dict[str, str] = field(default_factory=dict)
    """Tables and marts that failed, and why."""
    waiting: dict[str, str] = field(default_factory=dict)
    """Tables and marts that cannot go on yet, and why."""
    set_aside: list[str] = field(default_factory=list)
    """A sentence for each silver table of which the call has set something aside."""
    notes: list[str] = field(default_factory=list)
    """What lake.yaml says and another command does."""
    marts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Metadata per mart that was computed."""
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def nothing_pending(self) -> bool:
        return not (self.applied or self.failed or self.marts or self.unlisted)

    @property
    def exit_code(self) -> int:
        return 1 if self.failed or self.unlisted else 0


def sync(
    lake: Lake,
    instance: dg.DagsterInstance,
    *,
    source: str | None = None,
    table: str | None = None,
    gold: bool = True,
    progress: Progress | None = None,
) -> SyncResult:
    """Applies everything that is pending. A failing table is in the result; the others are applied.

    `table` is a name that `Target.is_called` knows; with it or `source`, only those are applied.
    """
    result, bar = SyncResult(), progress or Progress()
    targets = [
        target
        for target in lake.targets
        if source in (None, target.source) and (table is None or target.is_called(table))
    ]
    start = time.perf_counter()
    bar.begin("bronze", len({t.source for t in targets}))
    for name in sorted({target.source for target in targets}):
        _list_files(lake, instance, name, result)
        bar.done("bronze")
    result.seconds["bronze"] = time.perf_counter() - start
    start = time.perf_counter()
    _apply(lake, instance, [t for t in targets if t.source not in result.unlisted], result, bar)
    result.seconds["silver"] = time.perf_counter() - start
    if gold:
        start = time.perf_counter()
        _compute_marts(lake, instance, result, bar)
        result.seconds["gold"] = time.perf_counter() - start
    return result


def _list_files(lake: Lake, instance: dg.DagsterInstance, source: str, result: SyncResult) -> None:
    try:
        found = log_arrivals(lake.runtime, source)
    except NotLogged as error:
        # What is logged already can be applied all the same.
        result.failed[source] = str(error)
        return
    except StoreError as error:
        result.unlisted[source] = str(error)
        return
    if found.listed == found.ignored and not lake.runtime.file_log.newest(source):
        result.waiting[source] = (
            f"no DMS file in {lake.config.sources[source].location} yet: start the DMS task, or correct the source's "
            "location in lake.yaml"
        )
    for table, doubt in found.doubtful.items():
        result.waiting[f"{source} {table}"] = doubtful_sentence(table, doubt)
    result.files[source] = len({file.key for file in found.logged if file.kind is not FileKind.VANISHED})
    result.file_rows[source] = sum(file.rows or 0 for file in found.logged)
    for event in landed_events(lake.config, source, found.logged):
        instance.report_runless_asset_event(event)


def _apply(
    lake: Lake, instance: dg.DagsterInstance, targets: Sequence[Target], result: SyncResult, bar: Progress
) -> None:
    states = table_states(lake.runtime, targets, datetime.now(UTC))
    ready = [state.target for state in states if isinstance(state.next_batch, Batch)]
    result.notes = [state.note for state in states if state.note is not None]
    result.waiting |= {
        state.target.identifier: reason
        for state in states
        if state.target.source not in result.waiting and (reason := why_waiting(lake, state))
    }
    if not ready:
        return
    bar.begin("silver", len(ready))

    def told(target: Target, stage: str) -> None:
        if stage == "done":
            bar.done("silver")
        else:
            bar.stage("silver", f"{target.name}: {stage}")

    keys = [dg.AssetKey(target.asset_key) for target in ready] + sorted(
        key for name in lake.config.sources for key in batch_keys(name, lake.targets, ready)
    )
    run = _execute(lake, instance, keys, {}, told)
    by_key = {dg.AssetKey(target.asset_key): target.identifier for target in ready}
    for key, metadata in _materialized(run):
        if key in by_key:
            result.applied[by_key[key]] = metadata
    by_name = {target.identifier: target for target in ready}
    for name, metadata in sorted(result.applied.items()):
        rows, files = metadata["rows_quarantined"], metadata["files_quarantined"]
        if sentence := set_aside_sentence(name, by_name[name].table, rows, files):
            result.set_aside.append(sentence)
    told_tables = set()
    for evaluation in run.get_asset_check_evaluations():
        if evaluation.check_name == APPLIED and evaluation.asset_key in by_key:
            told_tables.add(evaluation.asset_key)
            if not evaluation.passed:
                result.failed[by_key[evaluation.asset_key]] = str(evaluation.metadata["error"].value)
    for key in set(by_key) - told_tables:
        result.failed[by_key[key]] = _failure(run) or "its run ended before the table had its turn"


def set_aside_sentence(silver_table: str, table: str, rows: int, files: int) -> str | None:
    """What a user hears of rows and whole files that are not in a table; `table` is `schema.table`."""
    counts = ((rows, "row"), (files, "file"))
    what = " and ".join(many(number, noun) for number, noun in counts if number)
    if not what:
        return None
    return (
        f"{silver_table}: {what} {does(rows + files, 'are')} set aside; to see which: "
        f"lake-assets quarantine list --table {table}"
    )


def why_waiting(lake: Lake, state: TableState) -> str | None:
    """Why a table with no batch is not applied; None when it is up to date or has a batch."""
    if isinstance(state.next_batch, Waiting):
        return state.next_batch.reason
    if not state.logged:
        location = lake.config.sources[state.target.source].location.rstrip("/")
        folder = state.target.table.replace(".", "/")
        nor = (
            f", nor a row of it under {location}/{cdc_path}/" if (cdc_path := _cdc_path(lake, state)) else ""
        )
        return (
            f"no DMS files under {location}/{folder}/ yet{nor}; if DMS has written some, compare that folder with the "
            "table's name in lake.yaml"
        )
    return None


def _cdc_path(lake: Lake, state: TableState) -> str | None:
    dms = lake.config.sources[state.target.source].dms
    return (dms.cdc_path or "").strip("/") if dms.preserve_transactions else None


def _compute_marts(lake: Lake, instance: dg.DagsterInstance, result: SyncResult, bar: Progress) -> None:
    attempted: set[MartRun] = set()
    for _ in range(ROUNDS):
        work = mart_work(lake.runtime, lake.marts, lambda mart: _blocked(instance, mart))
        runs = [run for run in work.runs if run not in attempted]
        for reason in work.reasons:
            result.waiting[reason.split(" ")[0]] = reason
        if work.unpartitioned_days:
            first, last = work.unpartitioned_days[0], work.unpartitioned_days[-1]
            result.waiting["gold.start_date"] = (
                f"days from {first} to {last} changed but have no partition: move gold.start_date in lake.yaml"
            )
        if not runs:
            return
        bar.begin("gold", sum(len(run.marts) for run in runs))
        for run in runs:
            attempted.add(run)
            bar.stage("gold", ", ".join(run.marts))
            executed = _execute(lake, instance, run.keys, run.tags)
            done = {key.path[-1]: metadata for key, metadata in _materialized(executed)}
            result.marts |= done
            for mart in run.marts:
                bar.done("gold")
                if mart not in done:
                    result.failed[f"gold.{mart}"] = _failure(executed) or "its run ended without it"


def _blocked(instance: dg.DagsterInstance, mart: Any) -> str | None:
    failed = failed_inputs(instance, mart)
    return f"{mart.identifier} waits for {', '.join(failed)}" if failed else None


def _execute(
    lake: Lake,
    instance: dg.DagsterInstance,
    keys: Sequence[dg.AssetKey],
    tags: dict[str, str],
    told: Callable[[Target, str], None] = lambda target, stage: None,
) -> dg.ExecuteInProcessResult:
    job = build_definitions(lake, told).resolve_implicit_global_asset_job_def()
    return job.execute_in_process(
        instance=instance, asset_selection=list(keys), tags=tags, run_config=QUIET, raise_on_error=False
    )


def _materialized(run: dg.ExecuteInProcessResult) -> list[tuple[dg.AssetKey, dict[str, Any]]]:
    return [
        (event.asset_key, {key: value.value for key, value in event.materialization.metadata.items()})
        for event in run.get_asset_materialization_events()
        if event.asset_key is not None
    ]


def _failure(run: dg.ExecuteInProcessResult) -> str | None:
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

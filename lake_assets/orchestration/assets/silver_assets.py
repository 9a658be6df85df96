"""Silver in Dagster: the tables of a source as one multi_asset, in chunks.

Here: specs, and the events of a step that applies many tables side by side. Not here: applying
(`silver/apply/engine.py`).

One step applies many tables, because they share one Spark session and one process start. A failing table must not stop
the others, and an error that the step raises would stop every table's marts. So the step yields no output for the
failing table and logs its failed blocking check. A check of the batch asset then fails the run.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from lake_assets.checks.live_rows import counted_rows
from lake_assets.config import Mode
from lake_assets.config.secrets import hidden_in
from lake_assets.iceberg.table_io import load_table
from lake_assets.orchestration.assets.batch_check import FAILED_TABLES, batch_check
from lake_assets.orchestration.assets.silver_report import inconsistencies, state_metadata, turn_events
from lake_assets.orchestration.assets.versions import silver_version
from lake_assets.orchestration.checks.check_history import latest_evaluation, newest_runs
from lake_assets.orchestration.checks.freshness_check import freshness
from lake_assets.orchestration.checks.silver_checks import (
    APPLIED,
    ROW_COUNT,
    check_specs,
    freshness_evaluation,
    known_rows_evaluation,
    live_row_count_evaluation,
    quarantine_evaluation,
    state_evaluation,
)
from lake_assets.orchestration.checks.stray_check import strays_check
from lake_assets.orchestration.checks.stream_check import stream_check
from lake_assets.orchestration.dagster_private import of_newest_materialization
from lake_assets.orchestration.io_managers.iceberg_io_manager import IO_MANAGER_KEY
from lake_assets.orchestration.shared.asset_keys import bronze_key, without_prefix
from lake_assets.orchestration.shared.asset_metadata import same_columns, table_metadata
from lake_assets.orchestration.shared.heartbeat import Heartbeat
from lake_assets.orchestration.shared.run_tags import SCOPE
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply.engine import Apply, apply_tables
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.plan.table_state import TableState, table_states
from lake_assets.silver.table.targets import Target
from lake_assets.spark.causes import full_traceback

CHUNK = 50
"""Dagster's step execution is superlinear in the specs of a multi_asset: 1,000 in one took 111 s, in fifties 19.6 s."""
NOT_YIELDED = "did not yield or return expected outputs"
"""Dagster's warning about checks that a step has not yielded."""
SHAPES = {
    Mode.CURRENT: "equal to the source table",
    Mode.SOFT_DELETE: "every key that ever lived, deleted ones marked",
    Mode.HISTORY: "every version of every row, with the time it was valid",
    Mode.FULL_ROW: "equal to the source table, rows matched by all columns",
    Mode.APPEND_LOG: "every inserted row",
    Mode.CHANGE_LOG: "every change with operation, commit time and sequence",
}


def silver_assets(
    runtime: LakeRuntime, targets: Sequence[Target], apply: Apply = apply_tables
) -> list[dg.AssetsDefinition | dg.AssetChecksDefinition]:
    """The silver assets of all sources, with their checks. `apply`: what applies tables and yields their results."""
    found: list[dg.AssetsDefinition | dg.AssetChecksDefinition] = []
    for source in runtime.lake.sources:
        own = [target for target in targets if target.source == source]
        for number, start in enumerate(range(0, len(own), CHUNK), start=1):
            chunk = own[start : start + CHUNK]
            batch = batch_key(runtime.lake.key_prefix, source, number)
            applied = {
                target.identifier: dg.AssetCheckKey(dg.AssetKey(target.asset_key), APPLIED)
                for target in chunk
            }
            found.append(_chunk_asset(runtime, source, number, chunk, batch, apply))
            found.append(batch_check(batch, applied))
            if number == 1:
                found.append(strays_check(runtime, source, batch))
                if runtime.lake.sources[source].stream is not None:
                    found.append(stream_check(runtime, source, batch))
    return found


def batch_key(prefix: Sequence[str], source: str, chunk: int) -> dg.AssetKey:
    """The asset of a chunk as a whole: its materialization reports which tables failed. `prefix`: of the lake's
    keys."""
    return dg.AssetKey([*prefix, "lake_ops", f"{source}_batch" if chunk == 1 else f"{source}_batch_{chunk}"])


def batch_keys(source: str, targets: Sequence[Target], selected: Sequence[Target]) -> set[dg.AssetKey]:
    """The batch assets of the chunks that the selected targets are in."""
    batches = _batches(targets)
    return {batches[target.identifier] for target in selected if target.source == source}


def batches_of(targets: Sequence[Target]) -> dict[dg.AssetKey, list[Target]]:
    """All tables by the batch asset of their chunk."""
    found: dict[dg.AssetKey, list[Target]] = {}
    batches = _batches(targets)
    for target in targets:
        found.setdefault(batches[target.identifier], []).append(target)
    return found


def _batches(targets: Sequence[Target]) -> dict[str, dg.AssetKey]:
    """By silver table, the batch asset of its chunk; `targets` are all tables."""
    before, found = Counter[str](), {}
    for target in targets:
        number = before[target.source] // CHUNK + 1
        found[target.identifier] = batch_key(target.key_prefix, target.source, number)
        before[target.source] += 1
    return found


def _chunk_asset(
    runtime: LakeRuntime,
    source: str,
    number: int,
    targets: Sequence[Target],
    batch: dg.AssetKey,
    apply: Apply,
) -> dg.AssetsDefinition:
    by_key = {dg.AssetKey(target.asset_key): target for target in targets}
    specs = [_spec(runtime, target) for target in targets]
    batch_spec = dg.AssetSpec(
        batch,
        description=f"One round of the tables of {source}. Its check fails if a table failed; the others are applied.",
        group_name="lake_ops",
        kinds={"iceberg"},
        skippable=True,
    )

    @dg.multi_asset(
        name=f"silver_{source}" if number == 1 else f"silver_{source}_{number}",
        specs=[*specs, batch_spec],
        check_specs=[check for target in targets for check in check_specs(target)],
        can_subset=True,
    )
    def silver(context: dg.AssetExecutionContext) -> Iterator[Any]:
        # The results are logged, and Dagster recognizes only yielded ones.
        context.log.addFilter(lambda record: NOT_YIELDED not in record.getMessage())
        selected = [by_key[key] for key in sorted(context.selected_asset_keys) if key in by_key]
        failed: dict[str, str] = {}
        runtime.run_id = context.run.run_id
        with Heartbeat(context.instance, context.run.run_id):
            as_of = _run_start(context) if runtime.lake.sources[source].consistent_cut is not None else None
            for result in apply(runtime, selected, as_of=as_of):
                yield from _events(context, runtime, result)
                if result.error is not None:
                    failed[result.target.identifier] = str(result.error)
        if batch in context.selected_asset_keys:
            yield dg.MaterializeResult(batch, metadata={FAILED_TABLES: failed, "tables": len(selected)})
        elif failed:
            raise dg.Failure("\n".join(failed.values()))
        _evaluate_checks_only(context, runtime, by_key)

    return silver


def _run_start(context: dg.AssetExecutionContext) -> datetime | None:
    began = context.instance.get_run_stats(context.run.run_id).start_time
    return datetime.fromtimestamp(began, UTC) if began is not None else None


def _spec(runtime: LakeRuntime, target: Target) -> dg.AssetSpec:
    source = runtime.lake.sources[target.source]
    config, landed = target.config, bronze_key(runtime.lake, target.source, target.table)
    return dg.AssetSpec(
        key=dg.AssetKey(target.asset_key),
        deps=[landed],
        description=f"{config.description or target.table}: {SHAPES[target.mode]}.",
        group_name="silver",
        kinds={"iceberg", "pyspark"},
        owners=list(config.owners or source.owners),
        tags={"layer": "silver", "source": target.source, "mode": str(target.mode), **config.tags},
        metadata=table_metadata(runtime.lake, target.identifier, target.columns, target.comments, config.mask)
        | {
            "dagster/column_lineage": same_columns(landed, config.columns),
            "primary_key": ", ".join(target.key) or "none",
            "partition_by": ", ".join(target.partition_by) or "none",
        },
        skippable=True,
    ).with_io_manager_key(IO_MANAGER_KEY)


def _events(context: dg.AssetExecutionContext, runtime: LakeRuntime, result: TableResult) -> Iterator[Any]:
    name = result.target.identifier
    for sentence in inconsistencies(result):
        context.log.warning("%s: %s", name, sentence)
    if result.error is not None:
        context.log.error("%s failed: %s", name, result.error)
        if (cause := result.error.__cause__) is not None:
            context.log.debug(hidden_in(runtime.lake, full_traceback(cause)))
    elif not result.batches:
        context.log.info("%s: %s", name, result.waiting or "nothing pending")
    evaluations = []
    for event in turn_events(runtime, result, datetime.now(UTC)):
        if isinstance(event, dg.AssetMaterialization) and result.error is None:
            yield dg.MaterializeResult(
                event.asset_key, metadata=event.metadata, data_version=silver_version(result.position)
            )
        elif isinstance(event, dg.AssetCheckEvaluation):
            evaluations.append(event)
        else:
            context.log_event(event)
    _log_checks(context, evaluations, applied=bool(result.batches))
    up_to_date = not result.batches and result.error is None and result.position.snapshot_id is not None
    if up_to_date and _is_wanted_below(context, runtime.lake.key_prefix):
        # Dagster skips a step of the run that needs a table for which nothing is yielded.
        metadata = {"files": 0, **state_metadata(result.position)}
        version = silver_version(result.position)
        key = dg.AssetKey(result.target.asset_key)
        yield dg.MaterializeResult(key, metadata=metadata, data_version=version)


def _log_checks(
    context: dg.AssetExecutionContext, evaluations: Sequence[dg.AssetCheckEvaluation], *, applied: bool
) -> None:
    """Logs the evaluations: a failed blocking check that is yielded would stop the whole step. The materialization of a
    table that failed after a batch is logged for a similar reason: if it were yielded, marts would be computed from the
    table. `applied`: whether this run has applied a batch of their table."""
    own = context.run.run_id
    newest = newest_runs(context.instance, [evaluation.asset_check_key for evaluation in evaluations])
    for evaluation in evaluations:
        run_id = newest.get(evaluation.asset_check_key, own)
        if not applied or run_id != own:
            evaluation = of_newest_materialization(context.instance, evaluation) or evaluation
        context.log_event(evaluation)
        if run_id != own:
            # Another run has evaluated the check since this run began, and Dagster would go on showing that evaluation.
            context.instance.report_runless_asset_event(evaluation)


def _is_wanted_below(context: dg.AssetExecutionContext, prefix: Sequence[str]) -> bool:
    """Whether a user has started the run for other assets, too. They are to be computed even if nothing is pending."""
    selected = context.run.asset_selection
    if SCOPE in context.run.tags:
        return False
    return selected is None or any(
        without_prefix(key, prefix)[0] not in ("silver", "lake_ops") for key in selected
    )


def _evaluate_checks_only(
    context: dg.AssetExecutionContext, runtime: LakeRuntime, by_key: Mapping[dg.AssetKey, Target]
) -> None:
    """Evaluates checks that a user executes without their table: reads the table's state and applies nothing."""
    wanted = {
        key for key in context.selected_asset_check_keys if key.asset_key not in context.selected_asset_keys
    }
    targets = [by_key[key] for key in sorted({check.asset_key for check in wanted})]
    now = datetime.now(UTC)
    for state in table_states(runtime, targets, now) if targets else ():
        evaluations = _state_evaluations(context.instance, runtime, state, now)
        chosen = [found for found in evaluations if found.asset_check_key in wanted]
        _log_checks(context, chosen, applied=False)


def _state_evaluations(
    instance: dg.DagsterInstance, runtime: LakeRuntime, state: TableState, now: datetime
) -> Iterator[dg.AssetCheckEvaluation]:
    target = state.target
    applied, row_count = (
        latest_evaluation(instance, dg.AssetCheckKey(dg.AssetKey(target.asset_key), name))
        for name in (APPLIED, ROW_COUNT)
    )
    yield state_evaluation(state, applied)
    rows = counted_rows(load_table(runtime.catalog, target.identifier))
    yield live_row_count_evaluation(state, rows, row_count)
    yield quarantine_evaluation(target, runtime.quarantine.open(target.identifier))
    yield known_rows_evaluation(target, state.position)
    if state.error is None:
        yield freshness_evaluation(freshness(target, state.position, state.logged, now))

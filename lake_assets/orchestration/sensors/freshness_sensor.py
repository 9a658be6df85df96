"""The sensor for freshness: the one check that must be evaluated when nothing runs.

Checks are evaluated when a table is applied. So once a minute the sensor computes the freshness of every table and the
other checks that read no rows, and reports those whose outcome changed and those whose last evaluation is old. It also
reports the commits that Dagster has no event of (`orchestration/runs/missed_positions.py`, `missed_marts.py`).
"""

import time
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime

import dagster as dg

from lake_assets.checks.data_check import DataCheck
from lake_assets.gold.mart import Mart
from lake_assets.orchestration.assets.batch_check import recovered_batch_check
from lake_assets.orchestration.assets.silver_assets import batch_key, batches_of
from lake_assets.orchestration.checks.check_history import latest_evaluation
from lake_assets.orchestration.checks.data_checks import evaluation_of
from lake_assets.orchestration.checks.freshness_check import freshness
from lake_assets.orchestration.checks.silver_checks import APPLIED, freshness_evaluation
from lake_assets.orchestration.checks.stray_check import strays_evaluation
from lake_assets.orchestration.checks.stream_check import stream_evaluation
from lake_assets.orchestration.dagster_private import of_newest_materialization
from lake_assets.orchestration.runs.continuous_job import REPORT_SECONDS, alive_runs
from lake_assets.orchestration.runs.missed_marts import UnreportedMarts
from lake_assets.orchestration.runs.missed_positions import UnreportedPositions
from lake_assets.orchestration.shared.asset_keys import prefixed
from lake_assets.orchestration.shared.equal_keys import refuse_equal_keys
from lake_assets.orchestration.shared.first_periods import FirstPeriods
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.plan.table_state import TableState, table_states
from lake_assets.silver.table.targets import Target
from lake_assets.words import many

REPEAT_SECONDS = 3600
REPEAT_AFTER_ROWS = 600
"""Seconds. Dagster keeps events that are reported outside of runs for ever."""
REPORT_GRACE_SECONDS = 2 * REPORT_SECONDS + 300.0
"""How long a continuous run has to report a position."""


def freshness_sensor(
    runtime: LakeRuntime,
    targets: Sequence[Target],
    marts: Sequence[Mart],
    first: FirstPeriods,
    checks: Sequence[DataCheck] = (),
) -> dg.SensorDefinition:
    """The sensor of all tables; running by default. It evaluates the checks that read no rows and have no schedule.
    `first`: where the partitions of its definitions begin."""
    cheap = [check for check in checks if not check.needs_rows and check.schedule is None]
    unreported, unreported_marts = UnreportedPositions(runtime), UnreportedMarts(runtime, marts, first)
    sources, batches = sorted({target.source for target in targets}), batches_of(targets)

    @dg.sensor(
        name=prefixed(runtime.lake, "freshness"),
        target=dg.AssetSelection.assets(*(dg.AssetKey(target.asset_key) for target in targets)),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Evaluates the freshness check of every table, also while nothing runs.",
    )
    def table_freshness(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        refuse_equal_keys(context, runtime.lake)
        read_at = time.time()
        states = table_states(runtime, targets, datetime.now(UTC))
        grace = {
            source: REPORT_GRACE_SECONDS
            for source in sources
            if alive_runs(context.instance, runtime, [source])
        }
        for event in unreported.events(context.instance, states, read_at, grace):
            context.instance.report_runless_asset_event(event)
        for batch, of_batch in batches.items():
            applied = [dg.AssetCheckKey(dg.AssetKey(target.asset_key), APPLIED) for target in of_batch]
            over = recovered_batch_check(context.instance, batch, applied)
            if over is not None:
                context.instance.report_runless_asset_event(over)
        for source in sources:
            strays = strays_evaluation(
                context.instance, runtime, source, batch_key(runtime.lake.key_prefix, source, 1)
            )
            if strays is not None:
                context.instance.report_runless_asset_event(strays)
        others = (evaluation_of(runtime, context.instance, check) for check in cheap)
        evaluations = [*changed_evaluations(context.instance, states), *news(context.instance, others)]
        for evaluation in evaluations:
            context.instance.report_runless_asset_event(evaluation)
        # Late, because they name the versions in silver's events, and because a table that cannot be read then delays
        # no check.
        for found in unreported_marts.events(context.instance, grace):
            context.instance.report_runless_asset_event(found)
        # Last, because a stream that does not answer takes longer than everything else.
        for source in sources:
            if runtime.lake.sources[source].stream is not None:
                lag = stream_evaluation(runtime, source, batch_key(runtime.lake.key_prefix, source, 1))
                for evaluation in news(context.instance, [lag]):
                    context.instance.report_runless_asset_event(evaluation)
        return dg.SkipReason(f"{len(evaluations)} of {many(len(targets) + len(cheap), 'check')} evaluated")

    return table_freshness


def changed_evaluations(
    instance: dg.DagsterInstance, states: Sequence[TableState]
) -> list[dg.AssetCheckEvaluation]:
    """Evaluations whose outcome differs from the newest one, or whose newest one is old."""
    now = datetime.now(UTC)
    return news(
        instance,
        (
            freshness_evaluation(freshness(state.target, state.position, state.logged, now))
            for state in states
            # `applied` reports the error; the pending files are unknown.
            if state.error is None
        ),
    )


def news(
    instance: dg.DagsterInstance, evaluations: Iterable[dg.AssetCheckEvaluation]
) -> list[dg.AssetCheckEvaluation]:
    """The evaluations whose outcome differs from the newest one of their check, or whose newest one is old: of an hour
    ago, or of REPEAT_AFTER_ROWS ago and of former rows, as those of a mart that the continuous run refreshes. The UI
    would show that check as not executed, with the tick of those that passed."""
    given, now = list(evaluations), time.time()
    materialized = newest_materializations(instance, {evaluation.asset_key for evaluation in given})
    found = []
    for evaluation in given:
        last = latest_evaluation(instance, evaluation.asset_check_key)
        repeated = min(now - REPEAT_AFTER_ROWS, materialized.get(evaluation.asset_key, 0.0))
        if last is None or last.passed != evaluation.passed or last.at < max(repeated, now - REPEAT_SECONDS):
            found.append(of_newest_materialization(instance, evaluation) or evaluation)
    return found


def newest_materializations(
    instance: dg.DagsterInstance, keys: Collection[dg.AssetKey]
) -> dict[dg.AssetKey, float]:
    """By asset that has been materialized, when it last was, in seconds since the epoch."""
    entries = [record.asset_entry for record in instance.get_asset_records([*keys])] if keys else []
    return {
        entry.asset_key: entry.last_materialization.timestamp
        for entry in entries
        if entry.last_materialization is not None
    }

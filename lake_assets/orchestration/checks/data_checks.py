"""The checks that are evaluated on a schedule or by hand, in Dagster: definitions, schedules, evaluations.

Here: one step evaluates the checks of many tables, because they share one Spark. Not here: the rules (`checks/`), the
checks of a batch (`silver_checks.py`), what a blocking check holds (`blocking_checks.py`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from lake_assets.checks.data_check import VALUE, DataCheck, Outcome
from lake_assets.config import LakeConfig
from lake_assets.orchestration.checks.check_history import SNAPSHOTS, STATE, earlier_values
from lake_assets.orchestration.shared.asset_keys import prefixed
from lake_assets.orchestration.shared.heartbeat import Heartbeat
from lake_assets.orchestration.shared.run_tags import own_tag
from lake_assets.runtime import LakeRuntime

ON_SCHEDULE = "lake/on_schedule"
"""Metadata of a check that the sensors' runs of its asset leave out: it reads rows, and would delay them, or it has a
schedule of its own."""
HISTORY = 14
"""The number of earlier values that a check with `drift` compares with."""
CHUNK = 100
"""The most checks of one step."""


def data_checks(runtime: LakeRuntime, checks: Sequence[DataCheck]) -> list[dg.AssetChecksDefinition]:
    """The checks of the layers, each executable by itself."""
    found = []
    depth = len(runtime.lake.key_prefix)
    for layer in sorted({check.asset_key[depth] for check in checks}):
        of_layer = [check for check in checks if check.asset_key[depth] == layer]
        for number, start in enumerate(range(0, len(of_layer), CHUNK), start=1):
            name = f"checks_of_{layer}" + (f"_{number}" if number > 1 else "")
            found.append(_step(runtime, name, of_layer[start : start + CHUNK]))
    return found


def _step(runtime: LakeRuntime, name: str, checks: Sequence[DataCheck]) -> dg.AssetChecksDefinition:
    by_key = {check_key(check): check for check in checks}

    @dg.multi_asset_check(name=name, specs=[_spec(check) for check in checks], can_subset=True)
    def evaluate(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        with Heartbeat(context.instance, context.run.run_id):
            for key in sorted(context.selected_asset_check_keys):
                outcome = _outcome(runtime, context.instance, by_key[key])
                yield dg.AssetCheckResult(
                    asset_key=key.asset_key,
                    check_name=key.name,
                    passed=outcome.passed,
                    description=outcome.state,
                    severity=_severity(by_key[key], outcome),
                    metadata=_metadata(outcome),
                )

    return evaluate


def check_schedules(lake: LakeConfig, checks: Sequence[DataCheck]) -> list[dg.ScheduleDefinition]:
    """One schedule for each cron among the checks; running by default."""
    found = []
    for number, cron in enumerate(sorted({check.schedule for check in checks if check.schedule}), start=1):
        name = prefixed(lake, "checks" if number == 1 else f"checks_{number}")
        keys = [check_key(check) for check in checks if check.schedule == cron]
        job = dg.define_asset_job(name, selection=dg.AssetSelection.checks(*keys))
        found.append(
            dg.ScheduleDefinition(
                name=name,
                job=job,
                tags=own_tag(lake),
                cron_schedule=cron,
                execution_timezone="UTC",
                default_status=dg.DefaultScheduleStatus.RUNNING,
                description=f"Evaluates {len(keys)} of the lake's checks.",
            )
        )
    return found


def checks_of_run(
    repository: dg.RepositoryDefinition | None, assets: Sequence[dg.AssetKey]
) -> list[dg.AssetCheckKey] | None:
    """The checks that a sensor's run of the assets evaluates: those of batches, and the user's. None stands for all."""
    if repository is None:
        return None
    graph, wanted = repository.asset_graph, set(assets)
    return sorted(
        key
        for key in graph.asset_check_keys
        if key.asset_key in wanted and ON_SCHEDULE not in graph.get_check_spec(key).metadata
    )


def evaluation_of(
    runtime: LakeRuntime, instance: dg.DagsterInstance, check: DataCheck, snapshots: str | None = None
) -> dg.AssetCheckEvaluation:
    """An evaluation outside of a run. `snapshots`: what its tables were before it."""
    outcome = _outcome(runtime, instance, check)
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(check.asset_key),
        check_name=check.name,
        passed=outcome.passed,
        description=outcome.state,
        severity=_severity(check, outcome),
        blocking=check.settings.blocking,
        metadata=_metadata(outcome) | ({} if snapshots is None else {SNAPSHOTS: snapshots}),
    )


def check_key(check: DataCheck) -> dg.AssetCheckKey:
    """The check's key in Dagster."""
    return dg.AssetCheckKey(dg.AssetKey(check.asset_key), check.name)


def _spec(check: DataCheck) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        check.name,
        asset=dg.AssetKey(check.asset_key),
        description=check.description,
        blocking=check.settings.blocking,
        metadata={ON_SCHEDULE: check.schedule or "never"} if check.needs_rows or check.schedule else {},
    )


def _outcome(runtime: LakeRuntime, instance: dg.DagsterInstance, check: DataCheck) -> Outcome:
    compares = check.settings.drift is not None
    earlier = earlier_values(instance, check_key(check), VALUE, HISTORY) if compares else ()
    return check.evaluate(runtime, earlier)


def _severity(check: DataCheck, outcome: Outcome) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.WARN if check.warns or outcome.warns else dg.AssetCheckSeverity.ERROR


def _metadata(outcome: Outcome) -> dict[str, Any]:
    texts = {name: value for name, value in outcome.figures.items() if isinstance(value, str)}
    others = {name: value for name, value in outcome.figures.items() if not isinstance(value, str)}
    return {
        STATE: outcome.state,
        **others,
        **{name: dg.MetadataValue.text(text) for name, text in texts.items()},
    }

"""The blocking checks that hold a mart: those of the silver tables that it reads, and of these tables' bronze.

Here: which of them fail. Not here: what a held mart means in each kind of run (the callers). No mart reads a mart, so a
blocking check of a mart holds no mart. Dagster holds the user's assets that read it.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg

from lake_assets.checks.data_check import DataCheck
from lake_assets.gold.mart import Mart
from lake_assets.iceberg.table_io import current_snapshot, load_table
from lake_assets.orchestration.checks.check_history import CheckExecution, latest_evaluations
from lake_assets.orchestration.checks.data_checks import check_key, evaluation_of
from lake_assets.orchestration.checks.silver_checks import BLOCKING
from lake_assets.orchestration.dagster_private import evaluated_checks
from lake_assets.orchestration.shared.asset_keys import bronze_key
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.targets import Target


def silver_keys(mart: Mart) -> list[dg.AssetKey]:
    """The silver assets that a mart reads."""
    return sorted({dg.AssetKey(mart.silver_key(rule)) for rule in mart.rules})


def failed_inputs(
    instance: dg.DagsterInstance,
    mart: Mart,
    repository: dg.RepositoryDefinition | None = None,
    batch_checks: Sequence[str] = BLOCKING,
) -> list[str]:
    """The blocking checks of the mart's inputs that failed when last evaluated, as `asset: check`. `repository`: the
    definitions that the lake was merged with; their other checks count too, also when they could not be evaluated.
    `batch_checks`: which checks of a batch count. A turn that breaks off publishes nothing that has not passed them."""
    tables = silver_keys(mart)
    of_batch = [dg.AssetCheckKey(key, name) for key in tables for name in batch_checks]
    others = _other_blocking_checks(repository, tables)
    newest = latest_evaluations(instance, of_batch) | latest_evaluations(instance, others, broken_off=True)
    checks = of_batch + others
    return [_shown(check) for check in checks if check in newest and _blocks(newest[check])]


def failed_when_evaluated(
    runtime: LakeRuntime,
    instance: dg.DagsterInstance,
    checks: Sequence[DataCheck],
    inputs: Sequence[Target],
) -> list[str]:
    """The blocking checks of lake.yaml that fail for these silver tables or their bronze, as `asset: check`. Evaluates
    each check and reports the evaluation, unless the check has passed in a command with the tables as they are now. A
    check that reads no rows depends on the time, so it is always evaluated."""
    failed = []
    for check in checks:
        if not check.settings.blocking or check.warns:
            continue
        tables = [target for target in inputs if check.asset_key in _asset_keys(runtime, target)]
        if not tables:
            continue
        snapshots = _snapshots(runtime, tables)
        if check.needs_rows and _has_passed(instance, check, snapshots):
            continue
        evaluation = evaluation_of(runtime, instance, check, snapshots)
        instance.report_runless_asset_event(evaluation)
        if not evaluation.passed and evaluation.severity is dg.AssetCheckSeverity.ERROR:
            failed.append(_shown(check_key(check)))
    return failed


def failed_in_dagster(
    runtime: LakeRuntime, instance: dg.DagsterInstance, inputs: Sequence[Target]
) -> list[str]:
    """The user's blocking checks on these silver tables or their bronze that failed or could not be evaluated, by
    Dagster's history. A command does not know the definitions that the lake was merged with, so a check that was never
    evaluated does not count."""
    assets = {dg.AssetKey(key) for target in inputs for key in _asset_keys(runtime, target)}
    newest = latest_evaluations(instance, evaluated_checks(instance, sorted(assets)) or [], broken_off=True)
    return [
        f"{_shown(check)} (it failed in Dagster at {datetime.fromtimestamp(last.at, UTC):%Y-%m-%d %H:%M:%S} UTC: "
        "evaluate it there again)"
        for check, last in sorted(newest.items())
        if _blocks(last) and last.is_blocking and not last.is_own and check.name not in BLOCKING
    ]


def _asset_keys(runtime: LakeRuntime, target: Target) -> tuple[tuple[str, ...], ...]:
    """The keys of the silver table's asset and of the asset of its files."""
    landed = bronze_key(runtime.lake, target.source, target.table)
    return target.asset_key, tuple(landed.path)


def _snapshots(runtime: LakeRuntime, tables: Sequence[Target]) -> str:
    """The tables' current snapshots. Not their times: a commit is older than its publication."""
    heads = [current_snapshot(load_table(runtime.catalog, target.identifier)) for target in tables]
    return ", ".join(str(head and head.snapshot_id) for head in heads)


def _has_passed(instance: dg.DagsterInstance, check: DataCheck, snapshots: str) -> bool:
    last = latest_evaluations(instance, [check_key(check)], broken_off=True).get(check_key(check))
    return last is not None and last.passed is True and last.snapshots == snapshots


def _blocks(evaluation: CheckExecution) -> bool:
    return not evaluation.passed and not evaluation.is_warning


def _other_blocking_checks(
    repository: dg.RepositoryDefinition | None, tables: Sequence[dg.AssetKey]
) -> list[dg.AssetCheckKey]:
    """The blocking checks of lake.yaml and of the user on these silver tables and on the assets that they depend on."""
    if repository is None:
        return []
    graph = repository.asset_graph
    landed = {parent for key in tables if graph.has(key) for parent in graph.get(key).parent_keys}
    return sorted(
        check
        for check in graph.asset_check_keys
        if (check.asset_key in landed or (check.asset_key in tables and check.name not in BLOCKING))
        and graph.get_check_spec(check).blocking
    )


def _shown(check: dg.AssetCheckKey) -> str:
    return f"{check.asset_key.to_user_string()}: {check.name}"

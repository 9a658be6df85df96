"""Marts that are computed in the run that applies their tables.

Dagster needs seconds to start a run, and a mart that shows the present would wait for a second one. Here: which marts
such a run includes. Not here: daily marts, whose changed days are known only after silver is applied, and all other
stale marts, including one that failed in such a run (`orchestration/sensors/mart_sensor.py`).
"""

from collections.abc import Sequence

import dagster as dg

from lake_assets.gold.mart import Mart
from lake_assets.iceberg.table_io import current_snapshot, load_table
from lake_assets.orchestration.checks.blocking_checks import failed_inputs
from lake_assets.orchestration.runs.in_flight import assets_in_flight
from lake_assets.orchestration.runs.retry_wait import mart_retry_wait
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.targets import Target


def can_share_run(mart: Mart, source: str) -> bool:
    """Whether runs of the source can compute the mart. They cannot if it reads at the consistent cut, because the cut
    is known only after the run."""
    return keeps_up(mart, source) and not mart.at_cut


def keeps_up(mart: Mart, source: str) -> bool:
    """Whether the continuous run of the source refreshes the mart in each round."""
    return mart.partition_column is None and mart.with_silver and mart.sources == (source,)


def marts_to_include(
    instance: dg.DagsterInstance,
    runtime: LakeRuntime,
    source: str,
    marts: Sequence[Mart],
    ready: Sequence[Target],
    repository: dg.RepositoryDefinition | None,
) -> list[Mart]:
    """The marts that read a table of `ready` and can be computed in its run: no other run computes the mart, its inputs
    have rows and passed their checks, and it is not backing off."""
    if not runtime.lake.automation.marts_in_silver_runs:
        return []
    applied = {target.identifier for target in ready}
    wanted = [
        mart
        for mart in marts
        if can_share_run(mart, source) and applied & {rule.identifier for rule in mart.rules}
    ]
    if not wanted:
        return []
    under_way = assets_in_flight(instance, [dg.AssetKey(mart.asset_key) for mart in wanted])
    return [
        mart
        for mart in wanted
        if dg.AssetKey(mart.asset_key) not in under_way
        and all(_has_rows(runtime, rule.identifier) for rule in mart.rules)
        and not failed_inputs(instance, mart, repository)
        and not mart_retry_wait(instance, mart)
    ]


def _has_rows(runtime: LakeRuntime, identifier: str) -> bool:
    """Whether the table has a published snapshot. A first load may have to wait, and the mart's step would fail."""
    return current_snapshot(load_table(runtime.catalog, identifier)) is not None

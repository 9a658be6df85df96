"""Marts that are computed in the run that applies their tables.

A run costs Dagster seconds to start, and a mart that shows the present would wait for a second one. Here: which marts
go along. Not here: those with days, which nobody knows before silver is applied, and all that is left over, a mart that
failed in such a run among them (`orchestration/sensors/mart_sensor.py`).
"""

from collections.abc import Sequence

import dagster as dg

from lake_assets.gold.mart import Mart
from lake_assets.iceberg.table_io import current_snapshot, load_table
from lake_assets.orchestration.assets.mart_assets import failed_inputs
from lake_assets.orchestration.runs.in_flight import assets_in_flight
from lake_assets.orchestration.runs.retry_wait import mart_backing_off
from lake_assets.rounds.backoff import Backoff
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.targets import Target


def may_go_along(mart: Mart, source: str) -> bool:
    """Whether runs of the source ever compute the mart. Not one at the consistent cut, which no run knows before it has
    ended."""
    return mart.partition_column is None and mart.sources == (source,) and not mart.at_cut


def marts_along(
    instance: dg.DagsterInstance,
    runtime: LakeRuntime,
    source: str,
    marts: Sequence[Mart],
    ready: Sequence[Target],
) -> list[Mart]:
    """Those that read a table of `ready`, and that nothing speaks against."""
    automation = runtime.lake.automation
    if not automation.marts_in_silver_runs:
        return []
    applied = {target.identifier for target in ready}
    wanted = [
        mart
        for mart in marts
        if may_go_along(mart, source) and applied & {rule.identifier for rule in mart.rules}
    ]
    if not wanted:
        return []
    timeout = automation.heartbeat_timeout.total_seconds()
    under_way = assets_in_flight(instance, [dg.AssetKey(mart.asset_key) for mart in wanted], timeout)
    return [
        mart
        for mart in wanted
        if dg.AssetKey(mart.asset_key) not in under_way
        and all(_has_rows(runtime, rule.identifier) for rule in mart.rules)
        and not failed_inputs(instance, mart)
        and not mart_backing_off(instance, Backoff.of(automation), mart)
    ]


def _has_rows(runtime: LakeRuntime, identifier: str) -> bool:
    """Whether anything was published to the table: a first load may have to wait, and the mart's step would fail."""
    return current_snapshot(load_table(runtime.catalog, identifier)) is not None

"""Marts whose rows Dagster has no event of, or shows as stale though they are not: the freshness sensor reports them.

Here: marts by day and unpartitioned ones, after kills, another run's commit, and the loss of Dagster's storage. Not
here: silver (`sensors/test_freshness_sensor.py`).
"""

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from lake_assets.gold.table_snapshots import snapshot_of_rows
from lake_assets.orchestration.assets.versions import mart_versions
from lake_assets.orchestration.dagster_private import partitions_without_event
from lake_assets.orchestration.io_managers.iceberg_io_manager import TableIOManager
from lake_assets.orchestration.runs.missed_marts import UnreportedMarts, _whole
from lake_assets.orchestration.runs.missed_positions import UnreportedPositions
from lake_assets.orchestration.shared.asset_metadata import figures_of
from lake_assets.orchestration.shared.first_periods import FirstPeriods
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.silver.plan.table_state import table_states
from lake_assets_tests.helpers.orchestration.dagster_shop import DAILY, TOTAL, Shop, add_run

pytestmark = pytest.mark.spark

DAY, ALL = dg.AssetKey(DAILY.asset_key), dg.AssetKey(TOTAL.asset_key)


def materialized(shop: Shop) -> set[str]:
    return {key.removeprefix("2026-03-") for key in shop.instance.get_materialized_partitions(DAY)}


def without_event(shop: Shop) -> set[str]:
    """The partitions that Dagster shows as failed or in progress."""
    return set(partitions_without_event(shop.instance, DAY) or ())


def events(shop: Shop, key: dg.AssetKey) -> int:
    return len(shop.instance.fetch_materializations(key, limit=50).records)


def marts(shop: Shop, *, dies: bool = False) -> None:
    """Runs what the mart sensor requests. `dies`: each run ends between the commit of its rows and its event."""
    store = TableIOManager.store

    def stored_and_killed(*given: Any, **options: Any) -> None:
        store(*given, **options)
        raise SystemExit

    with pytest.MonkeyPatch.context() as patched:
        if dies:
            patched.setattr(TableIOManager, "store", stored_and_killed)
        for request in shop.tick("marts").run_requests or ():
            assert shop.run(request).success is not dies


def newest(shop: Shop, key: dg.AssetKey) -> dg.AssetMaterialization:
    (record,) = shop.instance.fetch_materializations(key, limit=1).records
    assert record.asset_materialization is not None
    return record.asset_materialization


def is_stale(shop: Shop, key: dg.AssetKey) -> bool:
    """Whether Dagster's UI would show it so."""
    graph = shop.definitions.get_repository_def().asset_graph
    context = LoadingContextForTest(shop.instance)
    return CachingStaleStatusResolver(shop.instance, graph, context).get_status(key).name == "STALE"


def test_rows_of_runs_that_died_before_their_event(shop: Shop) -> None:
    shop.change("sales", [1], day=1)
    shop.change("sales", [2], day=3)
    shop.apply()
    marts(shop, dies=True)
    assert shop.refusal("marts") == "every mart is up to date"
    assert materialized(shop) == set()
    shop.tick("freshness")
    assert materialized(shop) == {"01", "02", "03"}, "the second day has no row"
    assert figures_of(newest(shop, ALL).metadata)["dagster/row_count"] == 1
    told = events(shop, DAY), events(shop, ALL)
    shop.restart()
    shop.tick("freshness")
    assert (events(shop, DAY), events(shop, ALL)) == told, "once"

    # Another time, when it has events of earlier rows.
    shop.change("sales", [3], day=3)
    shop.apply()
    marts(shop, dies=True)
    assert without_event(shop) == {"2026-03-03"}
    shop.tick("freshness")
    assert without_event(shop) == set()
    assert not is_stale(shop, ALL)


def test_rows_that_a_failed_run_did_not_store(shop: Shop) -> None:
    """Its partitions stay failed, although the lake knows of nothing to compute. Also those of a run that never
    started."""
    shop.change("sales", [1], day=1)
    shop.change("sales", [2], day=2)
    shop.apply()
    marts(shop)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TableIOManager, "store", lambda *given, **options: 1 / 0)
        assert not shop.materialize([DAY], partition="2026-03-01").success
    whole = shop.definitions.resolve_implicit_global_asset_job_def()
    job, tags = whole.get_subset(asset_selection={DAY}), {"dagster/partition": "2026-03-02"}
    run = shop.instance.create_run_for_job(job, tags=tags, asset_selection={DAY})
    shop.instance.report_run_failed(run)
    shop.tick("freshness")
    assert without_event(shop) == {"2026-03-01", "2026-03-02"}


def test_rows_that_dagster_has_forgotten(shop: Shop) -> None:
    shop.change("sales", [1], day=1)
    shop.apply()
    marts(shop)
    shop.forget_dagster()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("lake_assets.orchestration.runs.missed_marts.MOST_EVENTS", 1)
        shop.tick("freshness")
        assert (materialized(shop), events(shop, ALL)) == ({"01"}, 0)
        shop.tick("freshness")
    assert events(shop, ALL) == 1
    assert not is_stale(shop, ALL)


def silver(shop: Shop) -> list[Any]:
    """The events of the positions that are not reported."""
    states = table_states(shop.lake.runtime, shop.lake.targets, datetime.now(UTC))
    return UnreportedPositions(shop.lake.runtime).events(shop.instance, states, time.time(), {})


def read_ahead(shop: Shop) -> None:
    """A mart reads rows that Dagster has no event of."""
    shop.change("sales", [1])
    shop.apply()
    shop.change("sales", [2])
    shop.tick()
    list(apply_tables(shop.lake.runtime, shop.lake.targets))
    marts(shop)


def test_a_mart_of_rows_that_were_reported_after_it(shop: Shop) -> None:
    """As the continuous run reports them. Until the next change, it would be shown as stale."""
    read_ahead(shop)
    assert shop.rows("gold.sales_total") == [{"sales": 2}]
    list(map(shop.instance.report_runless_asset_event, silver(shop)))
    assert is_stale(shop, ALL)

    # At the consistent cut, silver's newest rows may be behind the cut: it is not reported as if it had them.
    rows = snapshot_of_rows(shop.lake.runtime.catalog.load_table(TOTAL.identifier))
    assert rows is not None
    versions = mart_versions(shop.instance, TOTAL)
    assert len(list(_whole(shop.instance, TOTAL, rows, versions))) == 1
    assert list(_whole(shop.instance, replace(TOTAL, at_cut=True), rows, versions)) == []

    shop.tick("freshness")
    assert not is_stale(shop, ALL)


def test_marts_that_a_run_is_about_to_report(shop: Shop) -> None:
    shop.change("sales", [1])
    shop.apply()
    marts(shop, dies=True)
    run = add_run(shop.instance, [DAY, ALL], dg.DagsterRunStatus.STARTED)
    shop.tick("freshness")
    assert (materialized(shop), events(shop, ALL)) == (set(), 0)
    shop.instance.report_run_canceled(run)
    # The continuous run reports what it refreshes with a delay.
    missed = UnreportedMarts(shop.lake.runtime, shop.lake.marts, FirstPeriods.any(shop.lake.config))
    found = missed.events(shop.instance, {"shop": 300.0})
    assert {event.asset_key for event in found} == {DAY}
    assert {event.asset_key for event in missed.events(shop.instance, {"shop": 0.0})} == {DAY, ALL}


def test_a_partition_that_a_killed_run_has_emptied(shop: Shop) -> None:
    shop.change("sales", [1], day=1)
    shop.change("sales", [2], day=3)
    shop.apply()
    marts(shop)
    shop.change("sales", [2], day=3, op="D")
    shop.apply()
    marts(shop, dies=True)
    assert without_event(shop) == {"2026-03-03"}
    shop.tick("freshness")
    assert without_event(shop) == set()


def test_rows_of_former_code(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stay stale when an event names their inputs."""
    read_ahead(shop)
    for module in ("versions", "mart_assets"):
        monkeypatch.setattr(f"lake_assets.orchestration.assets.{module}.code_version", lambda mart: "new")
    shop.restart()
    shop.tick("freshness")
    assert is_stale(shop, ALL)


def test_rows_that_are_reported_while_the_marts_are_looked_at(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.change("sales", [1])
    shop.apply()
    marts(shop)

    def beside(*given: Any, **options: Any) -> Any:
        shop.change("sales", [2])
        shop.apply()
        return {}

    monkeypatch.setattr("lake_assets.orchestration.runs.missed_marts.assets_in_flight", beside)
    shop.tick("freshness")
    assert is_stale(shop, ALL), "it has one of two sales"

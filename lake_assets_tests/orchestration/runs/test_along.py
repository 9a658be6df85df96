"""Marts that are computed in the run that applies their tables: which, and what becomes of one that fails there.

Here: the file sensor's requests and their runs on a real Dagster instance. Not here: the mart sensor on its own
(`test_mart_sensor.py`).
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster import DagsterRunStatus
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake_assets.gold.mart import Input, MartRequest
from lake_assets.orchestration.runs.continuous_run import Continuous
from lake_assets.orchestration.shared.run_tags import mart_tag
from lake_assets_tests.helpers.orchestration.dagster_shop import (
    BATCH,
    DAILY,
    NOTES,
    SALES,
    TOTAL,
    Shop,
    add_run,
    open_shop,
    pass_time,
)
from lake_assets_tests.helpers.reconcile.restored import restorer

pytestmark = [pytest.mark.spark, pytest.mark.slow]
GOLD = dg.AssetKey(["gold", "sales_total"])
HOUR = 3600.0


def total_unless_broken(request: MartRequest) -> Any:
    """A sale named `broken` breaks it."""
    broken = F.when(F.count_if(F.col("name") == "broken") > 0, F.raise_error(F.lit("this sale is broken")))
    return request.inputs["sales"].agg(F.coalesce(broken.cast("bigint"), F.count(F.lit(1))).alias("sales"))


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Shop]:
    marts = (DAILY, replace(TOTAL, compute=total_unless_broken))
    shop = open_shop(tmp_path_factory.mktemp("shop"), marts, automation={"marts_in_silver_runs": True})
    shop.change("sales", [1, 2])
    assert set(shop.request().asset_selection or ()) == {SALES, BATCH}, (
        "without rows there is nothing to compute"
    )
    assert shop.apply().success
    for request in shop.tick("marts").run_requests or ():
        assert shop.run(request).success
    shop.instance.dispose()
    return restorer(shop)


@pytest.fixture
def shop(made: Callable[[], Shop]) -> Iterator[Shop]:
    shop = made()
    yield shop
    shop.instance.dispose()


def selected(shop: Shop) -> set[dg.AssetKey]:
    return set(shop.request().asset_selection or ())


def requested(shop: Shop) -> list[set[dg.AssetKey]]:
    """By the mart sensor."""
    return [set(request.asset_selection or ()) for request in shop.tick("marts").run_requests or ()]


def test_a_mart_of_the_present_goes_along(shop: Shop) -> None:
    shop.change("sales", [3])
    request = shop.request()
    assert set(request.asset_selection or ()) == {SALES, BATCH, GOLD}, "days are known only after silver"
    assert mart_tag("sales_total") in request.tags
    assert shop.run(request).success
    assert shop.rows("gold.sales_total") == [{"sales": 3}]
    left = [
        [key.path[-1] for key in found.asset_selection or ()]
        for found in shop.tick("marts").run_requests or ()
    ]
    assert left == [["sales_daily"]]
    shop.change("notes", [1])
    assert selected(shop) == {NOTES, BATCH}, "it reads another table"


def test_a_mart_that_takes_long_has_runs_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    """A continuous run leaves it to the sensor, too, which requests it at most each `daily_marts_every`."""
    automation = {"marts_in_silver_runs": True, "continuous": {"daily_marts_every": "1h"}}
    shop = open_shop(tmp_path, (replace(TOTAL, with_silver=False),), automation=automation)
    job = shop.definitions.resolve_job_def("shop_continuous")

    def rounds() -> list[set[dg.AssetKey]]:
        """What the mart sensor requests while a continuous run is alive."""
        run = shop.instance.create_run_for_job(job, status=DagsterRunStatus.STARTED)
        try:
            return requested(shop)
        finally:
            shop.instance.delete_run(run.run_id)

    shop.change("sales", [1, 2])
    assert shop.apply().success
    assert rounds() == [{GOLD}], "it is not in the lake yet"
    for request in shop.tick("marts").run_requests or ():
        assert shop.run(request).success
    assert shop.rows("gold.sales_total") == [{"sales": 2}]
    shop.change("sales", [3])
    assert selected(shop) == {SALES, BATCH}
    assert shop.apply().success
    assert requested(shop) == [{GOLD}]
    assert rounds() == []
    continuous = Continuous(shop.lake.runtime, "shop", shop.lake.targets, shop.lake.marts, shop.instance)
    assert continuous.round().marts == 0
    continuous.close()


def test_an_update_that_a_latched_condition_loses(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silver and mart in one run, the mart fails: no dependency is updated any more, and the mart lacks rows."""
    shop.change("sales", [3], name="broken")
    result = shop.apply()
    assert not result.success
    assert {event.asset_key for event in result.get_asset_materialization_events()} == {SALES, BATCH}
    assert shop.rows("gold.sales_total") == [{"sales": 2}]
    assert {GOLD} not in requested(shop), "it backs off"
    shop.change("sales", [4])
    assert selected(shop) == {SALES, BATCH}, "it backs off here, too"
    shop.change("sales", [3], op="D")
    assert shop.apply().success
    pass_time(monkeypatch, 2 * HOUR)
    assert {GOLD} in requested(shop)
    for request in shop.tick("marts").run_requests or ():
        assert shop.run(request).success
    assert shop.rows("gold.sales_total") == [{"sales": 3}]


def test_why_the_marts_have_no_declarative_condition() -> None:
    """The form that is latched against updates during a run, on two plain assets: the same history ends it."""
    fails = {"now": False}

    @dg.asset
    def silver() -> None: ...

    latched = (
        dg.AutomationCondition.any_deps_updated().since(
            dg.AutomationCondition.newly_requested() | dg.AutomationCondition.initial_evaluation()
        )
        & ~dg.AutomationCondition.any_deps_missing()
        & ~dg.AutomationCondition.in_progress()
        & dg.AutomationCondition.all_deps_blocking_checks_passed()
    )

    @dg.asset(deps=[silver], automation_condition=latched)
    def mart() -> None:
        if fails["now"]:
            raise dg.Failure("broken")

    instance = dg.DagsterInstance.ephemeral()
    definitions = dg.Definitions([silver, mart])

    def run(*assets: Any) -> None:
        dg.materialize(
            list(assets), instance=instance, selection=[asset.key for asset in assets], raise_on_error=False
        )

    run(silver, mart)
    told = dg.evaluate_automation_conditions(definitions, instance)
    dg.materialize([silver, mart], instance=instance, selection=[silver.key])
    told = dg.evaluate_automation_conditions(definitions, instance, cursor=told.cursor)
    assert told.total_requested == 1, "the mart is requested, and its run takes a newer update along"
    fails["now"] = True
    run(silver, mart)
    for _ in range(3):
        told = dg.evaluate_automation_conditions(definitions, instance, cursor=told.cursor)
        assert told.total_requested == 0, "lost"


def test_what_speaks_against_it(shop: Shop) -> None:
    shop.change("sales", [3])
    assert selected(shop) == {SALES, BATCH, GOLD}
    run = add_run(shop.instance, [GOLD], DagsterRunStatus.QUEUED)
    assert selected(shop) == {SALES, BATCH}, "it is being computed"
    shop.instance.delete_run(run.run_id)
    assert selected(shop) == {SALES, BATCH, GOLD}
    automation = shop.lake.config.automation.model_copy(update={"marts_in_silver_runs": False})
    shop.lake.runtime.lake = shop.lake.config.model_copy(update={"automation": automation})
    assert selected(shop) == {SALES, BATCH}, "somebody wants it so"


def test_a_mart_of_two_tables_waits_for_both(spark: SparkSession, tmp_path: Path) -> None:
    both = replace(TOTAL, inputs={"sales": Input("shop", "sales"), "notes": Input("shop", "notes")})
    shop = open_shop(tmp_path, (both,), automation={"marts_in_silver_runs": True})
    shop.change("sales", [1])
    assert shop.apply().success
    shop.change("sales", [2])
    assert selected(shop) == {SALES, BATCH}
    shop.spoil("notes")
    shop.change("notes", [1])
    assert not shop.apply().success
    shop.change("sales", [3])
    assert selected(shop) == {SALES, BATCH}, "a check of one of its tables fails"

"""Two lakes that share a Dagster instance: what one lake looks up is its own, and equal keys are refused.

Here: keys, names, tags, look-ups and what the sensors refuse, with runs where one lake's must not hold the other. Not
here: the real daemon (`test_two_lakes.py`).
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    SensorInstigatorData,
)
from pyspark.sql import SparkSession

from lake_assets.config import LakeConfig, MaintenanceConfig
from lake_assets.orchestration.assets.mart_runs import MartRun
from lake_assets.orchestration.checks.blocking_checks import failed_inputs
from lake_assets.orchestration.dagster_private import SensorState
from lake_assets.orchestration.runs.continuous_job import alive_runs, job_name
from lake_assets.orchestration.runs.missed_positions import reported_positions
from lake_assets.orchestration.runs.retry_wait import mart_retry_wait
from lake_assets.orchestration.runs.run_retention import OldRuns
from lake_assets.orchestration.shared.asset_keys import table_identifier
from lake_assets.orchestration.shared.equal_keys import first_location
from lake_assets.orchestration.shared.run_tags import SCOPE, own_tag, run_tags
from lake_assets_tests.helpers.orchestration.dagster_shop import SALES, Shop, add_run, failures

CONTINUOUS = {"automation": {"continuous": True}}
STAGING_SALES = dg.AssetKey(["staging", "silver", "shop", "sales"])
NOW = 10_000.0


@pytest.fixture
def two(new_shop: Callable[..., Shop]) -> tuple[Shop, Shop]:
    """Production without a prefix, and staging, in one instance."""
    production, staging = new_shop(**CONTINUOUS), new_shop(asset_key_prefix="staging", **CONTINUOUS)
    staging.instance.dispose()
    staging.instance = production.instance
    return production, staging


# --- keys and names


def test_keys_and_names_begin_with_the_prefix(two: tuple[Shop, Shop]) -> None:
    of_production, of_staging = (shop.definitions.get_repository_def() for shop in two)
    keys = of_production.asset_graph.get_all_asset_keys()
    assert SALES in keys
    assert of_staging.asset_graph.get_all_asset_keys() == {
        dg.AssetKey(["staging", *key.path]) for key in keys
    }
    assert {check.asset_key.path[0] for check in of_staging.asset_graph.asset_check_keys} == {"staging"}
    names = {sensor.name for sensor in of_production.sensor_defs}
    assert {sensor.name for sensor in of_staging.sensor_defs} == {f"staging_{name}" for name in names}
    jobs = {name for name in of_staging.job_names if not name.startswith("__")}
    assert jobs == {"staging_checks", "staging_maintenance", "staging_shop_continuous"}


def test_lineage_within_the_prefix(two: tuple[Shop, Shop]) -> None:
    graph = two[1].definitions.get_repository_def().asset_graph
    assert graph.get(dg.AssetKey(["staging", "gold", "sales_daily"])).parent_keys == {STAGING_SALES}
    assert graph.get(STAGING_SALES).parent_keys == {dg.AssetKey(["staging", "bronze", "shop", "sales"])}


@pytest.mark.parametrize("path", [["silver", "shop", "sales"], ["gold", "sales_daily"], ["own", "asset"]])
def test_the_tables_are_called_as_without_a_prefix(path: list[str]) -> None:
    plain = table_identifier(dg.AssetKey(path), ())
    assert table_identifier(dg.AssetKey(["staging", *path]), ("staging",)) == plain
    assert table_identifier(dg.AssetKey(path), ("staging",)) == plain


@pytest.mark.parametrize("prefix", ["Staging", "a/b", "a-b", "1st", " "])
def test_a_prefix_is_a_plain_name(two: tuple[Shop, Shop], prefix: str) -> None:
    given = two[0].lake.config.model_dump() | {"asset_key_prefix": prefix}
    with pytest.raises(ValueError, match="asset_key_prefix"):
        LakeConfig.model_validate(given)


# --- look-ups


def test_a_run_of_production_keeps_staging_from_nothing(two: tuple[Shop, Shop]) -> None:
    production, staging = two
    for shop in two:
        shop.load("sales", [1, 2])
        shop.change("sales", [3])
    run = add_run(production.instance, [SALES], dg.DagsterRunStatus.QUEUED)
    assert run.run_id[:8] in production.refusal()
    request = staging.request("staging_shop_files")
    assert STAGING_SALES in (request.asset_selection or ())
    assert request.tags[SCOPE] == "staging/silver/shop", "dagster.yaml limits the runs of a scope"


def test_the_continuous_run_of_production_is_not_that_of_staging(two: tuple[Shop, Shop]) -> None:
    production, staging = two
    config = production.lake.config
    production.instance.add_run(
        dg.DagsterRun(job_name=job_name(config, "shop"), status=dg.DagsterRunStatus.STARTING)
    )
    assert alive_runs(production.instance, production.lake.runtime, ["shop"])
    assert not alive_runs(staging.instance, staging.lake.runtime, ["shop"])
    assert staging.tick("staging_shop_stays_current").run_requests
    assert not production.tick("shop_stays_current").run_requests


def test_events_and_checks_of_production_are_not_those_of_staging(two: tuple[Shop, Shop]) -> None:
    instance = two[0].instance
    instance.report_runless_asset_event(dg.AssetMaterialization(SALES, metadata={"position": 7}))
    failed = dg.AssetCheckEvaluation(asset_key=SALES, check_name="applied", passed=False, blocking=True)
    instance.report_runless_asset_event(failed)
    assert reported_positions(instance, [SALES]) == {SALES: 7}
    assert not reported_positions(instance, [STAGING_SALES]).get(STAGING_SALES)
    held = [failed_inputs(instance, shop.lake.marts[0]) for shop in two]
    assert held == [["silver/shop/sales: applied"], []]


def test_failed_marts_of_production_do_not_wait_in_staging(two: tuple[Shop, Shop]) -> None:
    production, staging = two
    run = MartRun(("sales_total",), None)
    mart = production.lake.marts[1]
    tags = {".dagster/lake_assets_mart.sales_total": "1"}
    add_run(production.instance, run.keys, dg.DagsterRunStatus.FAILURE, tags)
    assert mart_retry_wait(production.instance, mart) > 0
    assert mart_retry_wait(staging.instance, staging.lake.marts[1]) == 0


def test_each_lake_deletes_its_own_old_runs(two: tuple[Shop, Shop]) -> None:
    """By its own settings."""
    later = datetime.now(UTC) + timedelta(days=30)
    for shop in two:
        add_run(shop.instance, [], dg.DagsterRunStatus.SUCCESS, run_tags(shop.lake.config))
    of_staging = OldRuns(MaintenanceConfig(keep_runs=timedelta(0)), own_tag(two[1].lake.config))
    assert of_staging.delete_all(two[0].instance, later) == 1
    (left,) = two[0].instance.get_runs()
    assert left.tags[".dagster/lake_assets_own"] == "1"


def test_a_failing_staging_does_not_delay_production(spark: SparkSession, two: tuple[Shop, Shop]) -> None:
    production, staging = two
    staging.load("sales", [1])
    staging.spoil("sales")
    assert set(failures(staging.run(staging.request("staging_shop_files")))) == {"sales"}
    assert "waits for staging/silver/shop/sales: applied" in staging.refusal("staging_marts")
    production.load("sales", [1, 2])
    production.change("sales", [3])
    assert production.apply().success
    for request in production.tick("marts").run_requests or ():
        assert production.run(request).success
    assert production.rows("gold.sales_total") == [{"sales": 3}]
    assert production.snapshots("silver_shop.sales") > 0
    assert staging.rows("gold.sales_total") == []


# --- equal keys


def state(
    location: str, name: str, *, started: float, last: float, previous: float | None = None
) -> SensorState:
    return SensorState(name, location, started, last, previous)


def states(location: str, prefix: str = "", **times: float) -> list[SensorState]:
    return [state(location, f"{prefix}{name}", **times) for name in ("shop_files", "freshness")]


@pytest.mark.parametrize(
    ("others", "refused_by"),
    [
        pytest.param(states("prod", started=1, last=NOW - 3), "prod", id="it had the keys first"),
        pytest.param(states("prod", started=600, last=NOW - 3), None, id="it came later"),
        pytest.param(states("prod", "eu_", started=1, last=NOW - 3), None, id="another prefix"),
        pytest.param(states("prod", started=1, last=NOW - 500), None, id="it is no longer there"),
        pytest.param(
            [state("prod", "shop_files", started=1, last=NOW - 3)], None, id="a user's sensor of that name"
        ),
    ],
)
def test_who_had_the_keys_first(
    two: tuple[Shop, Shop], others: list[SensorState], refused_by: str | None
) -> None:
    own = states("own", started=500, last=NOW, previous=NOW - 5)
    assert first_location([*others, *own], two[0].lake.config, "shop", "own", NOW) == refused_by


def test_after_the_daemon_was_down_the_first_one_is_still_the_first(two: tuple[Shop, Shop]) -> None:
    """The sensor of the other location has not been evaluated yet."""
    night = NOW - 40_000
    own = states("own", started=500, last=NOW, previous=night)
    others = states("prod", started=1, last=night)
    assert first_location([*others, *own], two[0].lake.config, "shop", "own", NOW) == "prod"


def has_sensors(instance: dg.DagsterInstance, location: str, *, started: float, last: float) -> None:
    """What the daemon stores of the sensors of a code location whose lake has no prefix."""
    repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(location), "__repository__")
    data = SensorInstigatorData(last_sensor_start_timestamp=started, last_tick_start_timestamp=last)
    for name in ("shop_files", "freshness"):
        origin = RemoteInstigatorOrigin(repository, name)
        instance.add_instigator_state(
            InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING, data)
        )


@pytest.mark.parametrize("sensor", ["shop_files", "marts", "freshness", "shop_stays_current"])
def test_every_sensor_of_a_second_lake_with_the_keys_of_production_is_refused(
    two: tuple[Shop, Shop], monkeypatch: pytest.MonkeyPatch, sensor: str
) -> None:
    """As the daemon evaluates it: in a code location, with the states of the sensors of all of them."""
    second, now = two[0], time.time()
    second.load("sales", [1])
    has_sensors(second.instance, "production", started=now - 60, last=now)
    has_sensors(second.instance, "copy", started=now, last=now)
    where = property(lambda context: RegisteredCodeLocationOrigin(location))
    monkeypatch.setattr(dg.SensorEvaluationContext, "code_location_origin", where)
    location = "copy"
    with pytest.raises(dg.Failure) as refused:
        second.tick(sensor)
    said = str(refused.value.description)
    assert "'production' of this Dagster instance has a lake with the same asset keys" in said
    assert "Set asset_key_prefix in its lake.yaml" in said
    location = "production"
    second.tick(sensor)

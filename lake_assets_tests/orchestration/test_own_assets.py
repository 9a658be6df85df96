"""A user's project with the lake's definitions: the examples of `docs/own_assets.md` as they are, and a blocking check.

Here: what a user writes, in real runs. Not here: every type and partition (`io_managers/`), the
maintenance of their tables (`test_own_tables.py`).
"""

import itertools
import re
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession

from lake_assets import TableIOManager, lake_definitions
from lake_assets.config import S3Config
from lake_assets.config.config_file import load_lake
from lake_assets.errors import LakeError
from lake_assets.orchestration.backfill import backfill
from lake_assets.orchestration.lake_definitions import Lake, open_lake
from lake_assets.orchestration.sync import sync
from lake_assets_tests.helpers.lakes.guide_project import (
    GUIDE,
    TRIPS,
    examples,
    rows,
    run,
    spark_section,
    tables,
    write_lake,
)
from lake_assets_tests.helpers.lakes.small_lakes import write_file
from lake_assets_tests.helpers.orchestration.dagster_shop import SALES, Shop, open_shop
from lake_assets_tests.helpers.servers.s3 import ACCESS, resource

pytestmark = pytest.mark.spark


@pytest.fixture
def project(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dg.Definitions:
    write_lake(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(examples()[0], str(GUIDE), "exec"), names)
    defs: dg.Definitions = names["defs"]
    return defs


def test_the_example_of_the_guide(project: dg.Definitions, tmp_path: Path) -> None:
    instance = dg.DagsterInstance.ephemeral()
    repository = project.get_repository_def()
    sensor = repository.get_sensor_def("bikes_files")
    tick = sensor.evaluate_tick(dg.build_sensor_context(instance=instance, repository_def=repository))
    (request,) = tick.run_requests or ()
    keys = [key.to_user_string() for key in request.asset_selection or ()]
    done = run(project, instance, *keys, "gold/busiest_bikes")
    checks = {check.check_name: check.passed for check in done.get_asset_check_evaluations()}
    assert checks["every_trip_has_a_bike"]
    assert rows("gold.busiest_bikes") == [{"bike_id": 7, "size": 2}, {"bike_id": 9, "size": 1}]

    # Nothing is pending now: an asset that is selected with its table is computed all the same.
    tables().drop_table("gold.busiest_bikes")
    again = run(project, instance, "silver/bikes/trips", "gold/busiest_bikes")
    assert {event.asset_key.path[-1] for event in again.get_asset_materialization_events()} == {
        "trips",
        "busiest_bikes",
    }
    assert rows("gold.busiest_bikes") == [{"bike_id": 7, "size": 2}, {"bike_id": 9, "size": 1}]
    assert not run(project, instance, "silver/bikes/trips").get_asset_materialization_events()

    tags = {
        "dagster/asset_partition_range_start": "2026-03-01",
        "dagster/asset_partition_range_end": "2026-03-02",
    }
    run(project, instance, "gold/trips_by_hour", tags=tags)
    assert rows("gold.trips_by_hour") == [
        {"day": date(2026, 3, 1), "hour": 8, "trips": 2},
        {"day": date(2026, 3, 2), "hour": 23, "trips": 1},
    ]
    assert repository.has_schedule_def("nightly")


def test_the_resources_of_the_guide(
    project: dg.Definitions, tmp_path: Path, s3: S3Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("AWS_ENDPOINT_URL_S3", s3.endpoint),
        ("AWS_DEFAULT_REGION", ACCESS["region"]),
        ("AWS_ACCESS_KEY_ID", ACCESS["access_key_id"]),
        ("AWS_SECRET_ACCESS_KEY", ACCESS["secret_access_key"]),
    ):
        monkeypatch.setenv(name, str(value))
    exports = resource("s3", s3.endpoint).Bucket("my-exports")
    exports.create()
    exports.put_object(Key="a", Body=b"x")
    names: dict[str, Any] = {}
    exec(compile(examples()[1], str(GUIDE), "exec"), names)
    merged = dg.Definitions.merge(project, dg.Definitions(assets=[names["landed"]]))
    instance = dg.DagsterInstance.ephemeral()
    repository = merged.get_repository_def()
    sensor = repository.get_sensor_def("bikes_files")
    tick = sensor.evaluate_tick(dg.build_sensor_context(instance=instance, repository_def=repository))
    (request,) = tick.run_requests or ()
    run(merged, instance, *[key.to_user_string() for key in request.asset_selection or ()])
    done = run(merged, instance, "landed")
    (event,) = done.asset_materializations_for_node("landed")
    found = {name: event.metadata[name].value for name in ("files", "trips", "exports")}
    assert found == {"files": 1, "trips": 3, "exports": 1}


@dg.asset(key=["gold", "two"], io_manager_key="iceberg_io_manager")
def two() -> pa.Table:
    return pa.table({"id": [1, 2]})


@dg.asset(ins={"two": dg.AssetIn(two.key)})
def sum_of(two: pa.Table) -> None:
    assert pc.sum(two["id"]).as_py() == 3


def test_the_io_manager_of_the_guide_needs_no_lake(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is, with the tests' Spark."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(examples()[-1], str(GUIDE), "exec"), names)
    found = names["defs"].resources["io_manager"]
    given = type(found)(catalog=found.catalog, spark=spark_section())
    assert dg.materialize([two, sum_of], resources={"iceberg_io_manager": given}).success


@pytest.mark.parametrize(
    ("severity", "blocking"), [(dg.AssetCheckSeverity.ERROR, False), (dg.AssetCheckSeverity.WARN, True)]
)
def test_a_check_of_the_user_that_does_not_block_or_that_warns_holds_no_mart(
    spark: SparkSession, tmp_path: Path, severity: dg.AssetCheckSeverity, blocking: bool
) -> None:
    shop = merged_shop(tmp_path, severity, blocking=blocking)
    shop.change("sales", [1], name="forbidden")
    shop.apply()
    lake = open_lake(shop.lake.config, marts=shop.lake.marts)
    assert shop.tick("marts").run_requests
    assert set(sync(lake, shop.instance).marts) == {mart.name for mart in lake.marts}


def test_a_blocking_check_of_the_user_holds_the_marts(spark: SparkSession, tmp_path: Path) -> None:
    """Also those of commands, which do not know the user's definitions, and read Dagster's history."""
    shop = merged_shop(tmp_path, dg.AssetCheckSeverity.ERROR)
    shop.change("sales", [1], name="forbidden")
    shop.apply()
    lake = open_lake(shop.lake.config, marts=shop.lake.marts)
    assert "waits for silver/shop/sales: no_forbidden_sale" in shop.refusal("marts")
    assert_commands_are_held(lake, shop)
    shop.change("sales", [1], op="U", name="allowed")
    assert not sync(lake, shop.instance).marts, "the command does not evaluate it"
    assert check_alone(shop).execute_in_process(instance=shop.instance).success
    assert set(sync(lake, shop.instance).marts) == {mart.name for mart in lake.marts}

    # The user removes the check: its failure is in the history until the table's history is wiped.
    shop.change("sales", [1], op="U", name="forbidden")
    shop.apply()
    assert not sync(lake, shop.instance).marts
    shop.instance.wipe_assets([SALES])
    assert sync(lake, shop.instance).marts


@pytest.mark.long
def test_a_blocking_check_of_the_user_that_raises_holds_the_marts(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As one that fails: its table is unproven."""
    shop = merged_shop(tmp_path, dg.AssetCheckSeverity.ERROR)
    lake = open_lake(shop.lake.config, marts=shop.lake.marts)
    shop.change("sales", [1], name="unreadable")
    assert not shop.apply().success
    assert "waits for silver/shop/sales: no_forbidden_sale" in shop.refusal("marts"), "never evaluated"
    shop.change("sales", [1], op="U", name="allowed")
    assert shop.apply().success
    assert shop.tick("marts").run_requests
    shop.change("sales", [1], op="U", name="unreadable")
    assert not shop.apply().success
    assert "waits for silver/shop/sales: no_forbidden_sale" in shop.refusal("marts")
    assert_commands_are_held(lake, shop)
    shop.change("sales", [1], op="U", name="allowed")
    assert shop.apply().success
    assert set(sync(lake, shop.instance).marts) == {mart.name for mart in lake.marts}


def test_a_blocking_check_holds_the_marts_when_it_breaks_off_not_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The process of a run may die, or be stopped, before the check or in it."""
    shop = merged_shop(tmp_path, dg.AssetCheckSeverity.ERROR)
    shop.change("sales", [1])
    assert shop.apply().success
    failure, canceled = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED
    for status, begins in itertools.product((failure, canceled), (False, True)):
        run = shop.instance.create_run_for_job(check_alone(shop), status=dg.DagsterRunStatus.STARTED)
        if begins:
            began = dg.DagsterEvent(
                "STEP_START", run.job_name, step_key="silver__shop__sales_no_forbidden_sale"
            )
            shop.instance.report_dagster_event(began, run.run_id)
        assert shop.tick("marts").run_requests, "it is under way"
        if status is failure:
            shop.instance.report_run_failed(run)
        else:
            shop.instance.report_run_canceled(run)
        assert bool(shop.tick("marts").run_requests) is not begins
        if begins:
            assert check_alone(shop).execute_in_process(instance=shop.instance).success


def assert_commands_are_held(lake: Lake, shop: Shop) -> None:
    """`sync` and `backfill` compute no mart, and name the user's check."""
    reason = r"waits for silver/shop/sales: no_forbidden_sale \(it failed in Dagster at .*: evaluate it there again\)"
    held = sync(lake, shop.instance)
    assert not held.marts
    assert all(re.search(reason, held.waiting[mart.identifier]) for mart in lake.marts)
    with pytest.raises(LakeError, match=reason):
        list(backfill(lake, shop.instance, "sales_daily", "2026-03-01", "2026-03-01"))


def check_alone(shop: Shop) -> dg.JobDefinition:
    """A job of the user that evaluates the check without its table."""
    check = dg.AssetCheckKey(SALES, "no_forbidden_sale")
    job = dg.define_asset_job("one_check", dg.AssetSelection.checks(check))
    return job.resolve(asset_graph=shop.definitions.get_repository_def().asset_graph)


def merged_shop(folder: Path, severity: dg.AssetCheckSeverity, *, blocking: bool = True) -> Shop:
    shop = open_shop(folder)

    @dg.asset_check(asset=SALES, blocking=blocking)
    def no_forbidden_sale() -> dg.AssetCheckResult:
        names = {row["name"] for row in shop.rows("silver_shop.sales")}
        assert "unreadable" not in names
        return dg.AssetCheckResult(passed="forbidden" not in names, severity=severity)

    shop.definitions = dg.Definitions.merge(
        shop.definitions, dg.Definitions(asset_checks=[no_forbidden_sale])
    )
    return shop


def test_silver_in_a_parameter(spark: SparkSession, tmp_path: Path) -> None:
    """By its own IO manager, without naming one."""
    shop = open_shop(tmp_path)
    shop.change("sales", [1, 2])
    seen: list[Any] = []

    @dg.asset(ins={"sales": dg.AssetIn(SALES)})
    def reader(sales: Any) -> None:
        seen.append(sales.count())

    shop.definitions = dg.Definitions.merge(shop.definitions, dg.Definitions(assets=[reader]))
    request = shop.request()
    run = shop.materialize([*(request.asset_selection or ()), reader.key])
    assert run.success
    assert seen == [2]


def test_the_replaced_io_manager_of_the_guide(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lake(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(examples()[2], str(GUIDE), "exec"), names)
    with caplog.at_level("INFO"):
        defs = dg.Definitions.merge(names["defs"], dg.Definitions(assets=[two, sum_of]))
        assert run(defs, dg.DagsterInstance.ephemeral(), "gold/two", "sum_of").success
    assert "gold.two has 2 rows" in caplog.text


HEADER = "Op,commit_ts,id,bike_id,started_at"
NEW_TRIP = "I,2026-03-03 12:00:00,4,9,2026-03-03 11:00:00"
BIKES_NOW = """/*
description: The trips of each bike.
partition_column: null
columns: {bike_id: long, trips: long}
*/
SELECT bike_id, count(*) AS trips FROM silver_bikes.trips GROUP BY bike_id
"""


@pytest.mark.parametrize("how", ["merged", pytest.param("given", marks=pytest.mark.long)])
def test_an_io_manager_and_an_executor_of_the_user(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Steps and the continuous run pass through it: it counts."""
    monkeypatch.chdir(tmp_path)
    write_lake(tmp_path)
    file, counted = tmp_path / "lake.yaml", Counter[str]()
    (tmp_path / "bikes_now.sql").write_text(BIKES_NOW)
    monkeypatch.setattr("lake_assets.orchestration.runs.continuous_job.HAND_OVER_SECONDS", 1.0)
    sections = {"gold": {"marts": ["bikes_now.sql"]}, "automation": {"continuous": True}}
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | sections))

    class Counting(TableIOManager):
        def read(self, identifier: str, *given: Any, **options: Any) -> DataFrame:
            counted[f"read {identifier}"] += 1
            return super().read(identifier, *given, **options)

        def store(self, identifier: str, *given: Any) -> dict[str, Any]:
            counted[f"store {identifier}"] += 1
            return super().store(identifier, *given)

        def load_input(self, context: dg.InputContext) -> Any:
            counted[f"load {context.asset_key.path[-1]}"] += 1
            return super().load_input(context)

    @dg.io_manager(required_resource_keys={"lake"})
    def counting(context: dg.InitResourceContext) -> TableIOManager:
        return Counting(context.resources.lake.runtime)

    @dg.asset(ins={"trips": dg.AssetIn(["silver", "bikes", "trips"])})
    def count(trips: Any) -> None:
        assert trips.count() == len(TRIPS)

    key = "iceberg_io_manager"
    lake = lake_definitions(file, resources={key: counting if how == "given" else None}, executor=None)
    mine = dg.Definitions(
        assets=[count],
        resources={key: counting} if how == "merged" else {},
        executor=dg.multiprocess_executor,
    )
    defs, instance = dg.Definitions.merge(lake, mine), dg.DagsterInstance.ephemeral()
    assert defs.executor is dg.multiprocess_executor
    sync(open_lake(load_lake(file)), instance)
    tables().drop_table("gold.bikes_now")
    assert not counted, "the command loads lake.yaml alone"
    assert run(defs, instance, "gold/bikes_now", "count").success
    assert counted == {"read silver_bikes.trips": 1, "store gold.bikes_now": 1, "load trips": 1}
    write_file(tmp_path, "public/trips/20260303-120000000.csv", [HEADER, NEW_TRIP])
    assert defs.resolve_job_def("bikes_continuous").execute_in_process(instance=instance).success
    assert counted == {"read silver_bikes.trips": 2, "store gold.bikes_now": 2, "load trips": 1}
    assert rows("gold.bikes_now") == [{"bike_id": 7, "trips": 2}, {"bike_id": 9, "trips": 2}]

"""The file sensor on a real Dagster instance: what it reports, requests and refrains from."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster import DagsterRunStatus
from dagster._core.execution.retries import auto_reexecution_should_retry_run
from pyspark.sql import SparkSession

from lake_assets.config import TableConfig
from lake_assets.orchestration.assets import bronze_reports as reports
from lake_assets.orchestration.lake_definitions import build_definitions, open_lake
from lake_assets.orchestration.shared.heartbeat import HEARTBEAT
from lake_assets.orchestration.shared.run_tags import SCOPE
from lake_assets_tests.helpers.lakes.small_lakes import DMS, sequence, write_file
from lake_assets_tests.helpers.orchestration.dagster_shop import (
    BATCH,
    NOTES,
    SALES,
    TABLES,
    Shop,
    add_run,
    failures,
    pass_time,
    plan_check,
)

HOUR = 3600.0


# --- what landed


def test_one_event_for_each_table_and_day_and_one_run_for_all_tables(new_shop: Callable[..., Shop]) -> None:
    shop = new_shop()
    first = shop.change("sales", [1, 2], day=1)
    second = shop.change("sales", [3], day=1)
    shop.change("sales", [4], day=2)
    shop.change("notes", [1], day=2)

    outcome = shop.tick()

    events = {(e.asset_key.path[-1], e.partition): e for e in outcome.asset_events}
    assert set(events) == {("sales", "2026-03-01"), ("sales", "2026-03-02"), ("notes", "2026-03-02")}
    metadata = {key: value.value for key, value in events["sales", "2026-03-01"].metadata.items()}
    size = sum((shop.folder / "bronze" / key).stat().st_size for key in (first, second))
    assert metadata == {
        "dagster/partition_row_count": 3,
        "files": 2,
        "bytes": size,
        "new_files": 2,
        "new_rows": 3,
        "first_key": first,
        "last_key": second,
        "last_offset": metadata["last_offset"],
    }
    (request,) = outcome.run_requests or ()
    assert set(request.asset_selection or ()) == {SALES, NOTES, BATCH}
    assert request.tags[SCOPE] == "silver/shop"
    assert request.run_key is None
    bronze = dg.AssetKey(["bronze", "shop", "sales"])
    assert shop.instance.get_materialized_partitions(bronze) == {"2026-03-01", "2026-03-02"}


def test_files_are_reported_once_and_those_that_landed_later_by_themselves(
    new_shop: Callable[..., Shop],
) -> None:
    shop = new_shop()
    shop.change("sales", [1])
    shop.tick()
    assert shop.tick().asset_events == []
    late = shop.change("sales", [2])
    (event,) = shop.tick().asset_events
    assert event.metadata["new_files"].value == 1
    assert event.metadata["first_key"].value == late


def test_a_partition_shows_the_sums_of_its_day(new_shop: Callable[..., Shop]) -> None:
    """The UI shows the newest event of a partition, which may be of one file among many."""
    shop = new_shop()
    first = shop.change("sales", [1, 2])
    shop.change("sales", [9], day=2)
    shop.tick()
    second = shop.change("sales", [3])
    for restarted in (False, True):
        if restarted:  # the sums are of the log, not of what this process has seen
            shop.change("sales", [4])
            shop.restart()
        (event,) = shop.tick().asset_events
        shown = {name: value.value for name, value in event.metadata.items()}
        assert (shown["files"], shown["dagster/partition_row_count"]) == ((3, 4) if restarted else (2, 3))
        assert (shown["new_files"], shown["new_rows"]) == (1, 1)
        if not restarted:
            sizes = [(shop.folder / "bronze" / key).stat().st_size for key in (first, second)]
            assert shown["bytes"] == sum(sizes)


def test_a_file_that_was_replaced_counts_once(new_shop: Callable[..., Shop]) -> None:
    shop = new_shop()
    key = shop.change("sales", [1, 2])
    shop.tick()
    path = shop.folder / "bronze" / key
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    (event,) = shop.tick().asset_events
    shown = {name: value.value for name, value in event.metadata.items()}
    assert (shown["files"], shown["dagster/partition_row_count"]) == (1, 1)


@pytest.mark.spark
def test_a_transaction_file_is_reported_for_each_table_that_lake_yaml_names(
    spark: SparkSession, new_shop: Callable[..., Shop], caplog: pytest.LogCaptureFixture
) -> None:
    """The log has records of the others, too, for which there is no asset yet."""
    dms = DMS | {"preserve_transactions": True, "cdc_path": "cdc", "add_column_name": False}
    shop = new_shop(source={"dms": dms}, tables={"public.sales": TABLES["public.sales"]})
    stamp = "2026-03-01 10:00:00.000000"
    rows = [
        f"I,{table},public,{stamp},{key},n,{stamp},{sequence(key)},NULL"
        for table, key in (("sales", 1), ("notes", 2), ("sales", 3), ("notes", 4))
    ]
    key = "cdc/CDC_TXN-20260301100100000.csv"
    write_file(shop.folder, key, rows)
    (event,) = shop.tick().asset_events
    assert event.asset_key.path[-1] == "sales"
    assert event.metadata["dagster/partition_row_count"].value == 2
    assert shop.tick().asset_events == []
    assert [r.getMessage() for r in caplog.records if "public.notes" in r.getMessage()] == [
        "shop: 1 file of public.notes, which lake.yaml does not configure"
    ]

    source = shop.lake.config.sources["shop"]
    notes = TableConfig.model_validate(TABLES["public.notes"])
    source = source.model_copy(update={"tables": {**source.tables, "public.notes": notes}})
    config = shop.lake.config.model_copy(update={"sources": {"shop": source}})
    shop.lake = open_lake(config, marts=())
    shop.definitions = build_definitions(shop.lake)
    outcome = shop.tick()
    (event,) = outcome.asset_events
    assert (event.asset_key.path[-1], event.metadata["first_key"].value) == ("notes", key)
    shop.run((outcome.run_requests or ())[0])
    assert [row["id"] for row in shop.rows("silver_shop.sales")] == [1, 3]
    assert [row["id"] for row in shop.rows("silver_shop.notes")] == [2, 4]


def test_files_logged_by_a_tick_that_died_are_reported_by_the_next(new_shop: Callable[..., Shop]) -> None:
    from lake_assets.rounds.arrivals import log_arrivals

    shop = new_shop()
    shop.change("sales", [1])
    log_arrivals(shop.lake.runtime, "shop")
    shop.restart()
    assert [event.metadata["new_files"].value for event in shop.tick().asset_events] == [1]


def test_an_event_reported_by_hand_hides_no_files(new_shop: Callable[..., Shop]) -> None:
    shop = new_shop()
    shop.change("sales", [1])
    shop.tick()
    bronze = dg.AssetKey(["bronze", "shop", "sales"])
    shop.instance.report_runless_asset_event(dg.AssetMaterialization(bronze, partition="2026-03-01"))
    shop.restart()
    assert shop.tick().asset_events == []
    shop.change("sales", [2])
    assert [event.metadata["new_files"].value for event in shop.tick().asset_events] == [1]


def test_files_of_days_without_a_partition_are_reported_and_requested(new_shop: Callable[..., Shop]) -> None:
    shop = new_shop(gold={"start_date": "2026-03-05"})
    shop.change("sales", [1], day=1)
    outcome = shop.tick()
    assert [event.partition for event in outcome.asset_events] == ["2026-03-01"]
    assert outcome.run_requests
    assert shop.tick().asset_events == []


def test_many_events_are_spread_over_ticks_and_the_run_does_not_wait_for_them(
    new_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "MOST_EVENTS", 2)
    shop = new_shop()
    for day in (1, 2, 3):
        shop.change("sales", [day], day=day)
    outcome = shop.tick()
    assert [event.partition for event in outcome.asset_events] == ["2026-03-01", "2026-03-02"]
    assert outcome.run_requests
    assert [event.partition for event in shop.tick().asset_events] == ["2026-03-03"]
    assert shop.tick().asset_events == []


# --- what is requested


def test_what_was_requested_applies_and_is_not_requested_again(shop: Shop) -> None:
    shop.change("sales", [1, 2])
    shop.change("notes", [1])
    run = shop.apply()
    assert run.success
    assert [row["id"] for row in shop.rows("silver_shop.sales")] == [1, 2]
    assert [row["id"] for row in shop.rows("silver_shop.notes")] == [1]
    heartbeat = shop.instance.get_run_by_id(run.run_id)
    assert heartbeat is not None
    assert time.time() - float(heartbeat.tags[HEARTBEAT]) < 60

    assert "no file is pending" in shop.refusal()

    shop.change("notes", [2])
    request = shop.request()
    assert set(request.asset_selection or ()) == {NOTES, BATCH}


def test_deleting_dagsters_storage_loses_and_repeats_nothing(shop: Shop) -> None:
    shop.change("sales", [1, 2])
    shop.change("notes", [1])
    assert shop.apply().success
    shop.change("notes", [2])
    shop.tick()  # logged and requested, and then everything that Dagster knew is gone
    before = {
        name: (shop.rows(name), shop.snapshots(name)) for name in ("silver_shop.sales", "silver_shop.notes")
    }

    shop.forget_dagster()

    outcome = shop.tick()
    (request,) = outcome.run_requests or ()
    assert set(request.asset_selection or ()) == {NOTES, BATCH}
    assert {event.asset_key.path[-1] for event in outcome.asset_events} == {
        "sales",
        "notes",
    }
    assert shop.run(request).success
    assert (shop.rows("silver_shop.sales"), shop.snapshots("silver_shop.sales")) == before[
        "silver_shop.sales"
    ]
    assert [row["id"] for row in shop.rows("silver_shop.notes")] == [1, 2]
    assert not shop.tick().run_requests
    # Run once more with nothing pending, as a resumed tick of the old instance might: no commit.
    count = shop.snapshots("silver_shop.notes")
    assert shop.run(request).success
    assert shop.snapshots("silver_shop.notes") == count


@pytest.mark.parametrize(
    "status", [DagsterRunStatus.QUEUED, DagsterRunStatus.STARTING, DagsterRunStatus.STARTED]
)
def test_a_run_in_flight_blocks(new_shop: Callable[..., Shop], status: DagsterRunStatus) -> None:
    shop = new_shop()
    shop.change("sales", [1])
    run_id = add_run(shop.instance, [SALES], status).run_id
    outcome = shop.tick()
    assert not outcome.run_requests
    assert outcome.skip_message == f"run {run_id[:8]} is under way for 1 table"
    # What landed is shown all the same.
    assert len(outcome.asset_events) == 1


def test_a_silent_run_is_declared_failed_and_its_table_requested_again(
    new_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = new_shop()
    shop.first_wait = timedelta(seconds=15)
    shop.change("sales", [1])
    dead = add_run(shop.instance, [SALES], DagsterRunStatus.STARTED, {HEARTBEAT: str(time.time())})
    plan_check(shop.instance, dead)
    assert not shop.tick().run_requests
    pass_time(monkeypatch, 61)
    request = shop.request()
    assert SALES in (request.asset_selection or ())
    run = shop.instance.get_run_by_id(dead.run_id)
    assert run is not None
    assert run.status is DagsterRunStatus.FAILURE
    (message,) = [
        entry.dagster_event.message
        for entry in shop.instance.all_logs(dead.run_id)
        if entry.dagster_event and entry.dagster_event.is_failure
    ]
    assert message is not None
    assert "No heartbeat for 6" in message
    assert "only one of two runs can publish" in message


def test_a_failing_table_backs_off_alone(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.spoil("sales")
    shop.change("notes", [1])
    assert list(failures(shop.apply())) == ["sales"]
    shop.change("notes", [2])

    request = shop.request()
    assert set(request.asset_selection or ()) == {NOTES, BATCH}
    assert shop.run(request).success
    assert "silver_shop.sales failed and is tried again in 3" in shop.refusal()

    with monkeypatch.context() as later:
        pass_time(later, HOUR + 1)
        request = shop.request()
        assert set(request.asset_selection or ()) == {SALES, BATCH}
        assert not shop.run(request).success
        assert not shop.tick().run_requests  # twice as long now, and counted from the second failure
    with monkeypatch.context() as later:
        pass_time(later, 2 * HOUR + 60)
        repaired = sorted((shop.folder / "bronze/public/sales").iterdir())[0]
        repaired.write_text(repaired.read_text().replace("no time at all", "2026-03-01 10:00:00"))
        request = shop.request()
        assert shop.run(request).success
    # A success resets: the next failure waits the base again.
    shop.spoil("sales")
    assert not shop.apply().success
    assert "tried again in 3" in shop.refusal()


def test_a_full_load_that_is_not_complete_is_waited_for(new_shop: Callable[..., Shop]) -> None:
    shop = new_shop()
    shop.load("sales", [1, 2])
    assert "silver_shop.sales: full load of 1 file: waiting for the first CDC file" in shop.refusal()
    shop.change("sales", [3])
    assert shop.tick().run_requests


def test_the_sensor_is_the_only_retry(new_shop: Callable[..., Shop], tmp_path: Path) -> None:
    shop = new_shop()
    shop.change("sales", [1])
    request = shop.request()
    retrying = {"run_retries": {"enabled": True, "max_retries": 3}}
    (tmp_path / "retrying").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "retrying"), overrides=retrying) as instance:
        for tags, retried in (({}, True), (dict(request.tags), False)):
            run = add_run(instance, [SALES], DagsterRunStatus.FAILURE, tags)
            assert auto_reexecution_should_retry_run(instance, run, None) is retried


# --- one table that is out of order


def test_a_table_that_cannot_say_how_far_it_is_fails_alone(shop: Shop) -> None:
    runtime = shop.lake.runtime
    name = f"{shop.lake.config.catalog.name}.silver_shop.sales"
    runtime.catalog.create_namespace_if_not_exists("silver_shop")
    spark = runtime.sessions.root()
    spark.sql(f"CREATE TABLE {name} (id bigint, name string, at timestamp) USING iceberg")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'by hand', now())")
    shop.change("sales", [1])
    shop.change("notes", [1])
    failed = failures(shop.apply())
    assert list(failed) == ["sales"]
    assert "none of its snapshots has lake.log-offset" in failed["sales"]
    assert [row["id"] for row in shop.rows("silver_shop.notes")] == [1]
    assert shop.tick("freshness").skip_message == "6 of 8 checks evaluated"

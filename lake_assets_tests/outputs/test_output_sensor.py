"""An output in Dagster: its sensor, and the checks of the tables that it shows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lake_assets.lake import Lake
from lake_assets.orchestration.lake_definitions import build_definitions
from lake_assets.outputs.snowflake.snowflake_output import SnowflakeOutput
from lake_assets_tests.helpers.servers.glue import glue_server
from lake_assets_tests.helpers.servers.s3 import client
from lake_assets_tests.helpers.warehouses.snowflake_account import SnowflakeAccount
from lake_assets_tests.helpers.warehouses.snowflake_lake import commit, lake_of, raw

ORDERS = "silver_shop.orders"
ASSET = dg.AssetKey(["silver", "shop", "orders"])
CHECK = dg.AssetCheckKey(ASSET, "in_snowflake")


class Shown:
    """A lake's definitions with Snowflake, on an instance of Dagster."""

    def __init__(self, lake: Lake, account: SnowflakeAccount, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            "lake_assets.outputs.lake_outputs.SnowflakeOutput",
            lambda lake, longest: SnowflakeOutput(lake, account.connect, longest=longest),
        )
        self.lake, self.account = lake, account
        self.instance = dg.DagsterInstance.ephemeral()
        self.definitions = build_definitions(lake)

    def tick(self) -> Any:
        sensor = self.definitions.resolve_sensor_def("snowflake")
        repository = self.definitions.get_repository_def()
        with dg.build_sensor_context(instance=self.instance, repository_def=repository) as context:
            return sensor.evaluate_tick(context)

    def checked(self) -> dg.AssetCheckEvaluation | None:
        """The newest evaluation of the check."""
        records = self.instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=1)
        event = records[0].event if records else None
        return event.dagster_event.asset_check_evaluation_data if event and event.dagster_event else None


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with glue_server() as address:
        yield address


@pytest.fixture
def shown(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shown:
    bucket = tmp_path.name.replace("_", "-").lower()[:50]
    client("s3", endpoint).create_bucket(Bucket=bucket)
    lake = lake_of(raw(endpoint, bucket, tmp_path, refresh="each_commit", max_lag="0s"), tmp_path)
    if lake.runtime.catalog.table_exists(ORDERS):
        lake.runtime.catalog.drop_table(ORDERS)
    return Shown(lake, SnowflakeAccount(tmp_path / "account.json", tmp_path / "lake.yaml"), monkeypatch)


def test_a_tick_follows_the_commits(shown: Shown) -> None:
    assert shown.tick().skip_message == "nothing is new"
    commit(shown.lake, ORDERS)
    assert shown.tick().skip_message == "1 table created in Snowflake"
    commit(shown.lake, ORDERS)
    assert shown.tick().skip_message == "1 table refreshed in Snowflake"
    assert shown.account.shows()[ORDERS.upper()] == shown.account.newest(ORDERS)


def test_a_check_shows_the_lag(shown: Shown) -> None:
    commit(shown.lake, ORDERS)
    shown.tick()
    checked = shown.checked()
    assert checked is not None
    assert checked.passed
    assert checked.metadata["lag_seconds"].value == 0
    shown.account.fail(**{"ALTER ICEBERG": "the warehouse is suspended"})
    commit(shown.lake, ORDERS)
    with pytest.raises(dg.Failure, match="the warehouse is suspended"):
        shown.tick()
    checked = shown.checked()
    assert checked is not None
    assert not checked.passed
    assert float(str(checked.metadata["lag_seconds"].value)) > 0
    assert "the warehouse is suspended" in str(checked.metadata["reason"].value)


def test_the_check_can_be_run_by_hand(shown: Shown) -> None:
    commit(shown.lake, ORDERS)
    assert CHECK in shown.definitions.resolve_asset_graph().asset_check_keys
    job = shown.definitions.resolve_implicit_global_asset_job_def()
    selection = dg.AssetSelection.checks(CHECK)
    job = dg.define_asset_job("by_hand", selection=selection).resolve(
        asset_graph=shown.definitions.resolve_asset_graph()
    )
    done = job.execute_in_process(instance=shown.instance, resources={})
    (evaluation,) = done.get_asset_check_evaluations()
    assert (evaluation.asset_key, evaluation.passed) == (ASSET, False)
    assert shown.account.statements("CREATE") == []


def test_a_lake_that_is_synced_has_no_check_of_it(shown: Shown) -> None:
    """A run of an asset executes every check of it."""
    graph = build_definitions(shown.lake, checks=False).resolve_asset_graph()
    assert CHECK not in graph.asset_check_keys

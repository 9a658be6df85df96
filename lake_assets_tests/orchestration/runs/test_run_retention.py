"""Which runs are deleted from Dagster's history, on real instances."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import freeze_time

from lake_assets.config import MaintenanceConfig
from lake_assets.orchestration.runs import run_retention
from lake_assets.orchestration.runs.run_retention import OldRuns
from lake_assets.orchestration.shared.run_tags import OWN
from lake_assets_tests.helpers.orchestration.dagster_shop import Shop, open_instance

DAYS = dg.StaticPartitionsDefinition(["monday", "tuesday", "wednesday"])
LATER = datetime.now(UTC) + timedelta(days=2)
KEPT = MaintenanceConfig()
OURS = {OWN: "1"}


@dg.asset
def whole() -> None: ...


@dg.asset(partitions_def=DAYS)
def daily(context: dg.AssetExecutionContext) -> None:
    if context.run.tags.get("fails"):
        raise dg.Failure("on purpose")


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with open_instance(tmp_path / "dagster", keep_output=True) as opened:
        yield opened


def run(instance: dg.DagsterInstance, asset: dg.AssetsDefinition, day: str | None = None, **tags: str) -> str:
    """Runs one of the lake's; `own=""`: of somebody else."""
    own = {} if "own" in tags else OURS
    done = dg.materialize(
        [asset], instance=instance, partition_key=day, tags=own | tags, raise_on_error=False
    )
    return done.run_id


def left(instance: dg.DagsterInstance) -> set[str]:
    return {record.dagster_run.run_id for record in instance.get_run_records()}


def test_runs_that_hold_the_newest_rows_of_a_table_or_partition_stay(instance: dg.DagsterInstance) -> None:
    run(instance, whole)
    newest = run(instance, whole)
    run(instance, daily, "monday")
    tuesday = run(instance, daily, "tuesday")
    monday = run(instance, daily, "monday")
    assert OldRuns(KEPT, OURS).delete(instance, LATER) == 2
    assert left(instance) == {newest, monday, tuesday}
    assert instance.get_materialized_partitions(daily.key) == {"monday", "tuesday"}
    event = instance.get_latest_materialization_event(whole.key)
    assert event is not None
    assert event.run_id == newest


def test_young_runs_and_those_of_others_stay(instance: dg.DagsterInstance) -> None:
    mine, others = run(instance, whole), run(instance, whole, own="")
    newest = run(instance, whole)
    old = OldRuns(KEPT, OURS)
    assert old.delete(instance, datetime.now(UTC)) == 0
    assert old.delete(instance, LATER) == 1
    assert left(instance) == {others, newest}
    assert mine not in left(instance)


def test_failed_runs_stay_longer(instance: dg.DagsterInstance) -> None:
    failed = run(instance, daily, "monday", fails="1")
    assert OldRuns(KEPT, OURS).delete(instance, LATER) == 0
    assert left(instance) == {failed}
    assert OldRuns(KEPT, OURS).delete(instance, LATER + timedelta(days=14)) == 1
    assert (
        OldRuns(MaintenanceConfig(keep_runs=None, keep_failed_runs=None), OURS).delete(instance, LATER) == 0
    )


def test_the_sensor_deletes_old_runs_by_default(new_shop: Callable[..., Shop]) -> None:
    shop = new_shop()
    with freeze_time(datetime.now(UTC) - timedelta(days=2)):
        run(shop.instance, whole)
    young = {run(shop.instance, whole) for _ in range(2)}
    sensor = shop.definitions.get_repository_def().get_sensor_def("old_runs")
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    assert shop.refusal("old_runs") == "1 old run deleted"
    assert left(shop.instance) == young


def test_nothing_of_a_deleted_run_stays_on_disk(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    gone = run(instance, whole)
    run(instance, whole)
    assert [path for path in tmp_path.rglob("*") if gone in path.name]
    assert OldRuns(KEPT, OURS).delete(instance, LATER) == 1
    assert [path for path in tmp_path.rglob("*") if gone in path.name] == []


def test_every_page_is_looked_at(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs that stay are at the beginning, and must not hide the others."""
    monkeypatch.setattr(run_retention, "PAGE", 2)
    stay = {run(instance, daily, day) for day in ("monday", "tuesday", "wednesday")}
    for _ in range(3):
        newest = run(instance, whole)
    old = OldRuns(KEPT, OURS)
    assert sum(old.delete(instance, LATER) for _ in range(5)) == 2
    assert left(instance) == {*stay, newest}
    # And it begins anew.
    run(instance, daily, "monday")
    assert OldRuns(KEPT, OURS).delete_all(instance, LATER) == 1
    run(instance, daily, "monday")
    assert sum(old.delete(instance, LATER) for _ in range(5)) == 1

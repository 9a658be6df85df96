"""Which runs count as under way, and which are declared failed."""

import time
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
import pytest
from dagster import DagsterRunStatus
from dagster._core.events import AssetMaterializationPlannedData

from lake_assets.orchestration.runs.in_flight import LAUNCH_SECONDS, assets_in_flight
from lake_assets.orchestration.shared import heartbeat
from lake_assets.orchestration.shared.heartbeat import HEARTBEAT, SILENT_SECONDS, Heartbeat
from lake_assets_tests.helpers.orchestration.dagster_shop import NOTES, SALES, add_run, open_instance

TIMEOUT = SILENT_SECONDS
ELSEWHERE = dg.AssetKey(["another", "location"])


def in_flight(instance: dg.DagsterInstance, later: float = 0.0) -> dict[dg.AssetKey, list[str]]:
    return assets_in_flight(instance, [SALES, NOTES], now=time.time() + later)


def status(instance: dg.DagsterInstance, run_id: str) -> DagsterRunStatus:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


@pytest.mark.parametrize(
    ("of", "later", "counts"),
    [
        # A queued run needs no sign: nothing runs that could give one.
        (DagsterRunStatus.QUEUED, 0, True),
        (DagsterRunStatus.QUEUED, 1_000_000, True),
        # A container may take minutes to start, but not for ever.
        (DagsterRunStatus.NOT_STARTED, TIMEOUT + 10, True),
        (DagsterRunStatus.STARTING, TIMEOUT + 10, True),
        (DagsterRunStatus.STARTING, LAUNCH_SECONDS + 10, False),
        (DagsterRunStatus.NOT_STARTED, LAUNCH_SECONDS + 10, False),
        # Before its first heartbeat, the change of its state is a run's sign of life.
        (DagsterRunStatus.STARTED, TIMEOUT - 10, True),
        (DagsterRunStatus.STARTED, TIMEOUT + 10, False),
        (DagsterRunStatus.CANCELING, TIMEOUT + 10, False),
        (DagsterRunStatus.SUCCESS, 0, False),
        (DagsterRunStatus.FAILURE, 0, False),
        (DagsterRunStatus.CANCELED, 0, False),
    ],
)
def test_what_counts(instance: dg.DagsterInstance, of: DagsterRunStatus, later: float, counts: bool) -> None:
    run_id = add_run(instance, [SALES, ELSEWHERE], of).run_id
    assert in_flight(instance, later) == ({SALES: [run_id]} if counts else {})
    finished = of in (DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED)
    assert status(instance, run_id) is (of if counts or finished else DagsterRunStatus.FAILURE)


def test_a_heartbeat_keeps_a_run_alive_and_its_end_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.05)
    instance = open_instance(tmp_path)
    run_id = add_run(instance, [SALES], DagsterRunStatus.STARTED).run_id
    with Heartbeat(instance, run_id):
        time.sleep(0.3)
    run = instance.get_run_by_id(run_id)
    assert run is not None
    beat = float(run.tags[HEARTBEAT])
    assert abs(time.time() - beat) < 5
    assert assets_in_flight(instance, [SALES], now=beat + TIMEOUT - 1) == {SALES: [run_id]}
    assert assets_in_flight(instance, [SALES], now=beat + TIMEOUT + 5) == {}
    assert status(instance, run_id) is DagsterRunStatus.FAILURE


def test_a_heartbeat_that_was_copied_from_another_run_kills_nobody(instance: dg.DagsterInstance) -> None:
    # Re-executing a run in the UI copies its tags.
    run_id = add_run(
        instance, [SALES], DagsterRunStatus.STARTED, {HEARTBEAT: str(time.time() - 86_400)}
    ).run_id
    assert in_flight(instance) == {SALES: [run_id]}


def test_a_run_of_other_assets_is_left_alone(instance: dg.DagsterInstance) -> None:
    run_id = add_run(instance, [ELSEWHERE], DagsterRunStatus.STARTED).run_id
    assert in_flight(instance, 1_000_000) == {}
    assert status(instance, run_id) is DagsterRunStatus.STARTED


@pytest.mark.parametrize(("planned", "counts"), [([SALES], True), ([ELSEWHERE], False), ([], False)])
def test_a_job_that_was_launched_whole_computes_what_it_planned(
    instance: dg.DagsterInstance, planned: Sequence[dg.AssetKey], counts: bool
) -> None:
    run_id = add_run(instance, None, DagsterRunStatus.STARTED).run_id
    run = instance.get_run_by_id(run_id)
    assert run is not None
    for key in planned:
        event = dg.DagsterEvent.build_asset_materialization_planned_event(
            run.job_name, "step", AssetMaterializationPlannedData(key)
        )
        instance.report_dagster_event(event, run_id)
    assert in_flight(instance) == ({SALES: [run_id]} if counts else {})


def test_a_run_that_ends_while_it_is_looked_at_stays_as_it_ended(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = add_run(instance, [SALES], DagsterRunStatus.STARTED).run_id
    listed = instance.get_run_records()
    run = instance.get_run_by_id(run_id)
    assert run is not None
    instance.report_run_canceled(run)
    monkeypatch.setattr(instance, "get_run_records", lambda *arguments, **named: listed)
    assert in_flight(instance, 1_000_000) == {}
    assert status(instance, run_id) is DagsterRunStatus.CANCELED


def test_a_beat_that_cannot_be_written_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.02)
    beats = []

    class Unreachable:
        is_ephemeral = False

        def add_run_tags(self, run_id: str, tags: dict[str, str]) -> None:
            beats.append(tags)
            raise ConnectionError("the database is restarting")

    with Heartbeat(Unreachable(), "run"):  # type: ignore[arg-type]
        time.sleep(0.3)
    assert len(beats) > 2

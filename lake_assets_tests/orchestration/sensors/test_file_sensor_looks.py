"""What the file sensor says of what it finds, and how long it looks. Not here: what it requests
(`test_file_sensor.py`)."""

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster import DagsterRunStatus, RunsFilter

from lake_assets.bronze.scan.discovery import Discovery
from lake_assets.rounds.arrivals import Arrivals
from lake_assets_tests.helpers.orchestration.dagster_shop import BATCH, SALES, Shop

# --- the bucket


def test_an_empty_location_is_named(new_shop: Callable[..., Shop]) -> None:
    shop = new_shop()
    assert shop.tick().skip_message == f"no file is pending: {shop.folder / 'bronze'} holds no files"


def test_a_location_that_cannot_be_listed_is_named_and_recovers(new_shop: Callable[..., Shop]) -> None:
    shop = new_shop()
    bronze = shop.folder / "bronze"
    bronze.write_text("a file where the folder should be")
    with pytest.raises(Exception, match=str(bronze)):
        shop.tick()
    bronze.unlink()
    shop.change("sales", [1])
    assert shop.tick().run_requests


def test_strange_files_are_told_once(new_shop: Callable[..., Shop], caplog: pytest.LogCaptureFixture) -> None:
    shop = new_shop(automation={"poll_interval": "0.05s"})
    shop.window = 1.0
    stranger = shop.folder / "bronze/readme.txt"
    stranger.parent.mkdir(parents=True)
    stranger.write_text("not from DMS")
    shop.change("stocks", [1])
    with caplog.at_level(logging.WARNING, "lake_assets.rounds.arrivals"):
        outcome = shop.tick()
        shop.tick()
    assert len([r for r in caplog.records if "readme.txt" in r.getMessage()]) == 1
    assert len([r for r in caplog.records if "public.stocks" in r.getMessage()]) == 1
    assert outcome.skip_message
    assert "2 are of no configured table, such as readme.txt" in outcome.skip_message


def test_a_look_that_takes_longer_than_a_tick_goes_on_in_the_next(
    new_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = new_shop(automation={"poll_interval": "0.1s"})
    shop.window = 0.2
    shop.change("sales", [1])
    # Before the slow bucket: pending, and to be requested whatever the look does. On a busy machine even this look may
    # take longer than one of these short ticks.
    patience = time.monotonic() + 20
    while not shop.tick().run_requests:
        assert time.monotonic() < patience
    slow, looks = threading.Event(), []
    real = Arrivals.scan

    def look(self: Arrivals, wait_seconds: float = 0.0) -> Discovery:
        looks.append(1)
        slow.wait(30)
        return real(self, wait_seconds)

    monkeypatch.setattr(Arrivals, "scan", look)
    shop.restart()
    shop.change("notes", [1])
    began = time.monotonic()
    request = shop.request()
    assert set(request.asset_selection or ()) == {SALES, BATCH}
    shop.tick()
    assert time.monotonic() - began < 20
    assert len(looks) == 1
    slow.set()
    end = time.monotonic() + 20
    while len(shop.instance.get_materialized_partitions(dg.AssetKey(["bronze", "shop", "notes"]))) < 1:
        assert time.monotonic() < end
        shop.tick()


def test_polling_leaves_most_of_the_machine_to_the_runs() -> None:
    from lake_assets.config import AutomationConfig
    from lake_assets.orchestration.sensors.polling import poll

    clock, pauses = [0.0], []

    def look() -> dg.SensorResult:
        clock[0] += 0.25
        return dg.SensorResult(skip_reason="nothing")

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock[0] += seconds

    automation = AutomationConfig(poll_interval=timedelta(seconds=0.5))
    poll(look, automation, clock=lambda: clock[0], sleep=sleep)
    assert pauses == [1.0, 1.0, 1.0]
    assert clock[0] <= 4


def test_what_is_found_within_a_tick_is_requested_at_once(new_shop: Callable[..., Shop]) -> None:
    shop = new_shop(automation={"poll_interval": "0.1s"})
    shop.window = 20.0
    timer = threading.Timer(1.0, shop.change, ("sales", [1]))
    timer.start()
    began = time.monotonic()
    assert shop.tick().run_requests
    assert time.monotonic() - began < 15
    assert shop.instance.get_runs(RunsFilter(statuses=[DagsterRunStatus.FAILURE])) == []


def test_paths_are_not_in_the_run(new_shop: Callable[..., Shop], tmp_path: Path) -> None:
    shop = new_shop()
    shop.change("sales", [1])
    request = shop.request()
    assert str(tmp_path) not in str(dict(request.tags))

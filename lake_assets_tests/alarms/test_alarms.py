"""Alarms against a real HTTP server, over a mart that PyIceberg wrote: once per rack and spell, whatever dies.

Here: what is sent and when, and mistakes in lake.yaml. Not here: the alarms of a lake that Spark and Dagster fill
(`test_alarms_of_runs.py`).
"""

import sqlite3
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lake_assets.alarms.send_alarms import AlarmRound
from lake_assets.config import LakeConfig
from lake_assets.errors import LakeError
from lake_assets.lake import open_lake
from lake_assets.orchestration.lake_definitions import build_definitions
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.marts.alarm_lake import ALARM, SINCE, lake_of, rack, raw, sent, write
from lake_assets_tests.helpers.servers.webhook import TOKEN, Webhook, webhook_server


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with webhook_server() as found:
        yield found


def test_once_per_rack_and_spell(tmp_path: Path, webhook: Webhook) -> None:
    lake = lake_of(tmp_path, webhook.address)
    assert sent(lake).problems == [], "a mart that is not there yet raises no alarm"
    write(lake, rack(1), rack(2, "within limit"), rack(3, since=None))
    assert len(sent(lake).sent) == 1
    assert webhook.texts == ["Rack 1 is empty since 2026-03-01 12:00:00+00:00."]
    assert webhook.bodies[0]["row"]["station_id"] == 1
    assert webhook.bodies[0]["mart"] == "racks_empty_now"

    write(lake, rack(1, "breach"), rack(2), rack(3))
    sent(lake)
    assert webhook.texts[1:] == [f"Rack {n} is empty since 2026-03-01 12:00:00+00:00." for n in (2, 3)]
    write(lake)
    write(lake, rack(1))
    assert sent(lake) == AlarmRound(), (
        "the same spell, computed again: nothing is due, not even for another sender"
    )
    write(lake, rack(1, since=SINCE + timedelta(hours=1)))
    assert len(sent(lake).sent) == 1, "the next spell of the same rack"
    assert len(set(webhook.ids)) == len(webhook.ids) == 4


@pytest.mark.parametrize("fault", ["gone", "broken", "silent"])
def test_a_dead_webhook_is_reported_and_tried_again(
    tmp_path: Path, webhook: Webhook, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.alarms.webhook.TIMEOUT", timedelta(seconds=1))
    address = webhook.address
    if fault == "gone":
        address = f"http://127.0.0.1:{free_port()}/hooks/{TOKEN}"
    elif fault == "broken":
        webhook.status = 503
    else:
        webhook.silent_seconds = 5
    lake = lake_of(tmp_path, address)
    write(lake, rack(1), rack(2))
    began = time.monotonic()
    done = sent(lake)
    assert time.monotonic() - began < 12, "the round ends, however many alarms wait"
    assert [alarm.text[:6] for alarm in done.unsent] == ["Rack 1", "Rack 2"]
    assert "the webhook at 127.0.0.1" in done.problems[0]
    assert "2 alarms wait for the next round" in done.problems[0]
    assert TOKEN not in str(done.problems) + repr(lake.config)
    if fault == "broken":
        assert webhook.requests == 3, "one alarm, tried three times"
    webhook.status, webhook.silent_seconds = 200, 0
    webhook.bodies.clear()
    done = sent(lake_of(tmp_path, webhook.address))
    assert done.problems == []
    assert [text[:6] for text in webhook.texts] == ["Rack 1", "Rack 2"]


def test_an_alarm_that_is_refused_does_not_hold_up_the_others(tmp_path: Path, webhook: Webhook) -> None:
    webhook.status = 400
    lake = lake_of(tmp_path, webhook.address)
    write(lake, rack(1), rack(2))
    done = sent(lake)
    assert len(done.unsent) == 2
    assert webhook.requests == 2
    assert all("answered 400" in problem for problem in done.problems)
    webhook.status = 200
    assert len(sent(lake).sent) == 2, "a refused alarm is tried again"


def test_a_mart_that_cannot_be_read_is_reported(tmp_path: Path, webhook: Webhook) -> None:
    lake = lake_of(tmp_path, webhook.address)
    write(lake, rack(1))
    with sqlite3.connect(tmp_path / "catalog.db") as catalog:
        catalog.execute("UPDATE iceberg_tables SET metadata_location = ?", [str(tmp_path / "gone.json")])
    assert "gold.racks_empty_now cannot be read" in sent(lake).problems[0]


def test_without_a_webhook_nothing_is_sent(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "")
    write(lake, rack(1))
    assert sent(lake) == AlarmRound()
    assert "alarms" not in {sensor.name for sensor in build_definitions(lake).sensors or ()}


def test_the_sensor_sends_alarms_and_its_tick_fails_while_the_webhook_does(
    tmp_path: Path, webhook: Webhook
) -> None:
    lake = lake_of(tmp_path, webhook.address)
    write(lake, rack(1))
    (sensor,) = [sensor for sensor in build_definitions(lake).sensors or () if sensor.name == "alarms"]
    assert isinstance(sensor, dg.SensorDefinition)
    webhook.status = 500
    with dg.instance_for_test() as instance:
        with pytest.raises(dg.Failure, match=r"answered 500, and 1 alarm waits for the next round"):
            sensor(dg.build_sensor_context(instance=instance))
        webhook.status = 200
        found = sensor(dg.build_sensor_context(instance=instance))
        assert isinstance(found, dg.SkipReason)
        assert found.skip_message == "1 alarm was sent"
    assert len(webhook.bodies) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"spell": "since"}, r"racks_empty_now: spell names since; the mart has"),
        ({"key": ["rack"]}, r"racks_empty_now: key names rack; the mart has"),
        ({"text": "{rack} is empty"}, r"racks_empty_now: text names rack; the mart has"),
        ({"where": "state ="}, r"racks_empty_now: where cannot be read at character"),
        ({"where": "colour = 'red'"}, r"racks_empty_now: where does not fit the mart \(.*colour"),
    ],
)
def test_a_mistake_is_refused_when_the_lake_is_opened(
    tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(LakeError, match=message):
        lake_of(tmp_path, None, **wrong)


def test_an_alarm_needs_a_mart_and_a_webhook_an_address(tmp_path: Path) -> None:
    given = raw(tmp_path, None)
    given["alarms"]["marts"]["racks_of_steel"] = ALARM
    with pytest.raises(LakeError, match=r"alarms.marts.racks_of_steel: gold.marts has no mart of this name"):
        open_lake(LakeConfig.model_validate(given))
    with pytest.raises(ValueError, match=r"is not the address of a webhook") as refused:
        LakeConfig.model_validate(raw(tmp_path, f"hooks.example.org/{TOKEN}"))
    assert TOKEN not in str(refused.value)

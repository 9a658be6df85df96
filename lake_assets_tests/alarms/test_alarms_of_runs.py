"""The alarms of a lake that real runs fill: `sync` and the runs of Dagster's sensors, from a DMS file to the webhook.

Not here: the cases (`test_alarms.py`).
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from lake_assets_tests.helpers.lakes.bike_lake import BikeLake, Row, at, station, status
from lake_assets_tests.helpers.lakes.command_lake import call
from lake_assets_tests.helpers.servers.webhook import Webhook, webhook_server

pytestmark = pytest.mark.spark


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with webhook_server() as found:
        yield found


def lake_yaml(bikes: BikeLake, webhook: str) -> Path:
    """A lake.yaml beside the lake of `bikes`, with an alarm; its folder."""
    config = bikes.lake.config
    assert config.catalog.uri is not None
    given: dict[str, Any] = {
        "catalog": {
            "name": config.catalog.name,
            "uri": config.catalog.uri.get_secret_value(),
            "warehouse": config.catalog.warehouse,
        },
        "sources": {"bikeshare": config.sources["bikeshare"].model_dump(mode="json", exclude_unset=True)},
        "spark": config.spark.model_dump(mode="json", exclude_unset=True),
        "gold": config.gold.model_dump(mode="json", exclude_unset=True),
        "alarms": {
            "webhook": webhook,
            "marts": {
                "racks_empty_now": {
                    "key": ["station_id"],
                    "spell": "empty_since",
                    "where": "state = 'close' OR state = 'breach'",
                    "text": "{name} is empty since {empty_since}.",
                }
            },
        },
    }
    (bikes.folder / "lake.yaml").write_text(yaml.safe_dump(given), encoding="utf-8")
    return bikes.folder


def change(bikes: BikeLake, when: datetime, number: int, available: int) -> None:
    bikes.change(when, ("station_status", "U", status(number, available, when)))


def test_sync_sends_one_alarm_for_each_spell_of_a_rack(
    spark: Any, tmp_path: Path, webhook: Webhook, capfd: pytest.CaptureFixture[str]
) -> None:
    bikes = BikeLake(tmp_path)
    folder = lake_yaml(bikes, webhook.address)
    rows: list[Row] = [station(1, "Old Town"), station(2, "Old Town")]
    bikes.load("stations", at(1, "08:00"), rows)
    bikes.load("trips", at(1, "08:00"), [])
    bikes.load("station_status", at(1, "08:00"), [status(n, 5, at(1, "08:00")) for n in (1, 2)])
    change(bikes, at(1, "10:00"), 1, 0)
    change(bikes, at(1, "10:25"), 2, 4)
    webhook.status = 503
    assert call(folder, "sync") == 0, "a dead webhook fails nothing"
    assert "answered 503, and 1 alarm waits for the next round" in capfd.readouterr().err.replace("\n", " ")
    webhook.status = 200
    assert call(folder, "sync") == 0
    assert webhook.texts == ["Rack 1 is empty since 2024-03-01 10:00:00+00:00."], "with nothing else to do"
    change(bikes, at(1, "10:40"), 2, 3)
    assert call(folder, "sync") == 0
    assert len(webhook.bodies) == 1, "in breach now, in the same spell"
    change(bikes, at(1, "10:41"), 1, 2)
    change(bikes, at(1, "11:00"), 1, 0)
    change(bikes, at(1, "11:25"), 2, 2)
    assert call(folder, "sync") == 0
    assert webhook.texts[1:] == ["Rack 1 is empty since 2024-03-01 11:00:00+00:00."]

"""Settings that a lake.yaml of an earlier release may still have: they have no effect, and a warning says so.

Here: reading them, and that the values that the warnings name are those of the code. Not here: other keys that are not
known (`test_mistakes.py`).
"""

import logging
from datetime import timedelta
from typing import Any

import pytest

from lake_assets.alarms import webhook
from lake_assets.bronze.scan import object_listing
from lake_assets.bronze.stream import landing
from lake_assets.config import parse_duration
from lake_assets.config.automation import ABANDONED_AFTER
from lake_assets.config.config_file import load_lake
from lake_assets.config.reading.former import ANY, FORMER, without_former
from lake_assets.iceberg.upkeep import parts_and_limits, retention
from lake_assets.orchestration.checks import data_checks
from lake_assets.orchestration.runs import continuous_job, kept_alive
from lake_assets.orchestration.sensors import file_sensor, polling
from lake_assets.orchestration.shared import heartbeat
from lake_assets.rounds import backoff, maintenance
from lake_assets.silver.reconcile import apply_cost
from lake_assets.storage import secret_values
from lake_assets_tests.helpers.texts.lake_text import GOOD

NOW: dict[str, object] = {
    "alarms.timeout": webhook.TIMEOUT,
    "automation.backoff_base": backoff.FIRST_WAIT,
    "automation.backoff_max": backoff.LONGEST_WAIT,
    "automation.bronze_every": timedelta(seconds=file_sensor.REPORT_SECONDS),
    "automation.continuous.hand_over_after": timedelta(seconds=kept_alive.HAND_OVER_SECONDS),
    "automation.continuous.hand_over_events": continuous_job.HAND_OVER_EVENTS,
    "automation.continuous.maintain_after": maintenance.MAINTAIN_AFTER,
    "automation.continuous.report_every": timedelta(seconds=continuous_job.REPORT_SECONDS),
    "automation.heartbeat_interval": timedelta(seconds=heartbeat.BEAT_SECONDS),
    "automation.heartbeat_timeout": timedelta(seconds=heartbeat.SILENT_SECONDS),
    "automation.poll_window": timedelta(seconds=polling.WINDOW_SECONDS),
    "checks.history": data_checks.HISTORY,
    "checks.reconcile.slices": apply_cost.SLICES,
    "maintenance.abandoned_after": ABANDONED_AFTER,
    "maintenance.keep_for_marts": retention.KEPT_FOR_MARTS,
    "maintenance.max_snapshots": retention.MAX_SNAPSHOTS,
    "maintenance.min_small_files": parts_and_limits.MIN_SMALL_FILES,
    "maintenance.target_file_size_mb": parts_and_limits.FILE_SIZE >> 20,
    f"sources.{ANY}.stream.most_messages": landing.MOST_MESSAGES,
    "secrets.ttl": timedelta(seconds=secret_values.KEPT),
}
"""By former setting, the constant that took its place."""


def test_the_warnings_name_the_values_of_the_code() -> None:
    texts = {".".join(map(str, keys)): now for keys, now in FORMER.items()}
    assert texts.pop(f"sources.{ANY}.listing") == (
        f"whole_below {object_listing.WHOLE_BELOW}, tails {object_listing.TAILS}, pages {object_listing.PAGES}, "
        f"threads {object_listing.THREADS} and overlap {object_listing.OVERLAP // timedelta(minutes=1)}m"
    )
    assert {name: int(now) if now.isdecimal() else parse_duration(now) for name, now in texts.items()} == NOW


def test_a_former_setting_is_taken_out_and_named_once(load, tmp_path, caplog) -> None:
    text = GOOD.replace("    tables:\n", "    listing: {tails: none of a number}\n    tables:\n", 1)
    text += "checks: {schedule: 0 4 * * *, history: 3, reconcile: {slices: 2}}\n"
    lake = load(text)
    file = tmp_path / "lake.yaml"
    load_lake(file)
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    end = "Remove the line."
    assert sorted(found) == [
        f"{file}: checks.history is no longer a setting and has no effect: the lake uses 14. {end}",
        f"{file}: checks.reconcile.slices is no longer a setting and has no effect: the lake uses 7. {end}",
        f"{file}: sources.bikeshare.listing is no longer a setting and has no effect: the lake uses "
        f"{FORMER['sources', ANY, 'listing']}. {end}",
    ]
    assert (lake.checks.schedule, lake.checks.reconcile is not None) == ("0 4 * * *", True)


@pytest.mark.parametrize("keys", FORMER, ids=".".join)
def test_every_former_setting_is_found_at_its_place(keys: tuple[str, ...]) -> None:
    place = ["shop" if key == ANY else key for key in keys]
    content: Any = "whatever"
    for key in reversed(place):
        content = {key: content}
    assert [found for found, _ in without_former(content)] == [tuple(place)]
    assert without_former(content) == []


def test_other_keys_that_are_not_known_are_refused_as_before(refusal) -> None:
    (said,) = refusal(GOOD + "secrets: {ttk: 5m}\n")
    assert said.startswith("secrets.ttk: is not a known key; known are region, endpoint")
    assert without_former({"sources": ["listing"], "secrets": None, "checks": "history"}) == []

"""The real thing, as a user has it: `make dev`, files that land, and nobody who clicks.

Here: webserver, daemon, code server, run processes and the warm Spark together, a run for each batch, killed once in
the middle. One Dagster for the whole module, because it is slow to start; so the tests build on each other, in this
order. Not here: what the sensors decide, case by case (`sensors/`), one run that stays up, as
shipped (`test_continuous_daemon.py`), plain `dagster dev` (`test_plain_dagster_dev.py`).
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lake_assets.alarms.alarm_log import AlarmLog
from lake_assets.alarms.send_alarms import unsent_alarms
from lake_assets.demo.feed import run_feed
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.spark.connect.connect_server import port_in_use
from lake_assets_tests.helpers.orchestration.dagster_dev import (
    KEPT,
    MARTS,
    REPOSITORY,
    SILVER,
    Dev,
    bikes_change,
    caught_up,
    differences,
    history_lands,
    running,
    trips_by_day,
)
from lake_assets_tests.helpers.processes.child import environment
from lake_assets_tests.helpers.servers.webhook import Webhook, webhook_server

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]


@pytest.fixture(scope="module")
def webhook() -> Iterator[Webhook]:
    """Where the alarms go."""
    with webhook_server() as found:
        yield found


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory, webhook: Webhook) -> Iterator[Dev]:
    yield from running(tmp_path_factory.mktemp("dev"), webhook=webhook.address)


def test_files_that_land_become_silver_and_marts_with_nobody_clicking(dev: Dev) -> None:
    history_lands(dev)

    # What Dagster shows agrees with what the lake holds.
    def shown() -> dict[str, Any] | None:
        assets = dev.assets()
        keys = [f"silver/bikeshare/{name}" for name in SILVER] + [f"gold/{name}" for name in MARTS]
        return assets if all(assets[key]["assetMaterializations"] for key in keys) else None

    assets = dev.wait("materializations", shown)
    days = len(trips_by_day(dev))
    assert assets["bronze/bikeshare/trips"]["partitionStats"]["numMaterialized"] >= 2
    assert assets["gold/station_daily"]["partitionStats"]["numMaterialized"] >= days
    assert "bronze/bikeshare/members" not in assets
    assert all(run["tags"]["dagster/sensor_name"] in ("bikeshare_files", "marts") for run in dev.runs())
    assert (dev.folder / ".lake/dagster").is_dir()

    # A healthy lake logs no error, at the end of its runs neither, and nothing of outputs that it has logged.
    dev.wait("end of all runs", lambda: all(run["status"] in ("SUCCESS", "FAILURE") for run in dev.runs()))
    said = (dev.folder / "dev.log").read_text(errors="replace").splitlines()
    assert any("which lake.yaml does not configure" in line for line in said), "what a run says is there"
    assert not [line[:500] for line in said if re.search(r'"level": "ERROR"|\bERROR\b|did not yield', line)]
    assert "SESSION_CLOSED" not in (dev.folder / ".lake/spark-connect.log").read_text(errors="replace")


def test_materialize_applies_what_is_pending(dev: Dev) -> None:
    """A user clicks "Materialize" on silver while the sensor is off; bronze does not offer it."""
    lake, assets = dev.lake(), dev.assets()
    bronze = {f"bronze/bikeshare/{name}" for name in KEPT}
    assert {key for key, node in assets.items() if not node["isMaterializable"]} == bronze
    assert {key for key, node in assets.items() if not node["isExecutable"]} == bronze

    stop_sensor(dev, "bikeshare_files")
    dev.wait("end of all runs", lambda: all(run["status"] in ("SUCCESS", "FAILURE") for run in dev.runs()))
    run_feed(dev.folder / ".lake/bronze", dev.database, rate=100, flush_seconds=0.5, duration=1, seed=3)
    log_arrivals(lake.runtime, "bikeshare")
    assert differences(dev, lake)
    run = dev.materialize(*(f"silver/bikeshare/{name}" for name in SILVER))
    dev.wait("equal tables", lambda: not differences(dev, lake))

    def recorded() -> bool:
        newest = dev.assets()["silver/bikeshare/trips"]["assetMaterializations"][0]
        return bool(newest["runId"] == run)

    dev.wait("its materialization", recorded)
    start_sensor(dev, "bikeshare_files")


def test_the_daemon_sends_one_alarm_for_a_rack(dev: Dev, webhook: Webhook) -> None:
    """It comes close to its limit of a minute, and exceeds it. A later spell: `alarms/test_alarms_of_runs.py`."""
    lake = dev.lake()

    def state() -> str | None:
        rows = lake.runtime.catalog.load_table("gold.racks_empty_now").scan().to_arrow().to_pylist()
        return next((row["state"] for row in rows if row["station_id"] == 1), None)

    def of_the_rack() -> list[str]:
        return [body["row"]["empty_since"] for body in webhook.bodies if body["row"]["station_id"] == 1]

    bikes_change(dev, (1, {1: 0}), (46, {2: 1}))
    dev.wait("first alarm", of_the_rack)
    bikes_change(dev, (20, {2: 2}))
    dev.wait("breach", lambda: state() == "breach")
    ticks = alarm_ticks(dev)
    dev.wait("two more rounds", lambda: alarm_ticks(dev) >= ticks + 2)
    assert len(of_the_rack()) == 1, "it is the same spell"
    assert webhook.requests == len(set(webhook.ids)), "of no rack is an alarm sent twice"


@pytest.mark.parametrize("first", ["daemon", "sync"])
def test_the_daemon_and_a_sync_at_once_send_each_alarm_once(
    dev: Dev, webhook: Webhook, first: str, tmp_path: Path
) -> None:
    """The webhook is so slow that the second one begins while the first one is sending."""
    lake = dev.lake() if dev.database.exists() else history_lands(dev)
    racks = range(3, 8) if first == "daemon" else range(8, 13)
    stop_sensor(dev, "alarms")
    bikes_change(dev, (1, dict.fromkeys(racks, 0)), (46, {2: 1}))
    dev.wait("equal tables and marts", lambda: caught_up(dev, lake))

    def every_rack() -> set[str]:
        found = {alarm.id for alarm in unsent_alarms(lake.runtime, AlarmLog(lake.runtime.catalog))[0]}
        return found if len(found) >= len(racks) else set()

    due = dev.wait("alarms of every rack", every_rack)
    before, sent = webhook.requests, len(webhook.ids)
    webhook.silent_seconds = 3.0
    try:
        if first == "daemon":
            start_sensor(dev, "alarms")
            dev.wait("the daemon's first request", lambda: webhook.requests > before)
            with syncing(dev, tmp_path / "out") as sync:
                assert sync.wait(200) == 0
            assert "another process is sending" in (tmp_path / "out").read_text()
        else:
            with syncing(dev, tmp_path / "out") as sync:
                dev.wait("the first request of sync", lambda: webhook.requests > before)
                start_sensor(dev, "alarms")
                dev.wait("tick of the daemon", lambda: "another process is sending" in newest_skip(dev))
                assert sync.poll() is None, (
                    "the daemon has looked after the end, so that the test shows nothing"
                )
                assert sync.wait(200) == 0
        dev.wait("all alarms", lambda: due <= set(webhook.ids))
    finally:
        webhook.silent_seconds = 0.0
    ticks = alarm_ticks(dev)
    dev.wait("two more rounds", lambda: alarm_ticks(dev) >= ticks + 2)
    assert sorted(webhook.ids[sent:]) == sorted(due)
    assert webhook.requests - before == len(due)


@contextmanager
def syncing(dev: Dev, output: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Inside the block, `lake-assets sync` runs in the lake's folder."""
    command = [sys.executable, "-m", "lake_assets.cli", "sync"]
    with (
        output.open("wb") as out,
        subprocess.Popen(command, cwd=dev.folder, env=environment(), stdout=out, stderr=out) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def alarm_ticks(dev: Dev) -> int:
    """How often the sensor of alarms has looked; none of its ticks may have failed."""
    found = sensor(dev, "alarms", 1000)["ticks"]
    assert not [tick for tick in found if tick["status"] == "FAILURE"]
    return sum(tick["status"] == "SKIPPED" for tick in found)


def newest_skip(dev: Dev) -> str:
    """What the newest tick of the sensor of alarms has said."""
    return str(sensor(dev, "alarms")["ticks"][0]["skipReason"])


def sensor(dev: Dev, name: str, limit: int = 1) -> Any:
    """Id, status and newest ticks of a sensor."""
    wanted = f"{{... on Sensor{{sensorState{{id status ticks(limit: {limit}){{status skipReason}}}}}}}}"
    return dev.query(f"{{sensorOrError({selected(name)}){wanted}}}")["sensorOrError"]["sensorState"]


def stop_sensor(dev: Dev, name: str) -> None:
    """As a user switches it off. A tick that is running then may switch it on again when it ends."""

    def is_off() -> bool:
        found = sensor(dev, name)
        if found["status"] != "STOPPED":
            dev.query(f'mutation{{stopSensor(id: "{found["id"]}"){{__typename}}}}')
        return bool(found["status"] == "STOPPED" and found["ticks"][0]["status"] != "STARTED")

    dev.wait("end of its ticks", is_off)


def start_sensor(dev: Dev, name: str) -> None:
    """As a user switches it on."""
    dev.query(f"mutation{{startSensor({selected(name)}){{__typename}}}}")


def selected(name: str) -> str:
    """A sensor, as an argument of GraphQL queries."""
    return f'sensorSelector: {{{REPOSITORY}, sensorName: "{name}"}}'


def test_a_spark_that_is_killed_is_started_again_beside_dagster(dev: Dev) -> None:
    lake = dev.lake() if dev.database.exists() else history_lands(dev)
    file = dev.folder / ".lake/spark-connect.pid"
    for seed in range(3):
        pid, port = map(int, file.read_text().split())
        run_feed(
            dev.folder / ".lake/bronze", dev.database, rate=100, flush_seconds=0.5, duration=1, seed=10 + seed
        )
        os.kill(pid, signal.SIGKILL)
        dev.wait("another Spark", lambda: port_in_use(file.parent) if str(pid) not in file.read_text() else 0)  # noqa: B023
        assert port_in_use(file.parent) == port
    dev.wait("equal tables", lambda: not differences(dev, lake))
    assert "Spark Connect had died and was restarted" in (dev.folder / "dev.log").read_text(errors="replace")


def test_killed_in_the_middle_of_a_run_it_goes_on_where_it_was(dev: Dev) -> None:
    """kill -9 of everything while a run is under way: Dagster believes for ever that it is."""
    lake = dev.lake() if dev.database.exists() else history_lands(dev)
    dev.wait("end of all runs", lambda: all(run["status"] in ("SUCCESS", "FAILURE") for run in dev.runs()))
    run_feed(dev.folder / ".lake/bronze", dev.database, rate=200, flush_seconds=0.5, duration=2, seed=4)

    def started() -> str | None:
        for run in dev.runs():
            if run["status"] == "STARTED" and run["tags"]["dagster/sensor_name"] == "bikeshare_files":
                return str(run["runId"])
        return None

    dead = dev.wait("started run", started)
    assert differences(dev, lake)
    dev.kill_all()

    dev.up()
    dev.wait("equal tables", lambda: not differences(dev, lake))
    (status,) = {run["status"] for run in dev.runs() if run["runId"] == dead}
    assert status == "FAILURE"


def test_everything_ends_together(dev: Dev) -> None:
    assert dev.processes()
    dev.end()
    assert not list(dev.folder.glob(".tmp_dagster_home*")), "nor after it was killed"

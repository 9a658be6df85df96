"""`make dev` as it is shipped: one run that stays up applies all files, and Dagster's UI shows what it does.

Here: the tables, an alarm, where partitions begin, the asset graph in a browser, "Materialize" while that run is under
way, and the end of all processes. One Dagster for the whole module; the tests build on each other, in this order. Not
here: rounds, case by case (`runs/test_continuous.py`), a run for each batch (`test_daemon.py`), a lake with two files
alone (`test_dev_partitions.py`).

LAKE_SCREENSHOT=path keeps the picture of the asset graph there.
"""

import os
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lake_assets.demo.feed import run_feed
from lake_assets_tests.helpers.orchestration.asset_graph import asset_nodes
from lake_assets_tests.helpers.orchestration.dagster_dev import (
    KEPT,
    MARTS,
    SILVER,
    Dev,
    bikes_change,
    caught_up,
    first_partition,
    history_lands,
    running,
    trips_by_day,
    trips_in_mart,
)
from lake_assets_tests.helpers.servers.webhook import Webhook, webhook_server

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CONTINUOUS = '{pipelineName: "bikeshare_continuous"}'
"""A filter of runs."""


@pytest.fixture(scope="module")
def webhook() -> Iterator[Webhook]:
    """Where the alarms go."""
    with webhook_server() as found:
        yield found


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory, webhook: Webhook) -> Iterator[Dev]:
    yield from running(tmp_path_factory.mktemp("dev"), webhook=webhook.address, continuous=True)


def the_run(dev: Dev) -> str:
    """The run that stays up: there is one, and it is under way."""
    (run,) = dev.runs(CONTINUOUS)
    assert run["status"] == "STARTED"
    return str(run["runId"])


def test_files_that_land_become_silver_and_marts(dev: Dev) -> None:
    dev.wait("the run", lambda: [run for run in dev.runs(CONTINUOUS) if run["status"] == "STARTED"])
    # Not before: the sensor of files has a run of its own for what lands before.
    history_lands(dev, past_trips=0)
    run = the_run(dev)

    def shown() -> dict[str, Any] | None:
        assets = dev.assets()
        keys = [f"silver/bikeshare/{name}" for name in SILVER] + [f"gold/{name}" for name in MARTS]
        return assets if all(assets[key]["assetMaterializations"] for key in keys) else None

    assets = dev.wait("materializations", shown)
    of_silver = {assets[f"silver/bikeshare/{name}"]["assetMaterializations"][0]["runId"] for name in SILVER}
    assert of_silver == {run}
    assert assets["gold/station_daily"]["partitionStats"]["numMaterialized"] >= len(trips_by_day(dev))
    bronze = {f"bronze/bikeshare/{name}" for name in KEPT}
    assert {key for key, node in assets.items() if not node["isMaterializable"]} == bronze
    assert {key for key, node in assets.items() if not node["isExecutable"]} == bronze


def test_an_alarm_is_sent(dev: Dev, webhook: Webhook) -> None:
    """Of a rack that comes close to its limit of a minute. Its spell, breach and end: `alarms/`."""
    bikes_change(dev, (1, {1: 0}), (46, {2: 1}))
    dev.wait("an alarm", lambda: [body for body in webhook.bodies if body["row"]["station_id"] == 1])
    assert webhook.requests == len(set(webhook.ids)), "of no rack is an alarm sent twice"


def test_partitions_begin_with_the_data(dev: Dev) -> None:
    """The definitions are loaded again without anybody's doing; before, partitions began with `gold.start_date`."""
    # Of bronze, by the first file of changes, which may be of the day after the source's first change.
    files = (dev.folder / ".lake/bronze/public/trips").glob("2*.csv")
    landed = datetime.strptime(min(file.name for file in files)[:8], "%Y%m%d").replace(tzinfo=UTC)
    for key, day in (("bronze/bikeshare/trips", landed.date()), ("gold/station_daily", dev.start.date())):
        dev.wait(f"first day of {key}", lambda: first_partition(dev, key) == str(day))  # noqa: B023


def test_materialize_beside_it(dev: Dev) -> None:
    """Of silver, while the other run applies the same files: both go on, and no row is applied twice."""
    lake, run = dev.lake(), the_run(dev)
    run_feed(dev.folder / ".lake/bronze", dev.database, rate=100, flush_seconds=0.5, duration=2, seed=3)
    clicked = dev.materialize(*(f"silver/bikeshare/{name}" for name in SILVER))

    def ended() -> str | None:
        (status,) = [found["status"] for found in dev.runs() if found["runId"] == clicked]
        return str(status) if status in ("SUCCESS", "FAILURE") else None

    assert dev.wait("end of the run", ended) == "SUCCESS"
    dev.wait("equal tables and marts", lambda: caught_up(dev, lake))
    assert trips_in_mart(lake) == trips_by_day(dev)
    assert the_run(dev) == run


@pytest.mark.browser
def test_the_asset_graph_shows_all_three_layers(dev: Dev, tmp_path: Path) -> None:
    """With the state of each asset and the outcome of each check, not as in progress, while the run is under way."""
    run, picture = the_run(dev), tmp_path / "asset_graph.png"
    nodes = asset_nodes(dev, tmp_path / "profile", picture)
    names: dict[str, set[str]] = {}
    for name, text in nodes:
        layer = "bronze" if "File" in text else "gold" if name in MARTS else "silver"
        names.setdefault(layer, set()).add(name)
    assert names == {"bronze": set(KEPT), "silver": set(SILVER), "gold": set(MARTS)}
    computed = [text for name, text in nodes if "File" not in text]
    assert all("Materialized" in text or "filled" in text for text in computed), computed
    assert picture.stat().st_size > 20_000
    assert the_run(dev) == run
    if wanted := os.environ.get("LAKE_SCREENSHOT"):
        shutil.copy(picture, wanted)


def test_a_healthy_lake_logs_no_error(dev: Dev) -> None:
    said = (dev.folder / "dev.log").read_text(errors="replace").splitlines()
    assert any("which lake.yaml does not configure" in line for line in said), "what a run says is there"
    assert not [line[:500] for line in said if re.search(r'"level": "ERROR"|\bERROR\b|did not yield', line)]
    assert "SESSION_CLOSED" not in (dev.folder / ".lake/spark-connect.log").read_text(errors="replace")


def test_everything_ends_together(dev: Dev) -> None:
    assert dev.processes()
    dev.end()

"""The real thing, as a user has it: `dagster dev` in a folder, files that land, and nobody who clicks.

Here: webserver, daemon, code server and run processes together, killed once in the middle, and the asset graph in a
browser. One Dagster for the whole module, because it is slow to start; so the tests build on each other, in this order.
Not here: what the sensors decide, case by case (`automation/`).

LAKE_SCREENSHOT=path keeps the picture of the asset graph there.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
import yaml

from lake_assets.build import Lake, open_lake
from lake_assets.config_file import load_lake
from lake_assets.demo.compare import compare_with_source, source_rows
from lake_assets.demo.feed import run_feed
from lake_assets.demo.history import generate_history
from lake_assets.demo.schema import TABLES
from lake_assets.gold.work import mart_work
from lake_assets.iceberg.tables import load_table
from lake_assets.preflight import PreflightError, check_java

ROOT = Path(__file__).resolve().parent.parent
KEPT = ("stations", "station_status", "trips")
SILVER = (*KEPT, "station_status_changes")
MARTS = ("racks_empty_now", "station_daily", "trip_revenue_daily")
DEADLINE = 420.0
"""Seconds for what takes 75 on an idle machine with two cores, where nothing else starts a Spark of its own."""
T = TypeVar("T")

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@dataclass
class Dev:
    """A folder with a lake, and `dagster dev` in it."""

    folder: Path
    port: int
    start: datetime
    process: "subprocess.Popen[bytes] | None" = None
    sessions: list[int] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database(self) -> Path:
        return self.folder / "source.db"

    def lake(self) -> Lake:
        return open_lake(load_lake(self.folder / "lake.yaml", environ={}))

    def up(self) -> None:
        """Starts `dagster dev` as the user would type it, in a session of its own, and waits for its webserver."""
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith(("DAGSTER_", "LAKE_", "SPARK_"))
        }
        environment["PYTHONPATH"] = str(ROOT)
        command = [sys.executable, "-m", "dagster", "dev", "-h", "127.0.0.1", "-p", str(self.port)]
        with (self.folder / "dev.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        self.sessions.append(self.process.pid)
        self.wait("the webserver", lambda: self.query("{version}"))

    def wait(self, what: str, condition: Callable[[], T | None], seconds: float = DEADLINE) -> T:
        """What the condition returns once it is true; asks twice a second."""
        end = time.monotonic() + seconds
        while True:
            try:
                if found := condition():
                    return found
            except OSError:
                pass  # not up yet
            assert self.process is not None
            assert self.process.poll() is None, f"dagster dev has ended:\n{self.tail()}"
            assert time.monotonic() < end, f"no {what} after {seconds:.0f} s:\n{self.tail()}"
            time.sleep(0.5)

    def tail(self) -> str:
        lines = (self.folder / "dev.log").read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines if "DEBUG" not in line and "Checking for new" not in line)[
            -6000:
        ]

    def query(self, graphql: str) -> Any:
        request = urllib.request.Request(
            f"{self.url}/graphql",
            json.dumps({"query": graphql}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            found = json.load(answer)
        assert "errors" not in found, found
        return found["data"]

    def assets(self) -> dict[str, Any]:
        """By key: the number of materialized partitions, and the time of the newest materialization."""
        nodes = self.query(
            "{assetNodes{assetKey{path} partitionStats{numMaterialized} "
            "assetMaterializations(limit: 1){timestamp runId}}}"
        )["assetNodes"]
        return {"/".join(node["assetKey"]["path"]): node for node in nodes}

    def runs(self) -> list[dict[str, Any]]:
        """All runs, the newest first, with their tags as a dict."""
        results = self.query(
            "{runsOrError{... on Runs{results{runId status tags{key value} assetSelection{path}}}}}"
        )["runsOrError"]["results"]
        return [run | {"tags": {tag["key"]: tag["value"] for tag in run["tags"]}} for run in results]

    def processes(self) -> list[psutil.Process]:
        """Everything that was started by `up`, whatever session or group it is in by now."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                if os.getsid(process.pid) in self.sessions or process.cwd() == str(self.folder):
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    def signal_all(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, number)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def write_lake(folder: Path, start: datetime) -> None:
    """The shipped lake.yaml with three of its tables, and patience cut to what a test has."""
    lake = yaml.safe_load((ROOT / "lake.yaml").read_text())
    tables = lake["sources"]["bikeshare"]["tables"]
    lake["sources"]["bikeshare"]["tables"] = {f"public.{name}": tables[f"public.{name}"] for name in KEPT}
    lake["gold"]["start_date"] = start.date()
    lake["spark"]["conf"] = {"spark.driver.memory": "1g"}
    lake["automation"] = {"heartbeat_interval": "1s", "heartbeat_timeout": "12s", "backoff_base": "1s"}
    (folder / "lake.yaml").write_text(yaml.safe_dump(lake, sort_keys=False))


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    try:
        check_java()
    except PreflightError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("dev")
    for name in ("workspace.yaml", "dagster.yaml"):
        shutil.copy(ROOT / name, folder / name)
    now = datetime.now(UTC).replace(microsecond=0)
    dev = Dev(folder, free_port(), now - timedelta(days=1.5))
    write_lake(folder, dev.start)
    try:
        dev.up()
        yield dev
    finally:
        for process in dev.processes():
            process.kill()


def differences(dev: Dev, lake: Lake) -> list[str]:
    compared = compare_with_source(lake.runtime.catalog, "silver_bikeshare", dev.database)
    return [str(table) for table in compared if table.table in KEPT and not table.equal]


def trips_by_day(dev: Dev) -> Counter[str]:
    """Trips by the day of their start, by the source's own database."""
    column = TABLES["trips"].column_names.index("started_at")
    days = (row[column].date() for row in source_rows(dev.database)["trips"])
    return Counter(day.isoformat() for day in days if day >= dev.start.date())


def trips_in_mart(lake: Lake) -> Counter[str]:
    table = load_table(lake.runtime.catalog, "gold.station_daily")
    found: Counter[str] = Counter()
    for row in table.scan().to_arrow().to_pylist() if table is not None else ():
        found[row["day"].isoformat()] += row["trips_out"]
    return +found


def caught_up(dev: Dev, lake: Lake) -> bool:
    if any(load_table(lake.runtime.catalog, f"silver_bikeshare.{name}") is None for name in SILVER):
        return False
    return not differences(dev, lake) and not mart_work(lake.runtime, lake.marts).runs


def test_files_that_land_become_silver_and_marts_with_nobody_clicking(dev: Dev) -> None:
    generate_history(
        dev.folder / ".lake/bronze",
        dev.database,
        seed=3,
        changes=1_500,
        days=1.5,
        end=dev.start + timedelta(days=1.5),
        stations=12,
        bikes=60,
        members=150,
        past_trips=300,
    )
    lake = dev.lake()
    dev.wait("equal tables and marts", lambda: caught_up(dev, lake))
    assert trips_in_mart(lake) == trips_by_day(dev)

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


@pytest.mark.browser
def test_the_asset_graph_shows_all_three_layers(dev: Dev, tmp_path: Path) -> None:
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("no chromium and chromedriver on the PATH: install both to see the asset graph")
    dev.wait("end of all runs", lambda: all(run["status"] in ("SUCCESS", "FAILURE") for run in dev.runs()))
    picture = tmp_path / "asset_graph.png"
    nodes = asset_nodes(dev, chromium, chromedriver, tmp_path / "profile", picture)
    names: dict[str, set[str]] = {}
    for name, text in nodes:
        layer = "bronze" if "File" in text else "gold" if name in MARTS else "silver"
        names.setdefault(layer, set()).add(name)
    assert names == {"bronze": set(KEPT), "silver": set(SILVER), "gold": set(MARTS)}
    computed = [text for name, text in nodes if "File" not in text]
    assert all("Materialized" in text or "filled" in text for text in computed), computed
    assert picture.stat().st_size > 20_000
    if wanted := os.environ.get("LAKE_SCREENSHOT"):
        shutil.copy(picture, wanted)


CHROMIUM = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def asset_nodes(
    dev: Dev, chromium: str, chromedriver: str, profile: Path, picture: Path
) -> list[tuple[str, str]]:
    """Name and text of every node of the global asset lineage with its layers expanded; and a picture of it."""
    from selenium import webdriver
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (*CHROMIUM, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options, service=Service(chromedriver))

    def nodes() -> list[tuple[str, str]] | None:
        try:
            found = [
                (name[0].text, node.text)
                for node in browser.find_elements(By.CSS_SELECTOR, "foreignObject")
                if (name := node.find_elements(By.CSS_SELECTOR, "[data-tooltip]"))
            ]
        except StaleElementReferenceException:
            return None  # drawn anew while it was read
        known = [node for node in found if "Latest event" in node[1] and "Loading" not in node[1]]
        checked = [text for _, text in known if "4 / 4 Passed" in text]
        every = len(known) == len(KEPT) + len(SILVER) + len(MARTS)
        return known if every and len(checked) == len(SILVER) else None

    def click(xpath: str) -> None:
        """For a better picture only: what is not there is not clicked."""
        for element in browser.find_elements(By.XPATH, xpath):
            browser.execute_script(
                "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", element
            )

    try:
        size = {"width": 1600, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        layers = ",".join(f"global%40global%3A{layer}" for layer in ("bronze", "silver", "gold"))
        browser.get(f"{dev.url}/asset-groups")
        dev.wait("asset graph", lambda: browser.find_elements(By.CSS_SELECTOR, "foreignObject"), 60)
        click("//*[text()='Hide navigation']")
        browser.get(f"{dev.url}/asset-groups?expanded={layers}")
        found = dev.wait("node of every asset with its checks", nodes, 60)
        for _ in range(4):
            click("//*[@aria-label='zoom_out']")
        time.sleep(2)  # what is still sliding into its place
        browser.save_screenshot(str(picture))
        return found
    finally:
        browser.quit()


def test_killed_in_the_middle_of_a_run_it_goes_on_where_it_was(dev: Dev) -> None:
    """kill -9 of everything while a run is under way: Dagster believes for ever that it is."""
    lake = dev.lake()
    dev.wait("end of all runs", lambda: all(run["status"] in ("SUCCESS", "FAILURE") for run in dev.runs()))
    run_feed(dev.folder / ".lake/bronze", dev.database, rate=200, flush_seconds=0.5, duration=2, seed=4)

    def started() -> str | None:
        for run in dev.runs():
            if run["status"] == "STARTED" and run["tags"]["dagster/sensor_name"] == "bikeshare_files":
                return str(run["runId"])
        return None

    dead = dev.wait("started run", started)
    assert differences(dev, lake)
    dev.signal_all(signal.SIGKILL)
    assert dev.process is not None
    dev.process.wait(20)

    dev.up()
    dev.wait("equal tables", lambda: not differences(dev, lake))
    (status,) = {run["status"] for run in dev.runs() if run["runId"] == dead}
    assert status == "FAILURE"


def test_everything_ends_with_its_process_group(dev: Dev) -> None:
    assert dev.processes()
    dev.signal_all(signal.SIGTERM)
    assert dev.process is not None
    dev.process.wait(60)
    end = time.monotonic() + 30
    while left := dev.processes():
        assert time.monotonic() < end, [(process.pid, process.name()) for process in left]
        time.sleep(0.2)

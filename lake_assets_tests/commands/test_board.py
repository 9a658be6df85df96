"""The board in a browser and as a report, over tables that PyIceberg wrote.

Here: what is shown, also beside tables that cannot be read. Not here: the figures (`test_show.py`, `gold/`), a batch
(`test_board_of_a_batch.py`).
"""

import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import dagster as dg
import pyarrow as pa
import pytest
import uvicorn
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from starlette.applications import Starlette

from lake_assets.alarms.alarm_log import AlarmLog
from lake_assets.alarms.send_alarms import send_alarms
from lake_assets.commands.board.board import content
from lake_assets.commands.board.serve_board import board_app
from lake_assets.config.config_file import load_lake
from lake_assets.config.outputs.alarms import AlarmsConfig
from lake_assets.demo.marts.rack_board import MOST_LABELS
from lake_assets.lake import Lake, open_lake
from lake_assets.orchestration.instance import dagster_instance
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.lakes.bike_lake import MARTS, BikeLake, Row, bike_tables, station, status
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake
from lake_assets_tests.helpers.lakes.small_lakes import DMS
from lake_assets_tests.helpers.processes.child import environment
from lake_assets_tests.helpers.servers.chromium import headless_chromium
from lake_assets_tests.helpers.servers.webhook import webhook_server
from lake_assets_tests.helpers.texts.html_tables import rows_of

STATIONS, STATUS = "silver_bikeshare.stations", "silver_bikeshare.station_status"
EMPTY_NOW = "gold.racks_empty_now"
SCRIPT = "<script>document.title = 'taken'</script>"


def write(lake: Lake, identifier: str, rows: list[Row]) -> None:
    """The table has these rows."""
    catalog, found = lake.runtime.catalog, pa.Table.from_pylist(rows)
    catalog.create_namespace_if_not_exists(identifier.split(".")[0])
    catalog.create_table_if_not_exists(identifier, found.schema).overwrite(found)


def empty(number: int, minutes: float) -> Row:
    """A row of the mart: empty for so many minutes."""
    now = datetime.now(UTC)
    return {"station_id": number, "empty_since": now - timedelta(minutes=minutes), "as_of": now}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Rack 1 has bikes; racks 2 to 4 are empty: in breach, close to the limit, within it."""
    lake = BikeLake(tmp_path_factory.mktemp("bikes")).lake
    moved: list[Row] = [{"name": SCRIPT}, {"longitude": 11.6}, {"latitude": 48.2}, {"latitude": 48.15}]
    stations = [station(number, "Old Town") | given for number, given in enumerate(moved, 1)]
    write(lake, STATIONS, stations)
    now = datetime.now(UTC)
    write(lake, STATUS, [status(number, 5 if number == 1 else 0, now) for number in range(1, 5)])
    write(lake, EMPTY_NOW, [empty(2, 31), empty(3, 25), empty(4, 1)])
    return lake


@contextmanager
def served(app: Starlette) -> Iterator[str]:
    """The address of a server of the app."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def address(lake: Lake) -> Iterator[str]:
    """The board of the lake."""
    with served(board_app(lambda: content(lake), refresh=0.5)) as found:
        yield found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    found = headless_chromium(tmp_path_factory.mktemp("profile"))
    yield found
    found.quit()


def marks(browser: webdriver.Chrome) -> dict[str, int]:
    """How many racks the map shows in each state."""
    script = (
        "return [...document.querySelectorAll('.map g > :nth-child(2)')].map(e => e.getAttribute('class'))"
    )
    found = browser.execute_script(script)
    return {state: found.count(state) for state in found}


def until(browser: webdriver.Chrome, seen: Callable[[], Any]) -> None:
    WebDriverWait(browser, 60).until(lambda _: seen())


@pytest.mark.browser
def test_the_board_shows_the_racks_and_refreshes_itself(
    browser: webdriver.Chrome, lake: Lake, address: str
) -> None:
    browser.get(address)
    assert marks(browser) == {"bikes": 1, "empty": 1, "close": 1, "breach": 1}
    rows = [row.text.splitlines()[0] for row in browser.find_elements(By.CSS_SELECTOR, ".racks tbody tr")]
    assert rows == ["Rack 2", "Rack 3"]

    def countdown() -> str:
        return str(browser.execute_script("return document.querySelector('tr.close [data-until]').innerText"))

    before = countdown()
    assert before.startswith("in ")
    until(browser, lambda: countdown() != before)

    write(
        lake,
        STATUS,
        [status(number, 5 if number in (1, 2) else 0, datetime.now(UTC)) for number in range(1, 5)],
    )
    until(browser, lambda: marks(browser) == {"bikes": 2, "empty": 1, "close": 1})
    assert browser.title == "lake_assets board", "no text of a table runs as a script"
    assert SCRIPT in str(browser.execute_script("return document.querySelector('.map').textContent"))
    assert browser.get_log("browser") == []


def evaluated(
    instance: dg.DagsterInstance,
    name: str,
    *,
    passed: bool,
    severity: str = "ERROR",
    description: str | None = None,
    **metadata: str,
) -> None:
    """Dagster's storage has the evaluation of a check of the trips."""
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey(["silver", "bikeshare", "trips"]),
            check_name=name,
            passed=passed,
            severity=dg.AssetCheckSeverity[severity],
            description=description,
            metadata=metadata,
        )
    )


def with_alarms(folder: Path, webhook: str | None) -> Lake:
    """A lake whose racks raise alarms."""
    found = BikeLake(folder).lake.config
    declared = {"key": ["station_id"], "spell": "empty_since", "text": "Rack {station_id} is empty."}
    alarms = AlarmsConfig.model_validate({"webhook": webhook, "marts": {"racks_empty_now": declared}})
    return open_lake(found.model_copy(update={"alarms": alarms}))


@pytest.mark.browser
def test_the_board_shows_the_checks_that_fail_and_the_alarms(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    with webhook_server() as webhook, dg.instance_for_test() as instance:
        lake = with_alarms(tmp_path, webhook.address)
        write(lake, EMPTY_NOW, [empty(2, 31), empty(3, 25)])
        evaluated(instance, "unique_key", passed=True)
        with served(board_app(lambda: content(lake, instance=instance), refresh=0.5)) as address:
            browser.get(address)

            def shown(section: str) -> str:
                return str(browser.execute_script(f"return document.querySelector('.{section}').innerText"))

            assert "No check fails, of 1 evaluated." in shown("checks")
            assert "2 not sent." in shown("alarms")
            assert shown("summary") == "2 alarms wait."
            assert "Rack 2 is empty.\tracks_empty_now\tnot yet" in shown("alarms")
            evaluated(instance, "freshness", passed=False, severity="WARN", description="a file waits")
            evaluated(instance, "unique_key", passed=False, problem=SCRIPT)
            send_alarms(lake.runtime, AlarmLog(lake.runtime.catalog))
            until(browser, lambda: "Of 2 checks, 2 fail." in shown("checks"))
            until(browser, lambda: "not sent" not in shown("alarms"))
            assert shown("summary") == "2 checks fail."
            # In one call, because a refresh replaces the rows.
            rows = browser.execute_script(
                "return [...document.querySelectorAll('.checks tbody tr')].map(row => [row.className, row.innerText])"
            )
            assert [name for name, text in rows] == ["breach", "close"]
            assert SCRIPT in rows[0][1]
            assert "a file waits" in rows[1][1]
            assert browser.title == "lake_assets board", "no reason of a check runs as a script"
            assert shown("alarms").count("Rack ") == 2
            assert browser.get_log("browser") == []


def test_the_board_names_a_missing_webhook(tmp_path: Path) -> None:
    lake = with_alarms(tmp_path, None)
    assert "No alarm has been raised" in content(lake)
    write(lake, EMPTY_NOW, [empty(2, 31)])
    assert "lake.yaml has no <code>alarms.webhook</code>" in content(lake)


@pytest.mark.browser
def test_a_narrow_screen_needs_no_scrolling_sideways(browser: webdriver.Chrome, address: str) -> None:
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(address)
    width, places, clocks = browser.execute_script(
        "return [document.documentElement.scrollWidth, "
        "['.map', '.racks table'].map(name => document.querySelector(name).getBoundingClientRect().bottom), "
        "[...document.querySelectorAll('[data-until]')].map(cell => cell.getBoundingClientRect().right)]"
    )
    assert width <= 390
    assert places[0] < places[1], "the table is below the map"
    assert clocks
    assert max(clocks) <= 390, "the countdown is what an operator looks for"


def test_a_source_that_has_stopped_is_named_above_the_map(tmp_path: Path) -> None:
    lake = BikeLake(tmp_path).lake
    write(lake, STATIONS, [station(1, "Old Town")])
    now = datetime.now(UTC)
    write(lake, STATUS, [status(1, 0, now)])
    write(lake, EMPTY_NOW, [empty(1, 25)])
    assert "The racks are as of" not in content(lake, now + timedelta(minutes=29))
    assert "<b>The racks are as of 1 h ago.</b>" in content(lake, now + timedelta(hours=1, seconds=1))


def test_of_many_racks_the_most_urgent_are_named_on_the_map(tmp_path: Path) -> None:
    lake = BikeLake(tmp_path).lake
    numbers = range(1, 201)
    write(lake, STATIONS, [station(n, "Old Town") | {"longitude": 11 + n / 1000} for n in numbers])
    write(lake, STATUS, [status(n, 0, datetime.now(UTC)) for n in numbers])
    write(lake, EMPTY_NOW, [empty(n, 25 + n) for n in numbers])
    shown = content(lake)
    named = re.findall(r"<text [^>]*>\s*(Rack \d+)</text>", shown)
    assert sorted(named) == sorted(f"Rack {n}" for n in range(200, 200 - MOST_LABELS, -1))
    assert shown.count("data-until") == 200
    assert re.findall(r'text-anchor="(\w+)"', shown).count("end") > 0, "no name is cut off at the edge"


def test_a_spell_that_began_on_another_day_has_its_date(tmp_path: Path) -> None:
    lake = BikeLake(tmp_path).lake
    now = datetime(2026, 3, 2, 0, 10, tzinfo=UTC)
    write(lake, STATIONS, [station(1, "Old Town")])
    write(lake, STATUS, [status(1, 0, now)])
    write(lake, EMPTY_NOW, [{"station_id": 1, "empty_since": now - timedelta(hours=1), "as_of": now}])
    assert "2026-03-01 23:10</td>" in content(lake, now)


def test_a_table_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    lake = BikeLake(tmp_path).lake
    shown = content(lake)
    assert "No stations are in the lake yet" in shown
    assert "cannot be read" not in shown
    write(lake, STATIONS, [station(1, "Old Town")])
    write(lake, STATUS, [status(1, 5, datetime.now(UTC))])
    with sqlite3.connect(tmp_path / "catalog.db") as catalog:
        lost = "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = 'stations'"
        catalog.execute(lost, [str(tmp_path / "gone.metadata.json")])
    shown = content(lake)
    assert "racks cannot be read" in shown
    assert "bikeshare.stations" in shown
    assert "bikeshare.trips" in shown
    assert "Nothing is quarantined" in shown


def test_all_browsers_together_read_the_lake_once_for_each_refresh() -> None:
    reads = list[int]()

    def read() -> str:
        reads.append(1)
        return "content"

    with served(board_app(read, refresh=3600)) as address:
        for path in ("", "content", "content"):
            assert b"content" in urlopen(address + path).read()
    assert len(reads) == 1


def test_the_command_serves_a_lake_with_the_checks_of_its_dagster(tmp_path: Path) -> None:
    source = {"location": "bronze", "dms": DMS, "tables": bike_tables()}
    folder, port = command_lake(tmp_path, sources={"bikeshare": source}), free_port()
    with dagster_instance(folder) as instance:
        evaluated(instance, "unique_key", passed=False, description="two trips have the key 7")
    command = [sys.executable, "-m", "lake_assets.cli", "--config", str(folder / "lake.yaml"), "board"]
    board = subprocess.Popen([*command, "--port", str(port)], env=environment())
    try:
        text = ""
        while not text:
            assert board.poll() is None, "it has ended"
            time.sleep(0.1)
            with suppress(OSError):
                text = urlopen(f"http://127.0.0.1:{port}/").read().decode()
    finally:
        board.send_signal(signal.SIGINT)
        ended = board.wait(60)
    assert "two trips have the key 7" in text
    assert "bikeshare.stations" in text
    assert ended in (0, 130), "Ctrl-C"


def test_a_report_of_a_lake_without_the_demonstration(tmp_path: Path) -> None:
    folder, written = command_lake(tmp_path), tmp_path / "report.html"
    assert call(folder, "report", "--output", str(written)) == 0
    text = written.read_text()
    assert "shop.items" in text
    assert "Racks" not in text
    assert "Alarms" not in text
    assert "Dagster has no evaluation of a check yet" in text
    assert "<script" not in text


def test_a_report_has_the_racks_of_now(tmp_path: Path) -> None:
    source = {"location": "bronze", "dms": DMS, "tables": bike_tables()}
    gold = {"start_date": "2026-03-01", "marts": list(MARTS), "settings": {"empty_rack_limit_minutes": 30}}
    folder = command_lake(tmp_path, sources={"bikeshare": source}, gold=gold)
    lake = open_lake(load_lake(folder / "lake.yaml"))
    write(
        lake,
        STATIONS,
        [station(number, "Old Town") | {"name": f"{SCRIPT}{number}"} for number in range(1, 5)],
    )
    write(
        lake, STATUS, [status(number, 5 if number == 1 else 0, datetime.now(UTC)) for number in range(1, 5)]
    )
    write(lake, EMPTY_NOW, [empty(2, 31), empty(3, 25), empty(4, 1)])
    written = tmp_path / "report.html"
    assert call(folder, "report", "--output", str(written)) == 0
    text = written.read_text()
    drawn = re.findall(r"</title><\w+ class=\"(\w+)\"", text)
    assert sorted(drawn) == ["bikes", "breach", "close", "empty"], "one of each on the map"
    breach, close = rows_of(text, "Rack")
    assert (breach[0], breach[1].split()[-1]) == (f"{SCRIPT}2 Old Town", "breach")
    assert (close[0], close[1].split()[-1]) == (f"{SCRIPT}3 Old Town", "close")
    assert re.fullmatch(r"1 min( \d+ s)? over", breach[3])
    assert re.fullmatch(r"in (5 min|4 min \d+ s)", close[3])
    assert "<script" not in text

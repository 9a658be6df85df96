"""A folder with a lake, Dagster's webserver and daemon in it, and what the lake and Dagster say of each other.

Here: starting and ending those processes as a user does, asking Dagster, comparing with the source. Not here: the tests
(`test_daemon.py`, `test_plain_dagster_dev.py`).
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
import yaml

from lake_assets.commands.setup.dagster_files import place
from lake_assets.config.config_file import load_lake
from lake_assets.demo.compare import compare_with_source, source_rows
from lake_assets.demo.demo_commands import source_masks
from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.dms.output_storage import open_storage
from lake_assets.demo.dms.written_files import WrittenFiles
from lake_assets.demo.history import generate_history
from lake_assets.demo.outbox import Outbox
from lake_assets.demo.source.bike_schema import TABLES
from lake_assets.demo.source.source_database import SourceDatabase
from lake_assets.iceberg.table_io import load_table
from lake_assets.orchestration.assets.mart_runs import mart_work
from lake_assets.orchestration.lake_definitions import Lake, open_lake
from lake_assets.spark.preflight import PreflightError, check_java, free_port
from lake_assets_tests.helpers.constants.child_constants import quick_environment
from lake_assets_tests.helpers.lakes.small_lakes import TINY
from lake_assets_tests.helpers.processes.child import ROOT

KEPT = ("stations", "station_status", "trips")
SILVER = (*KEPT, "station_status_changes")
MARTS = ("racks_empty_now", "station_daily", "station_hourly", "trip_revenue_daily")
"""Those of the shipped lake.yaml that run: every kind of partitions that reads only these tables."""
EARLIER = timedelta(days=30)
"""How long before its data `gold.start_date` of the lake is that the continuous run keeps current."""
DEADLINE = 420.0
"""Seconds for what takes 75 on an idle machine with two cores, where nothing else starts a Spark of its own."""
REPOSITORY = 'repositoryName: "__repository__", repositoryLocationName: "lake_assets"'
"""An argument of GraphQL queries."""
T = TypeVar("T")


def processes_of(folder: Path, sessions: Collection[int] = ()) -> list[psutil.Process]:
    """Those that live in the folder, or belong to the sessions."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            inside = process.cwd() == str(folder) or os.getsid(process.pid) in sessions
            if inside and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@dataclass
class Dev:
    """A folder with a lake, and `lake-assets dev` or plain `dagster dev` in it."""

    folder: Path
    port: int
    start: datetime
    plain: bool = False
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
        """Starts it as the user would type it, in a session of its own, and waits for its webserver."""
        command = [sys.executable, "-m", "lake_assets.cli", "dev", "--port", str(self.port)]
        if self.plain:
            command = [sys.executable, "-m", "dagster", "dev", "-h", "127.0.0.1", "-p", str(self.port)]
        with (self.folder / "dev.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=quick_environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.sessions.append(self.process.pid)
        self.wait("the webserver", lambda: self.query("{version}"))

    def wait(self, what: str, condition: Callable[[], T | None], seconds: float = DEADLINE) -> T:
        """What the condition returns once it is true; asks twice a second, and a condition that takes long less often:
        it takes the processor from those it waits for."""
        end = time.monotonic() + seconds
        while True:
            began = time.monotonic()
            try:
                if found := condition():
                    return found
            except OSError:
                pass  # not up yet
            assert self.process is not None
            assert self.process.poll() is None, f"it has ended:\n{self.tail()}"
            now = time.monotonic()
            assert now < end, f"no {what} after {seconds:.0f} s:\n{self.tail()}"
            time.sleep(max(0.5, 2 * (now - began)))

    def tail(self) -> str:
        """The end of what it has logged."""
        lines = (self.folder / "dev.log").read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines if "DEBUG" not in line and "Checking for new" not in line)[
            -6000:
        ]

    def query(self, graphql: str) -> Any:
        """What the webserver answers."""
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
        """By key: what can be done with it, the number of materialized partitions, the newest materialization."""
        nodes = self.query(
            "{assetNodes{assetKey{path} isMaterializable isExecutable partitionStats{numMaterialized} "
            "assetMaterializations(limit: 1){timestamp runId}}}"
        )["assetNodes"]
        return {"/".join(node["assetKey"]["path"]): node for node in nodes}

    def runs(self, condition: str = "{}") -> list[dict[str, Any]]:
        """The runs of this GraphQL filter, the newest first, with their tags as a dict."""
        wanted = "{... on Runs{results{runId status tags{key value} assetSelection{path}}}}"
        results = self.query(f"{{runsOrError(filter: {condition}){wanted}}}")["runsOrError"]["results"]
        return [run | {"tags": {tag["key"]: tag["value"] for tag in run["tags"]}} for run in results]

    def materialize(self, *assets: str) -> str:
        """Launches a run of these assets, as "Materialize" does. Returns its id."""
        keys = ", ".join(f"{{path: {json.dumps(asset.split('/'))}}}" for asset in assets)
        selector = f'selector: {{{REPOSITORY}, jobName: "__ASSET_JOB", assetSelection: [{keys}]}}'
        launched = "{... on LaunchRunSuccess{run{runId}} ... on PythonError{message}}"
        answer = self.query(f"mutation{{launchRun(executionParams: {{{selector}}}){launched}}}")["launchRun"]
        return str(answer["run"]["runId"])

    def processes(self) -> list[psutil.Process]:
        """Everything that was started by `up`, whatever session or group it is in by now."""
        return processes_of(self.folder, self.sessions)

    def kill_all(self) -> None:
        """As if the machine were switched off."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        assert self.process is not None
        self.process.wait(20)

    def end(self) -> None:
        """As Ctrl-C or a service manager does, and waits for the end of everything that was started."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(60)
        end = time.monotonic() + 30
        while left := self.processes():
            assert time.monotonic() < end, [(process.pid, process.name()) for process in left]
            time.sleep(0.2)


def write_lake(
    folder: Path, start: datetime, marts: Sequence[str] = (), webhook: str = "", *, continuous: bool = False
) -> None:
    """The shipped lake.yaml with three of its tables, and patience cut to what a test has; `marts` replace its own.
    `webhook`: where its alarms go. `continuous`: whether one run applies all files, as shipped, or a run each batch."""
    lake = yaml.safe_load((ROOT / "lake.yaml").read_text())
    tables = lake["sources"]["bikeshare"]["tables"]
    lake["sources"]["bikeshare"]["tables"] = {f"public.{name}": tables[f"public.{name}"] for name in KEPT}
    lake["gold"]["start_date"] = start.date()
    lake["gold"]["marts"] = list(marts) or [f"lake_assets.demo.marts.{name}" for name in MARTS]
    if marts:
        del lake["alarms"], lake["gold"]["checks"]  # of marts that are not among them
    else:
        lake["alarms"]["webhook"] = webhook
        lake["gold"]["settings"] = {"empty_rack_limit_minutes": 1} if webhook else lake["gold"]["settings"]
    lake["spark"]["conf"] = {"spark.driver.memory": "1g", **TINY}
    lake["automation"] = {}
    if continuous:
        lake["gold"]["start_date"] = start.date() - EARLIER
        lake["automation"]["continuous"] = {"daily_marts_every": "5s"}
    (folder / "lake.yaml").write_text(yaml.safe_dump(lake, sort_keys=False))


def running(
    folder: Path,
    *,
    plain: bool = False,
    days: float = 1.5,
    marts: Sequence[str] = (),
    webhook: str = "",
    continuous: bool = False,
) -> Iterator[Dev]:
    """Of a fixture: it is up, and nothing of it is left afterwards. `days`: how long its history is."""
    try:
        check_java()
    except PreflightError as error:
        pytest.skip(str(error))
    if plain:  # `lake-assets dev` puts them there itself
        place(folder)
    now = datetime.now(UTC).replace(microsecond=0)
    dev = Dev(folder, free_port(), now - timedelta(days=days), plain)
    write_lake(folder, dev.start, marts, webhook, continuous=continuous)
    try:
        dev.up()
        yield dev
    finally:
        for process in dev.processes():
            process.kill()


def differences(dev: Dev, lake: Lake) -> list[str]:
    """The tables of silver that differ from the source."""
    compared = compare_with_source(
        lake.runtime.catalog, "silver_bikeshare", dev.database, source_masks(lake.config)
    )
    return [str(table) for table in compared if table.table in KEPT and not table.equal]


def trips_by_day(dev: Dev) -> Counter[str]:
    """Trips by the day of their start, by the source's own database."""
    return trips_since(dev.database, dev.start.date())


def trips_since(database: Path, first: date) -> Counter[str]:
    """Trips from the day on, by the day of their start."""
    column = TABLES["trips"].column_names.index("started_at")
    days = (row[column].date() for row in source_rows(database)["trips"])
    return Counter(day.isoformat() for day in days if day >= first)


def first_partition(dev: Dev, asset: str) -> str:
    """The first of an asset's partitions, as the UI shows them."""
    wanted = "{... on AssetNode{partitionKeyConnection(limit: 1, ascending: true){results}}}"
    key = f"assetKey: {{path: {json.dumps(asset.split('/'))}}}"
    node = dev.query(f"{{assetNodeOrError({key}){wanted}}}")["assetNodeOrError"]
    return str(node["partitionKeyConnection"]["results"][0])


def trips_in_mart(lake: Lake) -> Counter[str]:
    """Trips by day, as the mart counts them."""
    table = load_table(lake.runtime.catalog, "gold.station_daily")
    found: Counter[str] = Counter()
    for row in table.scan().to_arrow().to_pylist() if table is not None else ():
        found[row["day"].isoformat()] += row["trips_out"]
    return +found


def caught_up(dev: Dev, lake: Lake) -> bool:
    """Whether silver equals the source and no mart is stale."""
    if any(load_table(lake.runtime.catalog, f"silver_bikeshare.{name}") is None for name in SILVER):
        return False
    return not differences(dev, lake) and not mart_work(lake.runtime, lake.marts).runs


def write_history(dev: Dev, *, days: float = 1.5, changes: int = 1_500, past_trips: int = 300) -> None:
    """A full load and the changes of these days. `past_trips`: those in the full load, of earlier days."""
    generate_history(
        dev.folder / ".lake/bronze",
        dev.database,
        seed=3,
        changes=changes,
        days=days,
        end=dev.start + timedelta(days=days),
        flush_interval=timedelta(days=days / 12),
        stations=12,
        bikes=60,
        members=150,
        past_trips=past_trips,
    )


def history_lands(dev: Dev, *, past_trips: int = 300) -> Lake:
    """A full load and a day and a half of changes, and the wait until silver and the marts have them."""
    write_history(dev, past_trips=past_trips)
    lake = dev.lake()
    dev.wait("equal tables and marts", lambda: caught_up(dev, lake))
    assert trips_in_mart(lake) == trips_by_day(dev)
    return lake


def bikes_change(dev: Dev, *changes: tuple[float, dict[int, int]]) -> None:
    """DMS files of commits, each so many seconds after the one before, that leave a rack so many bikes."""
    database = SourceDatabase(dev.database)
    settings = DmsWriterSettings.from_json(database.get_state("settings", {}))
    outbox = Outbox(database, open_storage(dev.folder / ".lake/bronze"), settings, WrittenFiles())
    database.sink = outbox
    try:
        for seconds, bikes in changes:
            with database.transaction(database.last_commit + timedelta(seconds=seconds)) as transaction:
                for number, available in bikes.items():
                    transaction.update("station_status", number, bikes_available=available)
        for stream in list(outbox.first_commits):
            outbox.flush(stream, database.last_commit)
    finally:
        database.close()

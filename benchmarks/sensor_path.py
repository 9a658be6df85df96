"""`python -m benchmarks.sensor_path`: how long a file takes when the sensor requests a run for it, on a warm Spark.

`lake-assets dev` runs as a user starts it: webserver, daemon, Spark Connect server. Then a file of one table lands
every 10 to 20 s. The times are those of the tables' own snapshots, as `lake-assets latency` reports them. Here:
starting, feeding, printing. Not here: the run that stays up (`latency.py`). The figures are absolute, and of the
machine that they were taken on.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import yaml
from rich.console import Console

from benchmarks.latency import MART, Feed, lake_config
from lake_assets.commands.show.latency import latency
from lake_assets.commands.show.show import show_latency
from lake_assets.config.config_file import load_lake
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets.silver.batch_log.record_batches import batches_since
from lake_assets.silver.table.batch_latency import Spread
from lake_assets.spark.preflight import free_port

TABLES, KEYS = 5, 2000
PAUSES = (10.0, 20.0)
START_SECONDS = 300.0
ROOT = Path(__file__).parent.parent


def run(folder: Path, minutes: float) -> None:
    """Prints a line per table and mart."""
    path = folder / "lake.yaml"
    config = lake_config(folder, TABLES, remote=None)
    config["spark"]["mode"], config["spark"]["remote"] = (
        "${LAKE_SPARK_MODE:-embedded}",
        "${SPARK_REMOTE:-sc://localhost}",
    )
    config["gold"] = {"marts": ["benchmarks.latency"]}
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    for name in ("dagster.yaml", "workspace.yaml"):
        shutil.copy(ROOT / name, folder)
    feed = Feed(folder / "bronze", TABLES, KEYS)
    feed.load()
    command = [
        sys.executable,
        "-m",
        "lake_assets.cli",
        "--config",
        str(path),
        "dev",
        "--port",
        str(free_port()),
    ]
    with (folder / "dev.log").open("wb") as log:
        # The mart is in this folder's packages.
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        dev = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        lake = open_lake(load_lake(path, environ={}), marts=(MART,))
        _until(
            lambda: all(
                LoadedTables(lake.runtime.catalog).table(target.identifier) for target in lake.targets
            ),
            "silver",
        )
        chosen, end = random.Random(1), time.monotonic() + minutes * 60
        for _ in range(3):  # the first ones find a cold Spark
            feed.one(chosen.randrange(TABLES))
            time.sleep(PAUSES[1])
        since = datetime.now(UTC)
        while time.monotonic() < end:
            feed.one(chosen.randrange(TABLES))
            time.sleep(chosen.uniform(*PAUSES))
        time.sleep(PAUSES[1])
        show_latency(Console(width=150), latency(lake, since=since))
        loaded = LoadedTables(lake.runtime.catalog)
        tables = {target.identifier: loaded.table(target.identifier) for target in lake.targets}
        batches = batches_since(lake.runtime.catalog, tables, since)
        ways = [way for rows in batches.values() for row in rows if (way := row.passage) is not None]
        seconds = [way.from_file for way in ways if way.landed >= since]
        print(f"file visible to silver readable, {len(seconds)} files: {Spread.of(seconds)}")
    finally:
        dev.send_signal(signal.SIGINT)
        dev.wait(60)


def _until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"no {what} after {START_SECONDS:.0f} s")
        time.sleep(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        run(Path(place), given.minutes)

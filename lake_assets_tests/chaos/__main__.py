"""`python -m lake_assets_tests.chaos`: a lake with live files whose services fail at random.

Dagster's daemon and its runs, a Spark Connect server, S3 and SQS are killed, refuse requests, are slow or unavailable
at random while the demonstration's feed runs. Then the disturbances end, and the lake has a limited time to catch up.
Exits with 1 unless every table equals the source's, the change log has each change once and the file log each file
once. Here: the sequence. Not here: the disturbances (`disturbances.py`), the conditions (`verdict.py`).
"""

import argparse
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import dagster as dg

from lake_assets.config.config_file import load_lake
from lake_assets.demo.feed import run_feed
from lake_assets.demo.history import generate_history
from lake_assets.orchestration.lake_definitions import Lake, open_lake
from lake_assets.spark.preflight import free_port
from lake_assets_tests.chaos.disturbances import Disturbances
from lake_assets_tests.chaos.lake import PREFIX, SOURCE, write_lake
from lake_assets_tests.chaos.processes import Daemon, WatchedServer
from lake_assets_tests.chaos.storage import BUCKET, Storage
from lake_assets_tests.chaos.verdict import (
    change_log_differences,
    log_differences,
    mart_differences,
    quarantined,
    stale_marts,
    table_differences,
)
from lake_assets_tests.helpers.processes.child import ROOT
from lake_assets_tests.helpers.servers.s3 import ACCESS

CATCH_UP_SECONDS = 300.0
RATE, FLUSH_SECONDS = 20.0, 2.0
LOCATION = f"s3://{BUCKET}/{PREFIX.rstrip('/')}"


def main(folder: Path, minutes: float, seed: int, *, continuous: bool) -> int:
    """The exit code."""
    began = time.monotonic()

    def report(sentence: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {sentence}", flush=True)

    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # For the feed's client.
    os.environ |= {"AWS_ACCESS_KEY_ID": ACCESS["access_key_id"], "AWS_DEFAULT_REGION": ACCESS["region"]}
    os.environ |= {"AWS_SECRET_ACCESS_KEY": ACCESS["secret_access_key"]}
    storage, database = Storage(seed), folder / "source.db"
    storage.make_bucket()
    start = datetime.now(UTC) - timedelta(days=1)
    remote = f"sc://127.0.0.1:{free_port()}"
    path = write_lake(folder, storage, remote, start.date(), continuous=continuous)
    for name in ("workspace.yaml", "dagster.yaml"):
        shutil.copy(ROOT / name, folder / name)
    generate_history(
        *(LOCATION, database),
        seed=seed,
        changes=1_000,
        days=1,
        end=datetime.now(UTC),
        stations=12,
        bikes=60,
        members=150,
        past_trips=300,
        endpoint_url=storage.calm,
    )
    lake = open_lake(load_lake(path, environ={}))
    server, daemon = WatchedServer(lake.config, folder), Daemon(folder)
    over = threading.Event()
    feed = threading.Thread(target=_feed, args=(storage, database, over, seed))
    try:
        daemon.start()
        _until(lambda: not table_differences(lake, database))
        report("the history is applied, the disturbances begin")
        feed.start()
        disturbances = Disturbances(seed, storage, daemon, server, report)
        disturbances.go_on(minutes * 60)
        fed = feed.is_alive()
        over.set()
        feed.join()
        disturbances.over()
        report("the disturbances are over")
        _until(lambda: not table_differences(lake, database) and not stale_marts(lake))
        report("caught up, or given up")
    finally:
        over.set()
        daemon.kill_all()
        server.stop()
    found = _verdict(lake, storage, database, start.date())
    found += [] if fed else ["the feed has ended before the bad days"]
    runs = Counter(
        f"runs: {record.dagster_run.status.value}" for record in _instance(folder).get_run_records()
    )
    for what, times in sorted([*disturbances.done.items(), *storage.met.items(), *runs.items()]):
        print(f"{times:7}  {what}")
    print(f"{len(lake.runtime.file_log.files(SOURCE)):7}  files in the log")
    print("\n".join(found) or "Silver, the change log, the marts and the file log are what they have to be.")
    return 1 if found else 0


def _instance(folder: Path) -> dg.DagsterInstance:
    return dg.DagsterInstance.from_config(str(folder))


def _feed(storage: Storage, database: Path, over: threading.Event, seed: int) -> None:
    run_feed(
        *(LOCATION, database),
        rate=RATE,
        flush_seconds=FLUSH_SECONDS,
        stop=over,
        seed=seed,
        endpoint_url=storage.calm,
    )


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + CATCH_UP_SECONDS
    while not condition() and time.monotonic() < end:
        time.sleep(1)


def _verdict(lake: Lake, storage: Storage, database: Path, first: date) -> list[str]:
    return [
        *table_differences(lake, database),
        *(f"{name} is stale" for name in stale_marts(lake)),
        *mart_differences(lake, database, first),
        *log_differences(lake, storage),
        *change_log_differences(lake, storage),
        *quarantined(lake),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, help="stays; by default one that is removed in the end")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--continuous", action="store_true", help="the continuous run, rather than a run for each file"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        code = main(given.folder or Path(place), given.minutes, given.seed, continuous=given.continuous)
    sys.exit(code)

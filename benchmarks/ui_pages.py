"""`python -m benchmarks.ui_pages`: how long Dagster's pages take for a lake of 1,000 tables, in a headless Chromium.

Every asset of the lake has been materialized once, with figures as a batch reports them. Seconds from the request for a
page until it shows what is looked for; the first visit fills the browser's and the server's caches. Prints also how
long the definitions take to load. Needs chromium and chromedriver. Here: the measurement.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import urlopen

import dagster as dg
import psutil
import yaml

from lake_assets.config.config_file import load_lake
from lake_assets.orchestration.lake_definitions import build_definitions, open_lake
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.servers.chromium import headless_chromium

LOCATION = "lake_assets"
PATIENCE = 60.0
COLUMNS = {"id": "long not null", "name": "string", "price": "decimal(10, 2)", "at": "timestamptz"}
FIGURES = {"rows": 1_000, "files": 3, "seconds": 0.8, "lag_seconds": 2.1, "position": "2026-11-08T10:00:00Z"}


def write_lake(folder: Path, tables: int) -> Path:
    """lake.yaml with so many tables, and Dagster's files beside it."""
    table = {"columns": COLUMNS, "primary_key": ["id"]}
    lake = {
        "catalog": {"uri": "catalog.db", "warehouse": "warehouse"},
        "sources": {
            "shop": {
                "location": "bronze",
                "dms": {"add_column_name": True, "timestamp_column_name": "commit_ts"},
                "tables": {f"public.table_{number:04d}": table for number in range(tables)},
            }
        },
    }
    path = folder / "lake.yaml"
    path.write_text(yaml.safe_dump(lake), encoding="utf-8")
    (folder / "bronze").mkdir()
    (folder / "dagster.yaml").write_text("telemetry: {enabled: false}\nnux: {enabled: false}\n")
    where = {"module_name": "lake_assets.definitions", "location_name": LOCATION}
    (folder / "workspace.yaml").write_text(yaml.safe_dump({"load_from": [{"python_module": where}]}))
    return path


def report(path: Path) -> tuple[float, int]:
    """Materializes each asset once, as an event alone. Seconds of loading the definitions, and how many assets."""
    began = time.perf_counter()
    definitions = build_definitions(open_lake(load_lake(path)))
    graph = definitions.resolve_asset_graph()
    taken = time.perf_counter() - began
    keys = sorted(graph.get_all_asset_keys())
    with dg.DagsterInstance.get() as instance:
        for key in keys:
            partition = "2026-11-08" if graph.get(key).is_partitioned else None
            event = dg.AssetMaterialization(key, metadata=FIGURES, partition=partition)
            instance.report_runless_asset_event(event)
    return taken, len(keys)


@contextmanager
def webserver(folder: Path) -> Iterator[tuple[str, int]]:
    """Address and process id of Dagster's webserver, as soon as it has the definitions."""
    port = free_port()
    command = [sys.executable, "-m", "dagster_webserver", "-w", "workspace.yaml", "-p", str(port)]
    with (folder / "webserver.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        try:
            address = f"http://127.0.0.1:{port}"
            until(lambda: _answers(address))
            yield address, process.pid
        finally:
            process.terminate()
            process.wait(60)


def _answers(address: str) -> bool:
    try:
        with urlopen(f"{address}/server_info", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def until(found: Callable[[], bool]) -> float:
    """Seconds until it is so."""
    began = time.perf_counter()
    while not found():
        if time.perf_counter() - began > PATIENCE:
            raise TimeoutError(f"not within {PATIENCE:.0f} s")
        time.sleep(0.05)
    return time.perf_counter() - began


def pages(tables: int) -> dict[str, tuple[str, str]]:
    """By what a page is, its path, and the text that it shows when it is there."""
    last, group = f"table_{tables - 1:04d}", f"locations/__repository__@{LOCATION}/asset-groups"
    return {
        "catalog": ("assets?display=all", "table_0000"),
        "search in the catalog": (f"assets?asset-selection=key%3A%22*{last}%22", last),
        "lineage of silver": (f"{group}/silver/lineage", "table_"),
        "list of silver": (f"{group}/silver/list", "table_"),
    }


def measure(address: str, folder: Path, tables: int, repeat: int) -> dict[str, list[float]]:
    """Seconds of each visit of each page."""
    browser = headless_chromium(folder / "profile")
    browser.set_window_size(1600, 1000)
    taken: dict[str, list[float]] = {}

    def shows(text: str) -> bool:
        return text in str(browser.execute_script("return document.body ? document.body.innerText : ''"))

    try:
        for name, (path, text) in pages(tables).items():
            for _ in range(repeat + 1):
                browser.get("about:blank")
                began = time.perf_counter()
                browser.get(f"{address}/{path}")
                seconds = math.nan
                with suppress(TimeoutError):
                    until(lambda text=text: shows(text))  # type: ignore[misc]
                    seconds = time.perf_counter() - began
                taken.setdefault(name, []).append(seconds)
            print(name, [f"{seconds:.1f}" for seconds in taken[name]], flush=True)
    finally:
        browser.quit()
    return taken


def megabytes(pid: int) -> int:
    """Resident memory of a process and its children."""
    own = psutil.Process(pid)
    return int(sum(one.memory_info().rss for one in [own, *own.children(recursive=True)]) / 2**20)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1_000)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = write_lake(folder, given.tables)
        os.environ |= {"DAGSTER_HOME": place, "LAKE_CONFIG": str(path)}
        definitions, assets = report(path)
        with webserver(folder) as (address, pid):
            taken: dict[str, Any] = measure(address, folder, given.tables, given.repeat)
            memory = megabytes(pid)
    print(
        f"\n{given.tables:,} tables, {assets:,} assets; definitions {definitions:.1f} s; webserver {memory:,} MB"
    )
    print("\n| page | first visit s | later visits s |\n|---|---|---|")
    for name, (first, *later) in taken.items():
        print(f"| {name} | {first:.1f} | {median(later):.1f} |")


if __name__ == "__main__":
    main()

"""`python -m benchmarks.large_tables`: batches of changes on a large table, beside other ways to apply them.

All contenders apply the same files in turn, on one warm Spark Connect server; which one begins changes with every
repetition. In the end their tables must have the same row hash. Ratios are of medians: above 1, lake_assets is faster.
"""

import argparse
import math
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import psutil
from pyspark.sql import DataFrame, SparkSession

from benchmarks.large_tables.contenders import (
    Contender,
    CopyOnWriteMerge,
    DeltaMerge,
    Floor,
    PerFileMerge,
    Product,
    TextbookMerge,
    TooSlow,
)
from benchmarks.large_tables.workloads import COLUMNS, WORKLOADS, Source
from lake_assets.config import LakeConfig
from lake_assets.orchestration.lake_definitions import Lake, open_lake
from lake_assets.spark.connect_server import ConnectServer
from lake_assets.spark.preflight import free_port


def open_bench(folder: Path, remote: str, memory: str) -> Lake:
    """The lake of the benchmark's one table."""
    table = {"columns": COLUMNS, "primary_key": ["id"], "full_load_complete": "immediately"}
    dms = {
        "add_column_name": True,
        "include_op_for_full_load": True,
        "timestamp_column_name": "commit_ts",
        "change_sequence_column": "change_seq",
    }
    source = {"location": str(folder / "bronze"), "dms": dms, "tables": {"public.items": table}}
    config = {
        "catalog": {"uri": str(folder / "catalog.db"), "warehouse": str(folder / "warehouse")},
        "spark": {
            "mode": "connect",
            "remote": remote,
            "conf": {"spark.sql.shuffle.partitions": 4, "spark.driver.memory": memory},
        },
        "automation": {"max_files_per_batch": 1_000},
        "sources": {"bench": source},
    }
    return open_lake(LakeConfig.model_validate(config), marts=())


def timed(contender: Contender, files: Sequence[Path], *, load: bool = False) -> float:
    """Seconds of one batch; not a number if it was not measured."""
    began = time.perf_counter()
    try:
        (contender.load if load else contender.apply)(files)
    except TooSlow:
        return math.nan
    return time.perf_counter() - began


def row_hash(rows: DataFrame) -> tuple[int, int]:
    """Number of rows, and a hash of them in any order."""
    row = rows.selectExpr("count(*) AS rows", f"bit_xor(xxhash64({', '.join(COLUMNS)})) AS hash").first()
    assert row is not None
    return row["rows"], row["hash"]


def measure(folder: Path, server: ConnectServer, lake: Lake, given: argparse.Namespace) -> None:
    """Prints a line for each workload."""
    catalog = lake.config.catalog.name
    with lake.runtime.sessions.isolated() as spark:
        product, merge = Product(lake), TextbookMerge(spark, catalog)
        contenders: list[Contender] = [product, merge, Floor(spark, catalog, merge.table())]
        if given.all:
            contenders += [CopyOnWriteMerge(spark, catalog), PerFileMerge(spark, catalog), DeltaMerge(folder)]
        source = Source(folder / "bronze", given.rows)
        warm_up(folder, spark, catalog)
        files = source.load()
        loads = {each.name: timed(each, files, load=True) for each in contenders}
        print(f"\n| full load of {given.rows:,} rows | {loads[product.name]:.1f} s | plain append", end=" ")
        print(f"{loads[merge.name]:.1f} s | {loads[merge.name] / loads[product.name]:.2f} |", stages(product))
        others = [each.name for each in contenders[3:]]
        heads = (
            "lake_assets s",
            "textbook MERGE s",
            "ratio",
            "floor s",
            "times the floor",
            *others,
            "of the turn",
        )
        print(f"\n| workload | {' | '.join(heads)} |\n|---{'|---' * len(heads)}|")
        for workload in WORKLOADS:
            if given.only and not any(part in workload.name for part in given.only):
                continue
            seconds: dict[str, list[float]] = defaultdict(list)
            for number in range(given.repeat + 1):
                files = source.changes(workload)
                for each in contenders[number % 2 :] + contenders[: number % 2]:
                    taken = timed(each, files)
                    if number:  # the first one warms up
                        seconds[each.name].append(taken)
            own, other, least, *more = (statistics.median(seconds[each.name]) for each in contenders)
            figures = [own, other, other / own, least, own / least, *more]
            cells = [workload.name, *(f"{figure:.2f}" for figure in figures), stages(product)]
            print(f"| {' | '.join(cells)} |", flush=True)
        tables = {each.name: each.rows(spark) for each in contenders}
        found = {name: row_hash(rows) for name, rows in tables.items() if rows is not None}
        expected = len(source.alive)
        assert set(found.values()) == {(expected, found[product.name][1])}, found
        print(f"\nEvery table has the same {expected:,} rows.", end=" ")
        running = server.running()
        if running is not None:
            print(f"The server has {psutil.Process(running.pid).memory_info().rss / 2**20:,.0f} MB.")


def warm_up(folder: Path, spark: SparkSession, catalog: str) -> None:
    """Has the server compile Spark's reader and Iceberg's writer, before the first contender."""
    small = Source(folder / "warm", 100_000).load()
    merge = TextbookMerge(spark, catalog)
    for _ in range(3):
        merge.load(small)
        spark.sql(f"DROP TABLE {merge.table()} PURGE")


def stages(product: Product) -> str:
    """Seconds of the last batch's stages."""
    taken = {"scan": product.scan_seconds}
    for batch in product.results:
        for name, seconds in batch.seconds.items():
            taken[name] = taken.get(name, 0) + seconds
    strategies = "/".join(batch.strategy for batch in product.results)
    return f"{strategies}: " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in taken.items())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--memory", default="8g")
    parser.add_argument("--all", action="store_true", help="with contenders that take many times as long")
    parser.add_argument("--only", nargs="*", help="parts of the workloads' names")
    parser.add_argument("--folder", help="where the tables are made, by default a temporary folder")
    given = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} before, {os.cpu_count()} cores, {given.memory} for Spark")
    with tempfile.TemporaryDirectory(dir=given.folder) as place:
        folder = Path(place)
        lake = open_bench(folder, f"sc://127.0.0.1:{free_port()}", given.memory)
        server = ConnectServer(lake.config, folder / "spark")
        server.start()
        try:
            measure(folder, server, lake, given)
        finally:
            server.stop()
    print(f"load average {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()

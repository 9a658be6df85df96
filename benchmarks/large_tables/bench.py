"""What the benchmarks of tables share: a lake on a Spark Connect server, the times of a batch, the comparison of rows.

Here: these parts. Not here: who applies the files (`contenders.py`), what a batch has written and the results
(`results.py`).
"""

import os
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession

from benchmarks.large_tables.contenders import TextbookMerge, TooSlow
from benchmarks.large_tables.results import Measured, Results, sizes
from benchmarks.large_tables.workloads import COLUMNS, Source
from lake_assets.config import LakeConfig
from lake_assets.iceberg.publish import KeptBranches
from lake_assets.orchestration.lake_definitions import Lake, open_lake
from lake_assets.spark.connect.connect_server import ConnectServer
from lake_assets.spark.preflight import free_port


@dataclass(frozen=True, slots=True)
class Bench:
    """A lake with a running server, and a session on it."""

    folder: Path
    lake: Lake
    spark: SparkSession
    results: Results
    server: psutil.Process

    @property
    def catalog(self) -> str:
        return self.lake.config.catalog.name

    @property
    def bronze(self) -> Path:
        return self.folder / "bronze"

    def measured(self, batch: Callable[[Sequence[Path]], None], files: Sequence[Path]) -> Measured:
        """Runs a contender's `load` or `apply`: its seconds, and what is new in the warehouse."""
        warehouse = self.folder / "warehouse"
        before, worked = sizes(warehouse), self.processor()
        began = time.perf_counter()
        try:
            batch(files)
        except TooSlow as slow:
            return Measured.estimated(slow.estimate)
        seconds = time.perf_counter() - began
        changes = sum(file.stat().st_size for file in files)
        return Measured.of(seconds, self.processor() - worked, changes, before, sizes(warehouse))

    def processor(self) -> float:
        """Processor seconds of the server, of this process and of those that it has started."""
        started = {self.server, *psutil.Process().children(recursive=True)}
        times = [process.cpu_times() for process in started]
        return float(sum(each.user + each.system for each in times)) + time.process_time()

    def warm_up(self) -> None:
        """Has the server compile Spark's reader and Iceberg's writer, before the first contender."""
        small = Source(self.folder / "warm", 100_000).load()
        merge = TextbookMerge(self.spark, self.catalog)
        for _ in range(3):
            merge.load(small)
            self.spark.sql(f"DROP TABLE {merge.table()} PURGE")


def options(description: str | None, *, rows: int, repeat: int, memory: str = "8g") -> ArgumentParser:
    """The options of every such benchmark."""
    parser = ArgumentParser(description=description)
    parser.add_argument("--rows", type=int, default=rows)
    parser.add_argument("--repeat", type=int, default=repeat)
    parser.add_argument("--memory", default=memory)
    parser.add_argument("--folder", help="where the tables are made, by default a temporary folder")
    parser.add_argument("--out", type=Path, help="a file for the results, as JSON")
    return parser


@contextmanager
def opened(
    name: str,
    given: Namespace,
    tables: Iterable[str] | Mapping[str, Any] = ("items",),
    spark: Mapping[str, Any] | None = None,
) -> Iterator[Bench]:
    """A lake of these tables on a server of its own; prints and writes the results, if there are any, in the end.
    `tables`: their names, or by name their sections of lake.yaml. `spark`: more of its section."""
    print(f"load average {os.getloadavg()[0]:.1f} before, {os.cpu_count()} cores, {given.memory} for Spark")
    results = Results(name, given.rows, given.repeat, given.memory)
    with tempfile.TemporaryDirectory(dir=given.folder) as place:
        folder = Path(place)
        lake = _lake(folder, given.memory, tables, spark or {})
        server = ConnectServer(lake.config, folder / "spark")
        pid = server.start().pid
        try:
            with lake.runtime.sessions.isolated() as spark:
                yield Bench(folder, lake, spark, results, psutil.Process(pid))
            results.end(pid)
        finally:
            server.stop()
    if results.figures():
        print(results.table())
        print(results.conditions())
    if given.out is not None:
        results.write(given.out)


def _lake(
    folder: Path, memory: str, tables: Iterable[str] | Mapping[str, Any], spark: Mapping[str, Any]
) -> Lake:
    if not isinstance(tables, Mapping):
        items = {"columns": COLUMNS, "primary_key": ["id"], "full_load_complete": "immediately"}
        tables = dict.fromkeys(tables, items)
    dms = {
        "add_column_name": True,
        "include_op_for_full_load": True,
        "timestamp_column_name": "commit_ts",
        "change_sequence_column": "change_seq",
    }
    source = {
        "location": str(folder / "bronze"),
        "dms": dms,
        "tables": {f"public.{name}": section for name, section in tables.items()},
    }
    conf = {"spark.sql.shuffle.partitions": 4, "spark.driver.memory": memory, **spark.get("conf", {})}
    config = {
        "catalog": {"uri": str(folder / "catalog.db"), "warehouse": str(folder / "warehouse")},
        "spark": {"mode": "connect", "remote": f"sc://127.0.0.1:{free_port()}", **spark, "conf": conf},
        "automation": {"max_files_per_batch": 1_000},
        "sources": {"bench": source},
    }
    lake = open_lake(LakeConfig.model_validate(config), marts=())
    lake.runtime.branches = KeptBranches()  # as in the continuous run
    return lake


def assert_same(tables: Mapping[str, DataFrame | None], expected: int) -> None:
    """Compares the rows of all contenders that have the source's rows."""
    found = {name: row_hash(rows) for name, rows in tables.items() if rows is not None}
    assert len(set(found.values())) == 1, found
    assert {rows for rows, _ in found.values()} == {expected}, (found, expected)


def row_hash(rows: DataFrame) -> tuple[int, int]:
    """Number of rows, and a hash of them in any order."""
    row = rows.selectExpr("count(*) AS rows", f"bit_xor(xxhash64({', '.join(COLUMNS)})) AS hash").first()
    assert row is not None
    return row["rows"], row["hash"]

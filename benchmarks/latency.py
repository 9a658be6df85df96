"""`python -m benchmarks.latency`: the time from a file's appearance until silver has its rows, and until the mart shows
them.

Each table changes every second (200 changes a file). A run that stays up (`orchestration/runs/continuous_run.py`)
applies them in this process, on a Spark Connect server that is started for it or, with `--embedded`, on a Spark in this
process. A file counts as readable when PyIceberg has loaded a snapshot whose position is beyond it. In the end every
table is read with PyIceberg and compared with what was written. Here: the load, the times, the percentiles. No
baseline: the figures are absolute, and of the machine that they were taken on.
"""

import argparse
import gc
import random
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import LakeConfig, parse_column
from lake_assets.gold.mart import Input, Mart, MartRequest
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.orchestration.lake_definitions import Lake, open_lake
from lake_assets.orchestration.runs.continuous_run import Continuous, Round
from lake_assets.rounds.maintenance import maintain_silver
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.table.batch_latency import Spread
from lake_assets.silver.table.position import read_position
from lake_assets.spark.connect.connect_server import ConnectServer
from lake_assets.spark.preflight import free_port

CHANGES = 200
"""The changes in a file."""
LONG_EVERY = 30
WARM_UP = 60
"""Rounds before the measurement, followed by a maintenance of a table: a JVM compiles what it runs."""


def newest(request: MartRequest) -> DataFrame:
    """The highest number of a change that the first table has."""
    return request.inputs["table"].agg(F.max("n").alias("n"), F.lit(request.now).alias("as_of"))


MART = Mart(
    name="newest",
    description="The highest number of a change that the first table has.",
    inputs={"table": Input("bench", "t0")},
    columns=(parse_column("n", "long"), parse_column("as_of", "timestamptz")),
    compute=newest,
    partition_column=None,
)


@dataclass
class Feed:
    """Writes a file of each table every second, and knows what was written when."""

    folder: Path
    tables: int
    keys: int
    long: int = 0
    """Rows of a further table, all of which change every `LONG_EVERY` seconds; 0 for no such table."""
    chosen: random.Random = field(default_factory=lambda: random.Random(1))
    written: dict[str, float] = field(default_factory=dict)
    """By file key, when the file became visible, by the process's clock."""
    rows: list[dict[int, int]] = field(default_factory=list)
    number: int = 0
    seconds: int = 0

    every = 1.0
    """Seconds between two calls of `second`."""
    since = "file visible"
    """From when the times are counted."""

    def __post_init__(self) -> None:
        self.rows = [{} for _ in range(self.tables + bool(self.long))]

    def load(self) -> None:
        """A full load of each table."""
        now = datetime.now(UTC)
        for table in range(len(self.rows)):
            keys = range(self.keys if table < self.tables else self.long)
            self.rows[table] = dict.fromkeys(keys, 0)
            lines = [f"I,{now:%Y-%m-%d %H:%M:%S.%f},{key},0,," for key in keys]
            self._put(table, "LOAD00000001.csv", lines)

    def second(self) -> None:
        """One file of each table."""
        for table in range(self.tables):
            self.one(table)
        self.seconds += 1
        if self.long and self.seconds % LONG_EVERY == 0:
            self.one(self.tables, range(self.long))

    def one(self, table: int, keys: Iterable[int] = ()) -> None:
        """A file of one table, with a change of each of the keys, by default of some of them."""
        now = datetime.now(UTC)
        lines = []
        for key in keys or [self.chosen.randrange(self.keys) for _ in range(CHANGES)]:
            self.number += 1
            self.rows[table][key] = self.number
            stamp = f"{now:%Y%m%d%H%M%S}{now.microsecond // 10_000:02d}{self.number:019d}"
            lines.append(f"U,{now:%Y-%m-%d %H:%M:%S.%f},{key},{self.number},{stamp},")
        self._put(table, f"{now:%Y%m%d-%H%M%S}{now.microsecond // 1000:03d}.csv", lines)

    def _put(self, table: int, name: str, lines: list[str]) -> None:
        key = f"public/t{table}/{name}"
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name(f".{name}")
        hidden.write_text("\n".join(["Op,ts,id,n,seq,BI_id", *lines, ""]), encoding="utf-8")
        hidden.replace(path)
        self.written[key] = time.time()

    def has_landed(self, used: Lake) -> bool:
        """Whether all that was sent is in files."""
        return True

    def show_stages(self, silver: Sequence[tuple[LoggedFile, float]]) -> None:
        """Prints what the times consist of."""

    def oldest(self, file: LoggedFile) -> float:
        """Since when its oldest change has waited, in seconds since the epoch: since the file was visible."""
        return self.written[file.key]

    def waited(self, file: LoggedFile, readable: float) -> list[float]:
        """How long the changes of the file took, in seconds."""
        return [readable - self.written[file.key]]


class Timed(Continuous):
    """Notes when each file's rows were readable, and when the mart showed them."""

    maintained = 0
    feed: Feed
    silver: list[tuple[LoggedFile, float]]
    """Files, and when their rows were readable."""
    gold: list[float]
    offsets: dict[str, int]
    shown: float

    def _applied(self, result: TableResult, done: Round) -> None:
        table = self._runtime.catalog.load_table(result.target.identifier)
        readable, now = read_position(table).log_offset, time.time()
        for batch in result.batches:
            upto, since = batch.position.log_offset, self.offsets.get(result.target.name, 0)
            assert readable >= upto
            files = self._runtime.file_log.files("bench", result.target.table, after=since, upto=upto)
            if result.target.name != f"t{self.feed.tables}":
                self.silver += [(file, now) for file in files if "LOAD" not in file.key]
            if result.target.name == "t0" and files:
                self.shown = min(self.feed.oldest(file) for file in files)
            self.offsets[result.target.name] = upto
        super()._applied(result, done)

    def _refresh(self, mart: Mart, loaded: LoadedTables, done: Round) -> None:
        before = done.marts
        super()._refresh(mart, loaded, done)
        if done.marts > before:
            self.gold.append(time.time() - self.shown)

    def waited(self) -> list[float]:
        """How long the changes took until they were readable in silver."""
        return [seconds for file, readable in self.silver for seconds in self.feed.waited(file, readable)]


def lake(folder: Path, tables: int, remote: str | None, large: bool = False, partitions: int = 0) -> Lake:
    """A lake in the folder. `large`: the engine takes its tables for too large to be rewritten. `partitions`: of each
    table, by its key; 0: none."""
    config = lake_config(folder, tables, remote, large)
    if partitions:
        for table in config["sources"]["bench"]["tables"].values():
            table["partition_by"] = [f"bucket({partitions}, id)"]
    return open_lake(LakeConfig.model_validate(config), marts=(MART,))


def lake_config(folder: Path, tables: int, remote: str | None, large: bool = False) -> dict[str, Any]:
    """Its lake.yaml."""
    table: dict[str, Any] = {
        "columns": {"id": "long not null", "n": "long"},
        "primary_key": ["id"],
        "full_load_complete": "immediately",
    }
    spark: dict[str, Any] = {"conf": {"spark.sql.shuffle.partitions": 2}}
    if remote is not None:
        spark |= {"mode": "connect", "remote": remote}
    return {
        "catalog": {"uri": str(folder / "catalog.db"), "warehouse": str(folder / "warehouse")},
        "spark": spark,
        "automation": {"rewrite_below_mb": 0} if large else {},
        "sources": {
            "bench": {
                "location": str(folder / "bronze"),
                "dms": {
                    "add_column_name": True,
                    "include_op_for_full_load": True,
                    "timestamp_column_name": "ts",
                    "change_sequence_column": "seq",
                    "before_image_prefix": "BI_",
                },
                "tables": {f"public.t{number}": table for number in range(tables)},
            }
        },
    }


def percentiles(values: list[float]) -> str:
    """p50, p90, p99 and the highest, in seconds."""
    if (spread := Spread.of(values)) is None:
        return "none"
    figures = "  ".join(f"{name} {seconds:6.2f}" for name, seconds in asdict(spread).items())
    return f"{figures}  n {len(values)}"


def memory() -> float:
    """Resident MB of this process and its children, the embedded Spark among them."""
    own = psutil.Process()
    return sum(process.memory_info().rss for process in (own, *own.children(recursive=True))) / 2**20


def run(folder: Path, given: argparse.Namespace) -> None:
    """Prints a line each half minute, about the oldest change of each file since the line before, and the percentiles
    of all changes in the end."""
    remote = None if given.embedded else f"sc://127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        if given.stream:
            # Here, because its libraries are an extra.
            from benchmarks.stream_latency import stream_lake

            used, feed = stack.enter_context(stream_lake(folder, given, remote))
        else:
            used = lake(folder, given.tables + bool(given.long), remote, given.large, given.partitions)
            feed = Feed(folder / "bronze", given.tables, given.keys, given.long)
        if remote is not None:
            server = ConnectServer(used.config, folder / "spark")
            server.start()
            stack.callback(server.stop)
        measure(used, feed, given.minutes, folder)


def measure(used: Lake, feed: Feed, minutes: float, folder: Path) -> None:
    """Applies the feed for these minutes, and prints what `run` says."""
    rounds = Timed(used.runtime, "bench", used.targets, used.marts, dg.DagsterInstance.ephemeral())
    rounds.feed, rounds.silver, rounds.gold, rounds.offsets, rounds.shown = feed, [], [], {}, time.time()
    feed.load()
    for _ in range(WARM_UP):
        feed.second()
        rounds.round()
    _until_idle(rounds, used)
    for target in used.targets[:1]:
        maintain_silver(used.runtime, used.marts, target, keep_commits=2)
    rounds.silver.clear()
    rounds.gold.clear()
    gc.collect()
    over = threading.Event()
    writer = threading.Thread(target=_write, args=(feed, over), daemon=True)
    writer.start()
    began = told = time.monotonic()
    number = printed = 0
    while time.monotonic() - began < minutes * 60:
        done = rounds.round()
        number += bool(done.batches)
        rounds.maintained += len(done.maintained)
        if time.monotonic() - told > 30:
            told = time.monotonic()
            oldest = [readable - feed.oldest(file) for file, readable in rounds.silver[printed:]]
            printed = len(rounds.silver)
            print(
                f"{told - began:5.0f} s  {feed.since} to silver {percentiles(oldest)}  {_state(used, folder)}",
                flush=True,
            )
            list(rounds.events())
    seconds = time.monotonic() - began
    over.set()
    writer.join()
    _until_idle(rounds, used)
    print(f"\n{feed.tables} tables of {feed.keys} rows, {minutes:g} minutes, {number} rounds of", end=" ")
    print(f"{seconds / max(number, 1):.2f} s, {rounds.maintained} times a table was maintained")
    print(f"{feed.since} to silver published  {percentiles(rounds.waited())}")
    print(f"{feed.since} to mart published    {percentiles(rounds.gold)}")
    feed.show_stages(rounds.silver)
    print(_state(used, folder))
    for index, expected in enumerate(feed.rows):
        table = used.runtime.catalog.load_table(f"silver_bench.t{index}")
        found = {row["id"]: row["n"] for row in table.scan().to_arrow().to_pylist()}
        print(f"t{index}: {'equal' if found == expected else 'NOT EQUAL'} ({len(found)} rows)")


def _until_idle(rounds: "Timed", used: Lake) -> None:
    done = rounds.round()
    while done.batches or done.under_way or not rounds.feed.has_landed(used):
        done = rounds.round()


def _write(feed: Feed, over: threading.Event) -> None:
    due = time.monotonic()
    while not over.is_set():
        feed.second()
        due += feed.every
        over.wait(max(0.0, due - time.monotonic()))


def _state(used: Lake, folder: Path) -> str:
    table = used.runtime.catalog.load_table("silver_bench.t0")
    snapshot = table.current_snapshot()
    properties = dict(snapshot.summary.additional_properties) if snapshot and snapshot.summary else {}
    files, snapshots = properties.get("total-data-files"), len(table.metadata.snapshots)
    metadata = len(list((folder / "warehouse").rglob("t0/metadata/*")))
    return f"{memory():.0f} MB, t0: {files} live files, {snapshots} snapshots, {metadata} metadata files"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=5)
    parser.add_argument("--keys", type=int, default=2000, help="rows of a table")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--embedded", action="store_true", help="Spark in this process, rather than a server")
    parser.add_argument(
        "--large", action="store_true", help="no table is rewritten whole, as if it were large"
    )
    parser.add_argument(
        "--long", type=int, default=0, help="rows of a further table, all of which change every 30 s"
    )
    parser.add_argument("--partitions", type=int, default=0, help="of each table, by its key; 0: none")
    parser.add_argument(
        "--stream", action="store_true", help="the changes come through Kafka, and count from their commit"
    )
    parser.add_argument("--changes", type=int, default=200, help="a second, with --stream")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        run(Path(place), given)


if __name__ == "__main__":
    main()

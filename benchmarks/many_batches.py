"""`python -m benchmarks.many_batches`: what a batch of 1,000 changes costs after a thousand others.

A table of a million rows, and the rounds of the continuous run (`orchestration/runs/continuous_run.py`) with its
maintenance, as in production. With `--sync`, each batch is a call of `sync` (`orchestration/sync.py`) with the
maintenance that it does by itself, and what the table has become for its readers and for the disk is compared with a
freshly written copy. A second table of the same rows warms the server up. The cost of a batch is that of its round or
call until its rows are readable. The cost of a round or call includes the maintenance after the batch. In the end the
table must equal the source. Here: the measurement. Not here: other ways to apply the batches (`large_tables`).
"""

import json
import os
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median, quantiles

import dagster as dg
from pyiceberg.table import Table

from benchmarks import read_health
from benchmarks.large_tables.bench import Bench, assert_same, opened, options
from benchmarks.large_tables.contenders import read
from benchmarks.large_tables.results import PRODUCT
from benchmarks.large_tables.workloads import NOTE, Source, Workload, values
from lake_assets.config import ContinuousConfig
from lake_assets.iceberg.table_io import TABLE_PROPERTIES, summary
from lake_assets.orchestration.runs.continuous_run import Continuous, Round
from lake_assets.orchestration.sync import sync
from lake_assets.rounds.maintenance import maintain_silver
from lake_assets.silver.batch.result import TableResult

WORKLOAD = Workload("1,000 uniform", 1_000, files=1)
ENDS = 20
"""How many batches at the beginning are compared with as many at the end."""
ENDS_OF_ROUNDS = 100
"""How many rounds are compared: more, because not every round has maintenance."""
ENDS_OF_CALLS = 50
"""How many calls of `sync` at the beginning are compared with as many at the end."""
TABLE = "silver_bench.items"
NOTES = {
    False: NOTE,
    True: f"{NOTE} || ' ' || " + " || ".join(f"md5(id || '{n}' || version)" for n in range(6)),
}
"""The text of a row, by whether rows are wide: its digits take about 100 bytes of a file."""
NOTED_EACH = 5
"""Calls of `sync` after which the table's files are counted."""
SCANS = 5
"""Of the table and of its copy, in turns; the fastest counts."""

Cost = tuple[float, float]
"""Seconds, and processor seconds."""


class Rounds(Continuous):
    """Notes what the last batch had cost when its rows were readable."""

    bench: Bench
    began: Cost = 0.0, 0.0
    batch: Cost = 0.0, 0.0

    def _applied(self, result: TableResult, done: Round) -> None:
        self.batch = self.since()
        super()._applied(result, done)

    def since(self) -> Cost:
        """The cost since the round began."""
        return time.perf_counter() - self.began[0], self.bench.processor() - self.began[1]

    def apply(self, files: Sequence[Path]) -> Round:
        """A round, which must apply the files."""
        self.began = time.perf_counter(), self.bench.processor()
        done = self.round()
        assert (done.files, done.batches, done.failed) == (len(files), 1, []), done
        return done


def measure(bench: Bench, given: Namespace) -> None:
    """Prints the state after some of the batches, and the comparison of the first ones with the last ones."""
    rounds = rounds_of(bench)
    warm, source = Source(bench.bronze, given.rows, "warm"), Source(bench.bronze, given.rows)
    for each in (warm, source):
        each.load()
        while rounds.round().under_way:
            time.sleep(0.1)
    for _ in range(given.warm_up):
        rounds.apply(warm.changes(WORKLOAD))
    batches, whole = apply_batches(rounds, source, given)
    rounds.finish()
    rounds.close()
    compare("batch, median", median, batches, ENDS)
    compare("round, mean", mean, whole, ENDS_OF_ROUNDS)
    # The benchmark's own session has rested for so long that the server may have closed it.
    spark = bench.lake.runtime.sessions.root()
    rows = spark.table(f"{bench.catalog}.{TABLE}")
    assert_same({PRODUCT: rows, "source": read(spark, [source.expected()])}, len(source.alive))
    print(f"The table has the {len(source.alive):,} rows of the source.")


@dataclass
class Calls:
    """The calls of `sync`, and what each cost."""

    bench: Bench
    instance: dg.DagsterInstance
    readable: list[Cost] = field(default_factory=list)
    """Until the rows of a batch were readable; the processor seconds are those of calls without maintenance, and 0 of
    the others."""
    whole: list[float] = field(default_factory=list)
    """Seconds of a call, with its maintenance."""
    maintained: int = 0
    failed: list[str] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    """The machine's load average at the end of each call."""
    tables: list[dict[str, int]] = field(default_factory=list)
    """What the table was after every NOTED_EACH calls."""

    def apply(self) -> None:
        """One call, which should apply the batch that is pending."""
        began, worked = time.perf_counter(), self.bench.processor()
        result = sync(self.bench.lake, self.instance)
        whole, worked = time.perf_counter() - began, self.bench.processor() - worked
        maintenance = result.seconds.get("maintenance", 0.0)
        self.readable.append((whole - maintenance, 0.0 if maintenance else worked))
        self.whole.append(whole)
        self.maintained += maintenance > 0
        self.failed += [*result.failed.values(), *result.unlisted.values(), *result.notes]
        if not result.applied:
            self.failed.append("a call has applied nothing")
        self.loads.append(os.getloadavg()[0])

    def note(self) -> None:
        """Notes what the table is now."""
        table = self.bench.lake.runtime.catalog.load_table(TABLE)
        figures = summary(table.current_snapshot())
        self.tables.append(
            {
                "batch": len(self.whole),
                "data_files": int(figures["total-data-files"]),
                "delete_files": int(figures["total-delete-files"]),
                "snapshots": len(table.metadata.snapshots),
                "live_bytes": int(figures["total-files-size"]),
                "stored_bytes": _stored(_folder(table)),
            }
        )

    def write(self, path: Path) -> None:
        """Writes the cost of each call and the states of the table, which `benchmarks.plot_batches` draws."""
        readable = [round(seconds, 3) for seconds, _ in self.readable]
        whole = [round(seconds, 3) for seconds in self.whole]
        path.write_text(json.dumps({"readable": readable, "whole": whole, "tables": self.tables}))


def measure_sync(bench: Bench, given: Namespace) -> None:
    """Prints what calls of `sync` have cost, and what is left behind by them."""
    bench.lake.runtime.branches = None  # `sync` is a new process each time, which finds none
    instance = dg.DagsterInstance.ephemeral()
    source = Source(bench.bronze, given.rows, values=values(NOTES[given.wide]))
    warm = Source(bench.bronze, given.rows // 10, "warm")
    for each in (warm, source):
        each.load()
        Calls(bench, instance).apply()
    warming, calls = Calls(bench, instance), Calls(bench, instance)
    for _ in range(given.warm_up):
        warm.changes(WORKLOAD)
        warming.apply()
    end = time.monotonic() + given.minutes * 60
    while len(calls.whole) < given.batches and time.monotonic() < end:
        source.changes(WORKLOAD)
        calls.apply()
        if len(calls.whole) % NOTED_EACH == 0:
            calls.note()
        if len(calls.whole) % 100 == 0:
            print(
                f"batch {len(calls.whole)}: {_state(bench)}; maintained {calls.maintained} times", flush=True
            )
    if given.calls is not None:
        calls.write(given.calls)
    print_calls(calls, given)
    print_remains(bench, source)


def print_calls(calls: Calls, given: Namespace) -> None:
    """The conditions, and the figures of the calls."""
    loads = calls.loads
    print(
        f"{len(calls.whole)} batches of {WORKLOAD.changes:,} random changes of {given.rows:,} rows, each in a call of "
        f"sync in this process; load average {min(loads):.1f} to {max(loads):.1f}, {mean(loads):.1f} on average; "
        f"maintained {calls.maintained} times"
    )
    print(f"failed batches or maintenance: {len(calls.failed)} {calls.failed[:3]}")
    compare("batch, median", median, calls.readable, ENDS_OF_CALLS)
    readable = [seconds for seconds, _ in calls.readable]
    alone, beside = _p99(readable), _p99(calls.whole)
    print(
        f"p99 until the rows are readable {alone:.2f} s; of the call with its maintenance {beside:.2f} s: "
        f"{beside / alone:.2f}"
    )


def print_remains(bench: Bench, source: Source) -> None:
    """The table beside a freshly written copy: a full scan, files, bytes on the disk."""
    catalog = bench.lake.runtime.catalog
    spark = bench.lake.runtime.sessions.root()
    given = {**TABLE_PROPERTIES, "format-version": "3"}
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {bench.catalog}.silver")
    spark.sql(
        f"CREATE TABLE {bench.catalog}.silver.fresh USING iceberg TBLPROPERTIES ({properties}) AS "
        f"SELECT * FROM {bench.catalog}.{TABLE}"
    )
    names = TABLE, "silver.fresh"
    worn, fresh = read_health.scanned(spark, catalog.load_table, SCANS, names, bench.catalog)
    for way, seconds in worn.seconds.items():
        copy = fresh.seconds[way]
        print(
            f"full scan by {way}, fastest of {SCANS}: {seconds:.2f} s, of a fresh copy {copy:.2f} s: "
            f"{seconds / copy:.2f}"
        )
    living, files = fresh.files.bytes, worn.files.number
    print(
        f"{files} data files and {worn.files.delete_files} of deletes, {living / 2**20:.0f} MB in the copy: "
        f"{files / (living / 2**30):.0f} files a GB"
    )
    folder = _folder(catalog.load_table(TABLE))
    print(f"storage, within keep_snapshots of all batches: {_stored(folder) / living:.2f} times the copy")
    target = next(each for each in bench.lake.targets if each.identifier == TABLE)
    done = maintain_silver(bench.lake.runtime, (), target, keep_commits=1)
    assert done.error is None, done.error
    print(
        f"storage, once keep_snapshots has passed since the last batch: {_stored(folder) / living:.2f} times the copy"
    )
    assert_same(
        {PRODUCT: spark.table(f"{bench.catalog}.{TABLE}"), "source": read(spark, [source.expected()])},
        len(source.alive),
    )
    print(f"The table has the {len(source.alive):,} rows of the source.")


def _p99(seconds: list[float]) -> float:
    return quantiles(seconds, n=100)[98]


def _folder(table: Table) -> Path:
    return Path(table.location().removeprefix("file:"))


def _stored(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def rounds_of(bench: Bench) -> Rounds:
    """The rounds of a continuous run."""
    lake, instance = bench.lake, dg.DagsterInstance.ephemeral()
    rounds = Rounds(lake.runtime, "bench", lake.targets, (), instance, settings=ContinuousConfig())
    rounds.bench = bench
    return rounds


def apply_batches(rounds: Rounds, source: Source, given: Namespace) -> tuple[list[Cost], list[Cost]]:
    """The cost of each batch, and the cost of its round."""
    batches: list[Cost] = []
    whole: list[Cost] = []
    maintained, end = 0, time.monotonic() + given.minutes * 60
    while len(batches) < given.batches and time.monotonic() < end:
        done = rounds.apply(source.changes(WORKLOAD))
        batches.append(rounds.batch)
        whole.append(rounds.since())
        maintained += len(done.maintained)
        number = len(batches)
        if number in (1, ENDS) or number % 100 == 0:
            print(f"batch {number}: {_state(rounds.bench)}; maintained {maintained} times", flush=True)
    print(f"{len(batches)} batches: {_state(rounds.bench)}; maintained {maintained} times")
    return batches, whole


def compare(what: str, average: Callable[[list[float]], float], costs: list[Cost], most: int) -> None:
    """Prints the average of the first costs, that of the last ones, and their ratio; at most `most` costs of each."""
    number = min(most, len(costs) // 2)
    for unit, place in (("s", 0), ("processor s", 1)):
        figures = [cost[place] for cost in costs]
        first, last = average(figures[:number]), average(figures[-number:])
        print(
            f"{what}: first {number} {first:.2f} {unit}, last {number} {last:.2f} {unit}: {last / first:.2f}"
        )


def _state(bench: Bench) -> str:
    """Files, snapshots and metadata of the table, and of the file log."""
    found = []
    for identifier in (TABLE, "lake_ops.bronze_files"):
        table = bench.lake.runtime.catalog.load_table(identifier)
        newest = table.current_snapshot()
        assert newest is not None
        assert newest.summary is not None
        figures = newest.summary.additional_properties
        size = Path(table.metadata_location.removeprefix("file:")).stat().st_size
        found.append(
            f"{identifier} {figures['total-data-files']} data files, {figures['total-delete-files']} with deletes, "
            f"{len(newest.manifests(table.io))} manifests, {len(table.metadata.snapshots)} snapshots, "
            f"{size / 1000:.0f} kB of metadata"
        )
    return "; ".join(found)


def main() -> None:
    """The command line."""
    parser = options(__doc__, rows=1_000_000, repeat=1, memory="3g")
    parser.add_argument("--batches", type=int, default=1_000)
    parser.add_argument("--minutes", type=float, default=120, help="for the batches, at most")
    parser.add_argument("--warm-up", type=int, default=60, help="batches of the other table, before")
    parser.add_argument("--sync", action="store_true", help="calls of sync, rather than a continuous run")
    parser.add_argument("--wide", action="store_true", help="rows with a long text, with --sync only")
    parser.add_argument(
        "--calls", type=Path, help="where the cost of each call is written, as JSON, with --sync only"
    )
    given = parser.parse_args()
    with opened("many_batches", given, ("items", "warm")) as bench:
        (measure_sync if given.sync else measure)(bench, given)


if __name__ == "__main__":
    main()

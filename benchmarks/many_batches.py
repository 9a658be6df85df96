"""`python -m benchmarks.many_batches`: what a batch of 1,000 changes costs after a thousand others.

A table of a million rows, and the rounds of the continuous run (`orchestration/runs/continuous_run.py`) with its
maintenance, as in production. A second table of the same rows warms the server up. The cost of a batch is that of its
round until its rows are readable. The cost of a round includes the maintenance after the batch. In the end the table
must equal the source. Here: the measurement. Not here: other ways to apply the batches (`large_tables`).
"""

import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median

import dagster as dg

from benchmarks.large_tables.bench import Bench, assert_same, opened, options
from benchmarks.large_tables.contenders import read
from benchmarks.large_tables.results import PRODUCT
from benchmarks.large_tables.workloads import Source, Workload
from lake_assets.config import ContinuousConfig
from lake_assets.orchestration.runs.continuous_run import Continuous, Round
from lake_assets.silver.batch.result import TableResult

WORKLOAD = Workload("1,000 uniform", 1_000, files=1)
ENDS = 20
"""How many batches at the beginning are compared with as many at the end."""
ENDS_OF_ROUNDS = 100
"""How many rounds are compared: more, because not every round has maintenance."""

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
    rows = spark.table(f"{bench.catalog}.silver_bench.items")
    assert_same({PRODUCT: rows, "source": read(spark, [source.expected()])}, len(source.alive))
    print(f"The table has the {len(source.alive):,} rows of the source.")


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
    for identifier in ("silver_bench.items", "lake_ops.bronze_files"):
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
    given = parser.parse_args()
    with opened("many_batches", given, ("items", "warm")) as bench:
        measure(bench, given)


if __name__ == "__main__":
    main()

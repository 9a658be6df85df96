"""`python -m benchmarks.cluster`: the same batches on one Spark and on a cluster of two workers, on the same cores.

One Spark Connect server has two cores of its own; the other has a standalone master with two workers of one core each.
Both get the same files in turn. Prints the ratio of the times, and each process's share of the processor time: that of
the executors, the server, or this process, which is the client. Here: the measurement. Not here: the files
(`large_tables`).
"""

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from benchmarks.large_tables.bench import Bench, assert_same, opened, options
from benchmarks.large_tables.contenders import Product
from benchmarks.large_tables.workloads import Source, Workload
from lake_assets_tests.helpers.servers.spark_cluster import Cluster, spark_cluster

WORKLOADS = (
    Workload("1,000,000 uniform", 1_000_000),
    Workload("1,000,000 inserts", 1_000_000, inserts_only=True),
)
ALONE, TOGETHER = "one Spark", "two workers"
EXECUTORS, SERVER, CLIENT = PARTS = ("executors", "server", "client")


class Place:
    """A lake on one of the two."""

    def __init__(self, name: str, bench: Bench, cluster: Cluster | None) -> None:
        self.name, self.bench, self._cluster = name, bench, cluster
        self.product = Product(bench.lake, bench.lake.targets)
        self.source = Source(bench.bronze, bench.results.rows)
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.shares: dict[str, list[tuple[float, ...]]] = defaultdict(list)

    def run(self, workload: str, batch: Callable[[Sequence[Path]], None], files: Sequence[Path]) -> None:
        """Times one batch."""
        before = self._processor()
        measured = self.bench.measured(batch, files)
        spent = [after - former for after, former in zip(self._processor(), before, strict=True)]
        self.seconds[workload].append(measured.seconds)
        self.shares[workload].append(tuple(one / sum(spent) for one in spent))
        print(f"{self.name}, {workload}: {measured.seconds:.2f} s; {self.product.stages()}", flush=True)

    def _processor(self) -> tuple[float, ...]:
        """Processor seconds of the parts, so far."""
        workers = [psutil.Process(pid) for pid in self._cluster.workers] if self._cluster else []
        executors = {child for worker in workers for child in worker.children(recursive=True)}
        own = psutil.Process()
        others = {self.bench.server, *workers, *self.bench.server.children(recursive=True), *executors}
        clients = {own, *own.children(recursive=True)} - others
        return _seconds(executors), _seconds({self.bench.server}), _seconds(clients)


def _seconds(processes: set[psutil.Process]) -> float:
    found = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        found += times.user + times.system
    return found


def measure(places: Sequence[Place], repeat: int) -> None:
    """A full load and batches of each workload, in turn; the first batch of each workload warms up."""
    for place in places:
        place.run("full load", place.product.load, place.source.load())
    for number in range(repeat + 1):
        for workload in WORKLOADS:
            for place in places if number % 2 else places[::-1]:
                files = place.source.changes(workload)
                place.run(
                    workload.name if number else f"{workload.name}, the first", place.product.apply, files
                )
    rows = {place.name: place.product.rows(place.bench.spark) for place in places}
    assert_same(rows, len(places[0].source.alive))


def table(alone: Place, together: Place) -> str:
    """Markdown: medians of both, the cluster's speed, and its shares of the processor time."""
    lines = [f"\n| workload | {ALONE} s | {TOGETHER} s | speed of the cluster | {' | '.join(PARTS)} |"]
    lines.append("|---|---|---|---|---|---|---|")
    for workload in alone.seconds:
        one, two = (statistics.median(place.seconds[workload]) for place in (alone, together))
        shares = [statistics.median(part) for part in zip(*together.shares[workload], strict=True)]
        cells = [
            workload,
            f"{one:.2f}",
            f"{two:.2f}",
            f"{one / two:.2f}",
            *(f"{share:.0%}" for share in shares),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    given = options(__doc__, rows=10_000_000, repeat=3, memory="6g").parse_args()
    with (
        tempfile.TemporaryDirectory(dir=given.folder) as folder,
        spark_cluster(Path(folder), memory="4g") as cluster,
    ):
        on_cluster = {
            "master": cluster.master,
            "conf": {"spark.executor.memory": "3500m", "spark.executor.cores": 1},
        }
        alone = {"master": "local[2]"}
        with (
            opened("alone", given, spark=alone) as first,
            opened("cluster", given, spark=on_cluster) as second,
        ):
            for bench in (first, second):
                bench.warm_up()
            places = Place(ALONE, first, None), Place(TOGETHER, second, cluster)
            measure(places, given.repeat)
        print(table(*places))


if __name__ == "__main__":
    main()

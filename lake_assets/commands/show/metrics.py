"""`lake-assets metrics`: figures of batches and tables in Prometheus's format.

Here: the metrics, from the batch log and from `status`, and their endpoint. Not here: the log (`silver/batch_log/`).

Counters begin with the process, as Prometheus expects: batches that were recorded before it are in `lake-assets
batches`. A scrape reads the rows that the log has got since the one before.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from lake_assets.commands.show.latency import BOUNDS, histogram
from lake_assets.commands.show.status import TableStatus, status
from lake_assets.config.secrets import secrets_hidden
from lake_assets.errors import LakeError
from lake_assets.lake import Lake
from lake_assets.silver.batch_log.batch_row import BatchRow
from lake_assets.silver.batch_log.batches_table import BatchLog

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

OPERATIONS = ("read", "inserted", "updated", "deleted", "quarantined")


@dataclass(slots=True)
class _Seconds:
    """A histogram of one table: the number of values between each of BOUNDS and the previous one, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts = [a + b for a, b in zip(self.counts, histogram([seconds]), strict=True)]
        self.total += seconds

    @property
    def buckets(self) -> list[tuple[str, float]]:
        bounds = [*(f"{bound:g}" for bound in BOUNDS), "+Inf"]
        return [(bound, float(count)) for bound, count in zip(bounds, accumulate(self.counts), strict=True)]


class LakeMetrics:
    """A collector of Prometheus's client for one lake. Threads may share it."""

    def __init__(self, lake: Lake) -> None:
        self._lake, self._log, self._lock = lake, BatchLog(lake.runtime.catalog), threading.Lock()
        self._number = self._log.head()
        """The number of the newest batch that is counted."""
        self._batches = Counter[tuple[str, str, str]]()
        self._rows = Counter[tuple[str, str]]()
        self._files, self._bytes = Counter[str](), Counter[str]()
        self._stages: dict[tuple[str, str], float] = {}
        self._took: dict[str, _Seconds] = {}
        self._latency: dict[str, _Seconds] = {}

    def collect(self) -> "Iterator[Metric]":
        """The metrics as of now. Raises what the lake's tables raise, without secrets: the scrape fails then."""
        # The server of Prometheus's client prints the error.
        with secrets_hidden(self._lake.config):
            with self._lock:
                # Lower than before if the log was dropped, and begins again.
                self._number = min(self._number, self._log.head())
                self._count(self._log.after(self._number))
                of_batches = list(self._of_batches())
            found = [*of_batches, *_of_tables(status(self._lake))]
        yield from found

    def _count(self, new: Sequence[BatchRow]) -> None:
        for row in new:
            self._number = row.number
            self._batches[row.table, row.kind, row.strategy] += 1
            for name in OPERATIONS:
                self._rows[row.table, name] += getattr(row, f"rows_{name}")
            self._files[row.table] += row.files
            self._bytes[row.table] += row.bytes
            for stage, seconds in row.stages.items():
                self._stages[row.table, stage] = self._stages.get((row.table, stage), 0.0) + seconds
            self._took.setdefault(row.table, _Seconds()).add(row.seconds)
            if row.latency_seconds is not None:
                self._latency.setdefault(row.table, _Seconds()).add(row.latency_seconds)

    def _of_batches(self) -> "Iterator[Metric]":
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        def counter(
            name: str, text: str, labels: Sequence[str], values: Iterable[tuple[object, float]]
        ) -> "Metric":
            family = CounterMetricFamily(f"lake_{name}", text, labels=labels)
            for given, value in values:
                family.add_metric(given if isinstance(given, tuple) else (given,), value)
            return family

        def seconds(name: str, text: str, values: dict[str, _Seconds]) -> "Metric":
            family = HistogramMetricFamily(f"lake_{name}", text, labels=["table"])
            for table, found in values.items():
                family.add_metric([table], found.buckets, found.total)
            return family

        of = ["table"]
        yield counter("batches", "Published batches.", [*of, "kind", "strategy"], self._batches.items())
        yield counter("batch_rows", "Rows of batches.", [*of, "operation"], self._rows.items())
        yield counter("batch_files", "Files of batches.", of, self._files.items())
        yield counter("batch_bytes", "Bytes of the files of batches.", of, self._bytes.items())
        stages = self._stages.items()
        yield counter("batch_stage_seconds", "Seconds of batches by stage.", [*of, "stage"], stages)
        yield seconds("batch_seconds", "From a batch's beginning to its rows being readable.", self._took)
        latency = "From a batch's oldest file to its rows being readable."
        yield seconds("batch_latency_seconds", latency, self._latency)


def _of_tables(lines: Sequence[TableStatus]) -> "Iterator[Metric]":
    from prometheus_client.core import GaugeMetricFamily

    figures: dict[str, tuple[str, Callable[[TableStatus], float | None]]] = {
        "rows": ("Live rows.", lambda line: line.rows),
        "position": ("The offset of the file log up to which files are applied.", lambda line: line.position),
        "pending_files": ("Logged files that are not applied.", lambda line: line.pending_files),
        "quarantined": ("Quarantined rows and whole files.", lambda line: line.quarantined),
        "lag_seconds": ("Age of the newest applied source commit.", lambda line: line.lag_seconds),
    }
    for name, (text, value_of) in figures.items():
        family = GaugeMetricFamily(f"lake_table_{name}", text, labels=["table"])
        for line in lines:
            if (value := value_of(line)) is not None:
                family.add_metric([line.table], value)
        yield family
    states = GaugeMetricFamily("lake_table_state", "1 for the table's state.", labels=["table", "state"])
    for line in lines:
        states.add_metric([line.table, str(line.state)], 1)
    yield states


def registry_of(lake: Lake) -> "CollectorRegistry":
    """A registry with the metrics of the lake alone. Raises LakeError without Prometheus's client."""
    try:
        from prometheus_client import CollectorRegistry
    except ImportError as error:
        raise LakeError("Metrics need prometheus-client: pip install 'lake_assets[metrics]'.") from error
    found = CollectorRegistry()
    found.register(LakeMetrics(lake))
    return found


def serve(lake: Lake, host: str, port: int) -> None:
    """Serves the metrics until the process is interrupted. Raises as `registry_of`."""
    registry = registry_of(lake)
    from prometheus_client import start_http_server

    server, thread = start_http_server(port, host, registry)
    try:
        thread.join()
    except KeyboardInterrupt:
        server.shutdown()

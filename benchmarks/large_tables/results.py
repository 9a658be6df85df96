"""What batches took and wrote, with the conditions of the run; as a table and as JSON.

Here: the figures. Not here: taking the times (`bench.py`), drawing them (`benchmarks/plot.py`).
"""

import json
import math
import os
import platform
import resource
import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from lake_assets.spark.jars import iceberg_jar

PRODUCT = "lake_assets"
PACKAGES = ("deltalake", "duckdb", "pyarrow", "pyiceberg", "pyspark")
DATA = (".parquet", ".puffin")
"""Endings of data files, those of deletes and of deletion vectors included."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One batch of one contender."""

    seconds: float
    processor: float
    """Processor seconds, which other work on the machine hardly changes."""
    files: int
    """Data files and delete files."""
    snapshots: int
    """New snapshots of all its tables; for this package, one of them is the file log's."""
    written: int
    """Bytes of all new files, those of metadata included."""
    changes: int
    """Bytes of the batch's files."""

    @classmethod
    def of(
        cls,
        seconds: float,
        processor: float,
        changes: int,
        before: Mapping[Path, int],
        after: Mapping[Path, int],
    ) -> Self:
        """The figures by the sizes of the warehouse's files before and after the batch."""
        new = after.keys() - before.keys()
        files = sum(_is_data(path) for path in new)
        snapshots = sum(_is_snapshot(path) for path in new)
        return cls(seconds, processor, files, snapshots, sum(after[path] for path in new), changes)

    @classmethod
    def estimated(cls, seconds: float) -> Self:
        """The estimate for a contender that is too slow to be measured."""
        return cls(seconds, math.nan, 0, 0, 0, 0)

    @property
    def is_estimate(self) -> bool:
        return math.isnan(self.processor)


def sizes(folder: Path) -> dict[Path, int]:
    """Bytes of every file in a folder, by its path."""
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def _is_data(path: Path) -> bool:
    return path.suffix in DATA and not _is_log(path)


def _is_snapshot(path: Path) -> bool:
    # A manifest list of Iceberg, a version of Delta or of Paimon. DuckLake's snapshots are rows of its catalog, and
    # Hudi's new rows are in logs.
    of_iceberg = path.name.startswith("snap-") and path.suffix == ".avro"
    of_paimon = path.name.startswith("snapshot-") and not path.suffix
    return of_iceberg or of_paimon or (path.suffix == ".json" and _is_log(path))


def _is_log(path: Path) -> bool:
    return path.parent.name == "_delta_log"


@dataclass
class Results:
    """The figures of a run of a benchmark."""

    benchmark: str
    rows: int
    repeat: int
    memory: str
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])
    server_megabytes: int | None = None
    """The most memory that the Spark server has had."""

    def __post_init__(self) -> None:
        self._batches: dict[tuple[str, str], list[Measured]] = defaultdict(list)

    def note(self, workload: str, contender: str, batch: Measured) -> None:
        """Records a repetition."""
        self._batches[workload, contender].append(batch)

    def seconds(self, workload: str, contender: str) -> float:
        """The median, also of estimates; not a number if there is none."""
        return statistics.median(batch.seconds for batch in self._batches[workload, contender])

    def ratio(self, workload: str, contender: str) -> float:
        """A contender's time to that of this package: above 1, this package is faster."""
        return self.seconds(workload, contender) / self.seconds(workload, PRODUCT)

    def _processor(self, workload: str, contender: str) -> float:
        return statistics.median(batch.processor for batch in self._batches[workload, contender])

    def figures(self) -> list[dict[str, Any]]:
        """The figures of each workload and contender that were measured, this package first."""
        measured = [key for key, batches in self._batches.items() if not batches[0].is_estimate]
        workloads = list(dict.fromkeys(workload for workload, _ in measured))
        measured.sort(key=lambda key: (workloads.index(key[0]), key[1] != PRODUCT))
        return [self._figures(*key) for key in measured]

    def _figures(self, workload: str, contender: str) -> dict[str, Any]:
        batches = self._batches[workload, contender]
        middle = statistics.median_low
        per_byte = middle(batch.written / batch.changes for batch in batches)
        return {
            "workload": workload,
            "contender": contender,
            "seconds": [round(batch.seconds, 3) for batch in batches],
            "median": round(self.seconds(workload, contender), 3),
            "ratio": round(self.ratio(workload, contender), 3),
            "processor": round(self._processor(workload, contender), 3),
            "processor_ratio": round(
                self._processor(workload, contender) / self._processor(workload, PRODUCT), 3
            ),
            "data_files": middle(batch.files for batch in batches),
            "snapshots": middle(batch.snapshots for batch in batches),
            "bytes_written": middle(batch.written for batch in batches),
            "bytes_per_byte_of_changes": round(per_byte, 2),
        }

    def end(self, server: int) -> None:
        """Records the memory of the server, which must still run."""
        self.server_megabytes = peak_megabytes(server)

    def table(self) -> str:
        """Markdown, a line for each workload and contender."""
        lines = [
            "\n| workload | contender | s | ratio | processor s | ratio | data files | snapshots "
            "| bytes per byte of changes |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for one in self.figures():
            cells = [one["workload"], one["contender"], f"{one['median']:.2f}", f"{one['ratio']:.2f}"]
            cells += [f"{one['processor']:.2f}", f"{one['processor_ratio']:.2f}"]
            cells += [f"{one['data_files']:,}", f"{one['snapshots']:,}"]
            lines.append(f"| {' | '.join(cells)} | {one['bytes_per_byte_of_changes']:,.1f} |")
        return "\n".join(lines)

    def conditions(self) -> str:
        """The paragraph below the table."""
        versions = ", ".join(f"{name} {number}" for name, number in self._versions().items())
        server = f"{self.server_megabytes or math.nan:,.0f} MB"
        return (
            f"\n{self.rows:,} rows, repeated {self.repeat} times, {versions}. At most {server} for the server "
            f"and {own_megabytes():,} MB for this process; load average {os.getloadavg()[0]:.1f} after."
        )

    def write(self, path: Path) -> None:
        """Writes the figures as JSON."""
        run = {
            "benchmark": self.benchmark,
            "rows": self.rows,
            "repeat": self.repeat,
            "cores": os.cpu_count(),
            "spark_memory": self.memory,
            "load_average": [round(self.load_before, 1), round(os.getloadavg()[0], 1)],
            "versions": self._versions(),
            "peak_megabytes": {"spark_server": self.server_megabytes, "this_process": own_megabytes()},
        }
        path.write_text(
            json.dumps({"run": run, "figures": self.figures()}, indent=2) + "\n", encoding="utf-8"
        )

    def _versions(self) -> dict[str, str]:
        found = {"python": platform.python_version(), "iceberg": iceberg_jar().rpartition(":")[2]}
        for package in PACKAGES:
            try:
                found[package] = version(package)
            except PackageNotFoundError:  # deltalake: only `make bench-full` needs it
                continue
        return found


def peak_megabytes(pid: int) -> int | None:
    """The most resident memory that a process has had; None where there is no /proc."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024


def own_megabytes() -> int:
    """The most resident memory of this process, where PyIceberg and delta-rs work."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

"""`python -m benchmarks.scale.costs costs.json`: what single steps cost on this machine, as lists of measurements.

Spark is a server of its own, so that the processor time of the driver's Python is told from that of Java. Catalog in
SQLite, files in a folder, CSV, idle machine. Here: the measurements. Not here: what follows from them (`simulate.py`).
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import psutil

from lake_assets.config import LakeConfig
from lake_assets.orchestration.lake_definitions import Lake, open_lake
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.spark.connect.connect_server import ConnectServer
from lake_assets.spark.preflight import free_port

START = datetime(2026, 3, 1, tzinfo=UTC)
HEADER = "Op,ts,id,name,amount,seq"
KINDS = {"small": (2_000, 200), "large": (1_000_000, 200), "bulk": (1_000_000, 200_000)}
"""By kind of batch, the rows of its table and the changes of a batch: rewritten whole, marked and appended, and many
rows at once."""
WARM, BATCHES = 15, 40


@dataclass(slots=True)
class Step:
    """Measurements of one step, in seconds: by the clock, of Python's processor time, of Java's."""

    clock: list[float] = field(default_factory=list)
    python: list[float] = field(default_factory=list)
    java: list[float] = field(default_factory=list)


def write(folder: Path, table: str, name: str, rows: Iterator[tuple[str, int]], when: datetime) -> None:
    """A file of these operations and keys."""
    place = folder / f"bronze/public/{table}"
    place.mkdir(parents=True, exist_ok=True)
    stamp = f"{when:%Y-%m-%d %H:%M:%S.%f}"
    lines = [
        f"{op},{stamp},{key},n{key},{key % 1000}.50,{when:%Y%m%d%H%M%S}00{number:019d}"
        for number, (op, key) in enumerate(rows)
    ]
    (place / name).write_text("\n".join([HEADER, *lines, ""]), encoding="ascii")


def opened(folder: Path) -> Lake:
    """A lake of one table of each kind, on a server."""
    dms = {"add_column_name": True, "timestamp_column_name": "ts", "change_sequence_column": "seq"}
    columns = {"id": "long not null", "name": "string", "amount": "decimal(10, 2)"}
    table = {"primary_key": ["id"], "columns": columns, "full_load_complete": "immediately"}
    source = {
        "location": str(folder / "bronze"),
        "dms": dms | {"include_op_for_full_load": True},
        "tables": {f"public.{kind}": table for kind in KINDS},
    }
    lake = {
        "catalog": {"uri": str(folder / "catalog.db"), "warehouse": str(folder / "warehouse")},
        "spark": {
            "mode": "connect",
            "remote": f"sc://localhost:{free_port()}",
            "conf": {"spark.driver.memory": "6g"},
        },
        "sources": {"bench": source},
    }
    return open_lake(LakeConfig.model_validate(lake))


def measured(server: psutil.Process, act: Callable[[], object], into: Step) -> None:
    """Adds one measurement."""
    java, python, clock = sum(server.cpu_times()[:2]), time.process_time(), time.perf_counter()
    act()
    into.clock.append(round(time.perf_counter() - clock, 4))
    into.python.append(round(time.process_time() - python, 4))
    into.java.append(round(sum(server.cpu_times()[:2]) - java, 4))


def measure(lake: Lake, server: psutil.Process, folder: Path) -> dict[str, Step]:
    """The steps by name: a look that finds nothing, one that logs a file, a batch of each kind."""
    found = {name: Step() for name in ("look", "log", *KINDS)}
    rng, minute = Random(1), 0
    for kind, (rows, _) in KINDS.items():
        write(folder, kind, "LOAD00000001.csv", (("I", key) for key in range(rows)), START)
    log_arrivals(lake.runtime, "bench")
    for result in apply_tables(lake.runtime, lake.targets):
        if result.error is not None:
            raise result.error
    for number in range(WARM + BATCHES):
        for kind, (rows, changes) in KINDS.items():
            if kind == "bulk" and number % 4:
                continue
            minute += 1
            when = START + timedelta(minutes=minute)
            keys = rng.sample(range(rows), changes)
            write(folder, kind, f"{when:%Y%m%d-%H%M%S}000.csv", (("U", key) for key in keys), when)
            steps = found if number >= WARM else {name: Step() for name in found}
            measured(server, lambda: log_arrivals(lake.runtime, "bench"), steps["log"])
            targets = [target for target in lake.targets if target.table == f"public.{kind}"]
            measured(server, lambda targets=targets: list(apply_tables(lake.runtime, targets)), steps[kind])
            measured(server, lambda: log_arrivals(lake.runtime, "bench"), steps["look"])
    return found


def main() -> None:
    """The command line."""
    (output,) = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        lake = opened(folder)
        server = ConnectServer(lake.config, folder / "spark")
        server.start()
        try:
            running = server.running()
            assert running is not None, "it was started"
            found = measure(lake, psutil.Process(running.pid), folder)
        finally:
            server.stop()
    output.write_text(json.dumps({name: asdict(step) for name, step in found.items()}) + "\n")
    for name, step in found.items():
        middle = len(step.clock) // 2
        clock, python, java = (sorted(each)[middle] for each in (step.clock, step.python, step.java))
        print(
            f"{name}: {clock:.3f} s, Python {python:.3f} s, Java {java:.3f} s (median of {len(step.clock)})"
        )


if __name__ == "__main__":
    main()

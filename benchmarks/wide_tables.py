"""`python -m benchmarks.wide_tables`: how long a batch of one row takes in a table of a thousand columns.

CSV in a folder, the catalog in SQLite, Spark in this process and warm: the first batches are not counted. Here: the
measurement. Not here: rows per second (`reading.py`), many files (`many_files.py`).
"""

import argparse
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lake_assets.config import LakeConfig
from lake_assets.orchestration.lake_definitions import Lake, open_lake
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.silver.apply.engine import apply_tables

START = datetime(2026, 3, 1, tzinfo=UTC)
TYPES = {
    "string": "a text",
    "long": "12345678901",
    "int": "17",
    "decimal(18, 4)": "1234.5000",
    "double": "1.5",
    "boolean": "true",
    "date": "2026-03-01",
    "timestamptz": "2026-03-01 10:00:00.123456",
}
"""The types of the columns, in turn, with a value of each."""


def wide_lake(folder: Path, columns: int, **sections: Any) -> Lake:
    """A lake of one table `public.wide`: `id` and so many columns more."""
    kinds = list(TYPES)
    table = {f"c{number}": kinds[number % len(kinds)] for number in range(columns)}
    source = {
        "location": str(folder / "bronze"),
        "dms": {
            "add_column_name": True,
            "timestamp_column_name": "ts",
            "change_sequence_column": "seq",
            "before_image_prefix": "BI_",
        },
        "tables": {"public.wide": {"primary_key": ["id"], "columns": {"id": "long not null"} | table}},
    }
    catalog = {"name": "lake", "uri": str(folder / "catalog.db"), "warehouse": str(folder / "warehouse")}
    config = {"catalog": catalog, "sources": {"bench": source}} | sections
    return open_lake(LakeConfig.model_validate(config))


def write_batch(folder: Path, columns: int, number: int) -> None:
    """A CDC file with one change of one of ten rows."""
    when = START + timedelta(seconds=number)
    place = folder / "bronze/public/wide"
    place.mkdir(parents=True, exist_ok=True)
    names = ",".join(["Op", "ts", "id", *(f"c{column}" for column in range(columns)), "seq", "BI_id"])
    values = list(TYPES.values())
    fields = [values[column % len(values)] for column in range(columns)]
    sequence = f"{when:%Y%m%d%H%M%S}00{number:019d}"
    op = "I" if number < 10 else "U"
    row = ",".join([op, f"{when:%Y-%m-%d %H:%M:%S.%f}", str(number % 10), *fields, sequence, ""])
    (place / f"{when:%Y%m%d-%H%M%S}000.csv").write_text(f"{names}\n{row}\n")


def apply_one(lake: Lake, folder: Path, columns: int, number: int) -> tuple[float, dict[str, float]]:
    """Seconds of one batch, and of its stages."""
    write_batch(folder, columns, number)
    log_arrivals(lake.runtime, "bench")
    started = time.perf_counter()
    (result,) = apply_tables(lake.runtime, lake.targets)
    if result.error is not None:
        raise result.error
    return time.perf_counter() - started, result.batches[0].seconds


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--columns", type=int, default=1000)
    parser.add_argument("--warm", type=int, default=2)
    parser.add_argument("--batches", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        lake = wide_lake(folder, given.columns)
        found = []
        for number in range(given.warm + given.batches):
            seconds, stages = apply_one(lake, folder, given.columns, number)
            found.append(seconds)
            print(f"batch {number + 1}: {seconds:.1f} s {stages}", flush=True)
        counted = statistics.median(found[given.warm :])
        print(f"a batch of one row, {given.columns} columns: median {counted:.1f} s")


if __name__ == "__main__":
    main()

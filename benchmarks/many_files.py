"""`python -m benchmarks.many_files`: what a first `lake-assets sync` of many small files takes, and one after it.

CSV files of a row each in a folder, of one table and of several. The command runs as a user starts it: as a process,
with a Spark of its own if it needs one. Here: the measurement. Not here: rows per second (`reading.py`), latency.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

HEADER = "Op,ts,id,name,amount,seq,BI_id"
START = datetime(2026, 3, 1, tzinfo=UTC)


def write_lake(folder: Path, files: int, tables: int) -> Path:
    """Writes the files, a file for each table in turn, and their lake.yaml."""
    for number in range(files):
        table, when = number % tables, START + timedelta(seconds=number)
        place = folder / f"bronze/public/t{table}"
        place.mkdir(parents=True, exist_ok=True)
        sequence = f"{when:%Y%m%d%H%M%S}00{number:019d}"
        row = f"I,{when:%Y-%m-%d %H:%M:%S.%f},{number},n{number},{number % 100}.50,{sequence},NULL"
        (place / f"{when:%Y%m%d-%H%M%S}000.csv").write_text(f"{HEADER}\n{row}\n")
    dms = {
        "add_column_name": True,
        "timestamp_column_name": "ts",
        "change_sequence_column": "seq",
        "before_image_prefix": "BI_",
    }
    columns = {"id": "long not null", "name": "string", "amount": "decimal(10, 2)"}
    table_config = {"primary_key": ["id"], "columns": columns}
    source = {
        "location": str(folder / "bronze"),
        "dms": dms,
        "tables": {f"public.t{number}": table_config for number in range(tables)},
    }
    lake = {
        "catalog": {
            "name": "lake",
            "type": "sqlite",
            "uri": str(folder / "catalog.db"),
            "warehouse": str(folder / "warehouse"),
        },
        "spark": {"conf": {"spark.driver.memory": "3g"}},
        "sources": {"bench": source},
    }
    path = folder / "lake.yaml"
    path.write_text(yaml.safe_dump(lake))
    return path


def command(path: Path, *arguments: str) -> tuple[float, str]:
    """Seconds of one call of the command line, and what it printed."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "lake_assets.cli", "--config", str(path), *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return time.perf_counter() - started, done.stdout


def measure(files: int, tables: int, idle: int) -> None:
    """Prints a line for the first call, and one for each that finds nothing."""
    with tempfile.TemporaryDirectory() as place:
        path = write_lake(Path(place), files, tables)
        what = f"{files} files of {tables} table{'s' * (tables > 1)}"
        seconds, _ = command(path, "sync")
        print(f"{what}: first sync {seconds:.1f} s", flush=True)
        rows = sum(table["rows"] for table in json.loads(command(path, "status", "--json")[1]))
        assert rows == files, f"{rows} rows of {files}"
        for _ in range(idle):
            print(f"{what}: sync with nothing pending {command(path, 'sync')[0]:.2f} s", flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--tables", type=int, nargs="+", default=[1, 20])
    parser.add_argument("--idle", type=int, default=5)
    given = parser.parse_args()
    for tables in given.tables:
        measure(given.files, tables, given.idle)


if __name__ == "__main__":
    main()

"""How fast DMS files become typed changes, beside a plain `spark.read` of the same files.

`python -m benchmarks.reading [--rows N] [--files N] [--repeat N]` prints the table of docs/performance.md. Here: the
measurement. Not here: a pass or a fail; figures count only with their conditions.
"""

import argparse
import gzip
import io
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from lake_assets.bronze.decode import files as decoding
from lake_assets.bronze.decode.files import decoded_changes
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.reader.staging import Staging
from lake_assets.config import DmsSettings, LakeConfig, TableConfig
from lake_assets.iceberg.catalog import ensure_namespace, open_catalog
from lake_assets.iceberg.ops_table import NAMESPACE
from lake_assets.schema.contract import Contracts, ContractVersion, contract_of
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.plan.parts import parts_of
from lake_assets.silver.table.targets import Target, lake_targets
from lake_assets.spark.session import SparkSessions
from lake_assets.storage.object_store import LocalStore
from lake_assets_tests.helpers.files.read_folder import logged

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
COLUMNS = {
    "id": "long not null",
    "name": "string",
    "note": "string",
    "price": "decimal(12, 2)",
    "quantity": "int",
    "started_at": "timestamptz",
    "day": "date",
    "active": "boolean",
    "score": "double",
}
TABLE = TableConfig.model_validate({"columns": COLUMNS, "primary_key": ["id"]})
DMS = DmsSettings(
    add_column_name=True,
    timestamp_column_name="commit_ts",
    change_sequence_column="change_seq",
    before_image_prefix="BI_",
)
CSV_SCHEMA = (
    "Op string, commit_ts timestamp, id bigint, name string, note string, price decimal(12, 2), quantity int, "
    "started_at timestamp, day date, active boolean, score double, change_seq string, BI_id bigint"
)
HEADER = [part.split()[0] for part in CSV_SCHEMA.replace("(12, 2)", "").split(", ")]
ARROW = {"id": pa.int64(), "price": pa.decimal128(12, 2), "quantity": pa.int32(), "day": pa.date32()}
ARROW |= {
    "started_at": pa.timestamp("us", "UTC"),
    "active": pa.bool_(),
    "score": pa.float64(),
    "BI_id": pa.int64(),
}


def table(first: int, rows: int) -> pa.Table:
    """Rows of changes; every second note needs quotes."""
    chance = random.Random(first)
    numbers = range(first, first + rows)
    at = [NOON + timedelta(seconds=number % 86_400) for number in numbers]
    columns = {
        "Op": [chance.choice("IUUU") for _ in numbers],
        "commit_ts": [f"{time:%Y-%m-%d %H:%M:%S.%f}" for time in at],
        "id": list(numbers),
        "name": [f"customer {number % 997}" for number in numbers],
        "note": [f'said "{number}", and\nleft' if number % 2 else "nothing to note" for number in numbers],
        "price": [Decimal(number % 10_000) / 100 for number in numbers],
        "quantity": [number % 50 for number in numbers],
        "started_at": at,
        "day": [time.date() for time in at],
        "active": [number % 3 == 0 for number in numbers],
        "score": [number / 7 for number in numbers],
        "change_seq": [f"2026030112000000{number:019d}" for number in numbers],
        "BI_id": [None] * rows,
    }
    return pa.table({name: pa.array(columns[name], ARROW.get(name, pa.string())) for name in HEADER})


def csv_bytes(rows: pa.Table) -> bytes:
    """As DMS spells it."""

    def field(value: object) -> str:
        if isinstance(value, str):
            return '"' + value.replace('"', '""') + '"' if any(mark in value for mark in '",\n') else value
        if isinstance(value, bool):
            return str(value).lower()
        return f"{value:%Y-%m-%d %H:%M:%S.%f}" if isinstance(value, datetime) else str(value)

    lines = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    text = "".join(",".join("" if v is None else field(v) for v in line) + "\n" for line in lines)
    return (",".join(HEADER) + "\n" + text).encode()


def parquet_bytes(rows: pa.Table) -> bytes:
    """As DMS writes it: row groups of 10,024 rows, format 1.0."""
    sink = io.BytesIO()
    pq.write_table(rows, sink, version="1.0", row_group_size=10_024, compression="gzip")
    return sink.getvalue()


def written(folder: Path, ending: str, rows: int, files: int) -> list[LoggedFile]:
    """The files as the log has them, written to disk and inspected."""
    store, keys = LocalStore(folder), []
    encode = {"csv": csv_bytes, "csv.gz": lambda t: gzip.compress(csv_bytes(t), 6), "parquet": parquet_bytes}[
        ending
    ]
    each = rows // files
    (folder / "public/items").mkdir(parents=True, exist_ok=True)
    for number in range(files):
        flushed = NOON + timedelta(seconds=number)
        key = f"public/items/{flushed:%Y%m%d-%H%M%S}000.{ending}"
        (folder / key).write_bytes(encode(table(number * each, each)))
        keys.append(key)
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda key, offset: as_logged(store, key, offset), keys, range(1, files + 1)))


def as_logged(store: LocalStore, key: str, offset: int) -> LoggedFile:
    """The log's record of a file."""
    found = logged(store, key, DMS, offset)
    assert found.irregular is None, found
    with store.open(key, seekable=True) as stream:
        return replace(found, size=stream.seek(0, os.SEEK_END))


def seconds(reader: Callable[[], DataFrame | None]) -> float:
    """Seconds to plan and read every column of every row; a reader that returns no DataFrame has read them itself."""
    start = time.perf_counter()
    if (frame := reader()) is not None:
        frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def compared(repeat: int, *readers: Callable[[], DataFrame | None]) -> list[float]:
    """The medians of alternating repetitions; a first one of each reader warms up."""
    for reader in readers:
        seconds(reader)
    taken = [[seconds(reader) for reader in readers] for _ in range(repeat)]
    return [statistics.median(each) for each in zip(*taken, strict=True)]


def report(
    spark: SparkSession,
    staging: Staging,
    target: Target,
    folder: Path,
    ending: str,
    rows: int,
    files: int,
    repeat: int,
) -> None:
    """Prints one line of the table."""
    logged = written(folder, ending, rows, files)
    store = LocalStore(folder)
    paths = [store.spark_uri(file.key) for file in logged]

    def plain() -> DataFrame:
        if ending == "parquet":
            return spark.read.parquet(*paths)
        options = {"header": True, "multiLine": True, "quote": '"', "escape": '"'}
        return spark.read.schema(CSV_SCHEMA).options(**options).csv(paths)

    contract = contract_of(TABLE, DMS)
    contracts = Contracts((ContractVersion(1, 0, contract, "", contract, NOON),))

    def large() -> DataFrame:
        staging.clear()
        with patch.object(decoding, "MOST_BYTES", -1):
            reading = Reading(spark, store, target, parts_of(logged), contracts, staging=staging)
        assert not reading.figures.bad_rows, "all values are spelled plainly"
        return reading.changes

    def held() -> None:
        found = decoded_changes(store, logged, name="public.items", table=TABLE, dms=DMS, partial=False)
        assert found is not None, "they are few"
        assert found.num_rows == rows

    assert large().count() == rows
    assert large().filter("_bad is not null").count() == 0
    base, *ours = compared(repeat, plain, held, large)
    staging.clear()
    megabytes = sum((folder / file.key).stat().st_size for file in logged) / 1e6
    cells = [ending, f"{files:,}", f"{rows:,}", f"{megabytes:.0f}", f"{rows / base:,.0f}"]
    for taken in ours:
        cells += [f"{rows / taken:,.0f}", f"{base / taken:.2f}"]
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--files", type=int, default=5_000)
    parser.add_argument("--repeat", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lake = LakeConfig.model_validate(
            {
                "catalog": {"uri": str(folder / "catalog.db"), "warehouse": str(folder / "warehouse")},
                "sources": {"bench": {"location": name, "tables": {"public.items": TABLE.model_dump()}}},
                "gold": {"start_date": "2026-03-01"},
                "spark": {"conf": {"spark.driver.memory": "3g"}},
            }
        )
        spark = SparkSessions(lake).root()
        (target,) = lake_targets(lake)
        catalog = open_catalog(lake.catalog)
        ensure_namespace(catalog, NAMESPACE)
        staging = Staging(catalog, lake.catalog.name)
        print(f"load average {os.getloadavg()[0]:.1f} before, {os.cpu_count()} cores, Spark {spark.version}")
        print(
            "| files | number | rows | MB | plain rows/s | held rows/s | ratio | large batch rows/s | ratio |"
        )
        print(f"|{'---|' * 9}")
        for ending in ("csv", "csv.gz", "parquet"):
            report(spark, staging, target, folder / ending, ending, asked.rows, 12, asked.repeat)
        for ending in ("csv", "parquet"):
            report(
                spark, staging, target, folder / f"small {ending}", ending, asked.files * 10, asked.files, 3
            )
        print(f"load average {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()

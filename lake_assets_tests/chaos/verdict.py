"""Checks the lake after the disturbances.

Here: comparing the lake with the source's database and with everything that was ever written to the bucket. Not here:
waiting for the lake (`__main__.py`).
"""

import csv
import io
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

from lake_assets.demo.compare import compare_with_source
from lake_assets.demo.demo_commands import source_masks
from lake_assets.iceberg.table_io import load_table
from lake_assets.orchestration.assets.mart_runs import mart_work
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets_tests.chaos.lake import PREFIX, SOURCE
from lake_assets_tests.chaos.storage import BUCKET, Storage
from lake_assets_tests.helpers.orchestration.dagster_dev import trips_in_mart, trips_since

CHANGES = "station_status"
"""The table that has a change log."""


def table_differences(lake: Lake, database: Path) -> list[str]:
    """Tables that differ from the source."""
    masks = source_masks(lake.config)
    compared = compare_with_source(lake.runtime.catalog, f"silver_{SOURCE}", database, masks)
    return [str(table) for table in compared if not table.equal]


def stale_marts(lake: Lake) -> list[str]:
    """Marts that silver is ahead of."""
    return sorted({name for run in mart_work(lake.runtime, lake.marts).runs for name in run.marts})


def mart_differences(lake: Lake, database: Path, first: date) -> list[str]:
    """Days for which the mart and the source have different numbers of trips."""
    expected, found = trips_since(database, first), trips_in_mart(lake)
    return [
        f"station_daily has {found[day]} trips of {day}, the source {expected[day]}"
        for day in sorted(expected.keys() | found.keys())
        if expected[day] != found[day]
    ]


def log_differences(lake: Lake, storage: Storage) -> list[str]:
    """Files that are missing in the file log, or in it twice. It must have the newest content of each key, and only
    content that was written."""
    written: Counter[tuple[str, str]] = Counter()
    newest = set()
    for version in storage.versions(PREFIX):
        known = version["Key"].removeprefix(PREFIX), version["ETag"].strip('"')
        written[known] += 1
        if version["IsLatest"]:
            newest.add(known)
    logged = Counter((file.key, file.version.strip('"')) for file in lake.runtime.file_log.files(SOURCE))
    missing = sorted(newest - set(logged))
    double = sorted(known for known, times in logged.items() if times > max(written[known], 0))
    return [f"{key} ({version}) is missing in the file log" for key, version in missing] + [
        f"{key} ({version}) is {logged[key, version]} times in the file log, was {written[key, version]} times written"
        for key, version in double
    ]


def change_log_differences(lake: Lake, storage: Storage) -> list[str]:
    """Sequences of changes that are missing in the change log, or in it twice."""
    client = storage.client("s3")
    expected: Counter[str] = Counter()
    for version in storage.versions(f"{PREFIX}public/{CHANGES}/"):
        if not version["IsLatest"] or "LOAD" in version["Key"]:
            continue
        body: Any = client.get_object(Bucket=BUCKET, Key=version["Key"])["Body"].read()
        expected.update(row["change_seq"] for row in csv.DictReader(io.StringIO(body.decode())))
    table = load_table(lake.runtime.catalog, f"silver_{SOURCE}.{CHANGES}_changes")
    rows = table.scan().to_arrow().to_pylist() if table is not None else []
    found = Counter(row["_sequence"] for row in rows if row["_sequence"])
    return [f"{CHANGES}_changes lacks change {seq}" for seq in sorted((expected - found).elements())] + [
        f"{CHANGES}_changes has change {seq} too often" for seq in sorted((found - expected).elements())
    ]


def quarantined(lake: Lake) -> list[str]:
    """Rows and files in the quarantine, which must be empty: no row or file is bad."""
    held = [row for target in lake.targets for row in lake.runtime.quarantine.open(target.identifier)]
    return [f"{row.id} was quarantined: {row.reason}" for row in held]

"""Silver from a bucket: CSV and Parquet, listed over several pages, read by Spark through s3a.

The server is moto's; credentials, region and endpoint are those of the source alone. Not here: what the rows amount to
in every case (`silver/`), the listing's own cases (`storage/test_object_store.py`).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.decode import files as decoding
from lake_assets.bronze.reader.staging import PREFIX, StagedTable
from lake_assets.config import S3Config
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.silver.apply.engine import apply_tables
from lake_assets_tests.helpers.files.dms_files import (
    NOON,
    Clock,
    DmsFile,
    Row,
    cdc_file,
    csv_bytes,
    load_file,
    parquet_bytes,
)
from lake_assets_tests.helpers.lakes.small_lakes import DMS, ITEMS, small_lake
from lake_assets_tests.helpers.servers.s3 import files_in_s3

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COLUMNS, KEY = tuple(ITEMS["columns"]), ("id",)
TYPES = {
    "id": pa.int64(),
    "name": pa.string(),
    "price": pa.decimal128(10, 2),
    "at": pa.timestamp("us"),
    "BI_id": pa.int64(),
}
MANY = 100
"""As many keys as the server lists in one page; Amazon's lists 1,000."""


def s3_lake(folder: Path, s3: S3Config, location: str, data_format: str, **sections: Any) -> Lake:
    """A lake whose files are in the bucket and whose tables are in `folder`, unless `sections` say otherwise."""
    assert s3.access_key_id is not None
    assert s3.secret_access_key is not None
    access = s3.model_dump() | {
        "access_key_id": s3.access_key_id.get_secret_value(),
        "secret_access_key": s3.secret_access_key.get_secret_value(),
    }
    # Full loads are complete as soon as there are changes.
    source = {"location": location, "s3": access, "dms": DMS | {"data_format": data_format}}
    return small_lake(folder, {"public.items": ITEMS, "public.other": ITEMS}, source=source, **sections)


def item(number: int, name: str) -> dict[str, Any]:
    at = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=number)
    return {"id": number, "name": name, "price": Decimal(number) / 100, "at": at}


def history(files: int, extension: str) -> tuple[list[DmsFile], dict[int, Row]]:
    """A full load of five rows and a file for each change after it; and the rows at the end."""
    rows: dict[int, Row] = {number: item(number, "loaded") for number in range(5)}
    written = [load_file("public.items", rows.values(), extension=extension)]
    clock = Clock()
    for number in range(files - 1):
        if number % 3 == 0:
            image = rows[number + 10] = item(number + 10, 'new, "quoted"')
            change = clock.change("I", image)
        elif number % 3 == 1:
            image = rows[number % 5] = item(number % 5, f"changed {number}")
            change = clock.change("U", image)
        else:
            del rows[number + 8]
            change = clock.change("D", {"id": number + 8})
        written.append(cdc_file("public.items", clock.now + timedelta(seconds=1), [change], extension))
    return written, rows


def upload(bucket: Any, prefix: str, files: list[DmsFile], encode: Callable[[DmsFile], bytes]) -> None:
    def put(file: DmsFile) -> None:
        bucket.put_object(Key=f"{prefix}/{file.key}", Body=encode(file))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, files))


def naive(row: Row) -> dict[str, Any]:
    """As an endpoint without zones writes it into Parquet."""
    return {
        name: value.replace(tzinfo=None) if isinstance(value, datetime) and name == "at" else value
        for name, value in row.items()
    }


def as_csv(file: DmsFile) -> bytes:
    return csv_bytes(file, COLUMNS, KEY, DMS)


def as_parquet(file: DmsFile) -> bytes:
    return parquet_bytes(DmsFile(file.key, tuple(map(naive, file.rows))), COLUMNS, KEY, DMS, TYPES)


def no_bytes(file: DmsFile) -> bytes:
    return b""


@pytest.mark.parametrize(
    ("data_format", "files", "encode"),
    [("csv", 24, as_csv), pytest.param("parquet", 24, as_parquet, marks=pytest.mark.long)],
)
def test_silver_equals_what_the_bucket_says(
    spark: SparkSession,
    tmp_path: Path,
    s3: S3Config,
    new_bucket: Callable[[], Any],
    monkeypatch: pytest.MonkeyPatch,
    data_format: str,
    files: int,
    encode: Callable[[DmsFile], bytes],
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", str(MANY))
    bucket = new_bucket()
    written, rows = history(files, data_format)
    upload(bucket, "dms/out", written, encode)
    # A table whose name another's begins with, and what lies outside of the source's prefix, are not this table's.
    other = load_file("public.other", [item(1, "other")], extension=data_format)
    upload(
        bucket,
        "dms/out",
        [other, cdc_file("public.other", NOON + timedelta(minutes=9), [], data_format)],
        encode,
    )
    upload(
        bucket, "elsewhere", [load_file("public.items", [item(99, "else")], extension=data_format)], encode
    )

    # Before the tables' own files in the listing: what lies on its first page only would be missed.
    upload(
        bucket, "dms/out", [DmsFile(f"awsdms_status/{number}.csv", ()) for number in range(MANY)], no_bytes
    )

    lake = s3_lake(tmp_path, s3, f"s3://{bucket.name}/dms/out", data_format)
    listed = bucket.meta.client.list_objects_v2(Bucket=bucket.name, Prefix="dms/out/")
    assert (listed["KeyCount"], listed["IsTruncated"]) == (MANY, True)
    found = log_arrivals(lake.runtime, "shop")
    assert len(found.logged) == files + 2
    assert (found.ignored, found.unknown) == (MANY, [])
    results = {result.target.name: result for result in apply_tables(lake.runtime, lake.targets)}
    assert {name: str(result.error) for name, result in results.items() if result.error} == {}
    stored = lake.runtime.catalog.load_table("silver_shop.items").scan().to_arrow().to_pylist()
    assert sorted(stored, key=lambda row: row["id"]) == [rows[number] for number in sorted(rows)]
    (row,) = lake.runtime.catalog.load_table("silver_shop.other").scan().to_arrow().to_pylist()
    assert row == item(1, "other")
    assert log_arrivals(lake.runtime, "shop").logged == [], "nothing is new at the second look"


@pytest.mark.parametrize(
    "shared",
    [
        pytest.param(True, id="tables in the source's bucket", marks=pytest.mark.long),
        pytest.param(False, id="in another one"),
    ],
)
def test_large_csv_files_by_way_of_staged_rows(
    spark: SparkSession,
    tmp_path: Path,
    s3: S3Config,
    new_bucket: Callable[[], Any],
    monkeypatch: pytest.MonkeyPatch,
    shared: bool,
) -> None:
    """Also in a bucket that Spark can read only by the catalog. Nothing of them is left, not even a folder's marker."""
    assert s3.endpoint is not None
    monkeypatch.setattr(decoding, "MOST_BYTES", -1)
    bucket = new_bucket()
    tables = bucket if shared else new_bucket()
    written, rows = history(9, "csv")
    upload(bucket, "dms/out", written, as_csv)
    catalog = {"warehouse": f"s3://{tables.name}/tables", "uri": str(tmp_path / "catalog.db")}
    lake = s3_lake(
        tmp_path,
        s3,
        f"s3://{bucket.name}/dms/out",
        "csv",
        catalog=catalog | files_in_s3(s3.endpoint),
        automation={"rewrite_below_mb": 0},
    )
    staged: list[str] = []
    file = StagedTable.file

    def noted(self: StagedTable) -> Any:
        staged.append(self.table.location())
        return file(self)

    monkeypatch.setattr(StagedTable, "file", noted)
    log_arrivals(lake.runtime, "shop")
    (result,) = [each for each in apply_tables(lake.runtime, lake.targets) if each.target.name == "items"]
    assert result.error is None
    stored = lake.runtime.catalog.load_table("silver_shop.items").scan().to_arrow().to_pylist()
    assert sorted(stored, key=lambda row: row["id"]) == [rows[number] for number in sorted(rows)]
    assert staged
    assert all(address.startswith(f"s3://{tables.name}/tables/lake_ops") for address in staged)
    assert [entry.key for entry in tables.objects.all() if f"/{PREFIX}_" in entry.key] == []

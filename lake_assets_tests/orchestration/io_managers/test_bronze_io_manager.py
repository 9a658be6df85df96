"""A user's asset that takes the changes of one day, or of a range of days, of a bronze table.

Here: the IO manager in real Dagster runs, on a folder and on S3. Not here: how files are read (`test_reader.py`), which
files a stretch of days holds in every case.
"""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import DataFrame, SparkSession

from lake_assets.bronze.scan import discovery
from lake_assets.config import S3Config
from lake_assets.orchestration.assets.bronze_assets import IO_MANAGER_KEY, bronze_specs
from lake_assets.orchestration.io_managers.bronze_io_manager import BronzeIOManager
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.orchestration.shared.first_periods import FirstPeriods
from lake_assets.orchestration.shared.time_partitions import daily_partitions
from lake_assets.rounds import arrivals
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets_tests.helpers.files.dms_files import DmsFile, csv_bytes, put
from lake_assets_tests.helpers.lakes.small_lakes import DMS, ITEMS, small_lake
from lake_assets_tests.helpers.oracles.masks import MASKING, hashed

ITEMS_KEY = dg.AssetKey(["bronze", "shop", "items"])
TYPES = {
    "_op": "string",
    "_commit_ts": "timestamp",
    "_sequence": "string",
    "_file": "string",
    "_row": "bigint",
    "_bad": "string",
    "id": "bigint",
    "name": "string",
    "price": "decimal(10,2)",
    "at": "timestamp",
}


def at(day: int, hour: int = 12) -> datetime:
    return datetime(2026, 3, day, hour, tzinfo=UTC)


def change(number: int, day: int, op: str = "U", **values: Any) -> dict[str, Any]:
    digits = f"{at(day):%Y%m%d%H%M%S}00{number:019d}"
    image = {"id": number, "name": f"item {number}", "price": Decimal("1.50"), "at": at(day, 10)}
    return {"Op": op, "commit_ts": at(day), "change_seq": digits, **image, **values}


def cdc(day: int, *rows: dict[str, Any], second: int = 0) -> DmsFile:
    return DmsFile(f"public/items/202603{day:02d}-1300{second:02d}000.csv", rows)


FILES = [
    cdc(2, change(1, 2, name='a "quoted", name'), change(2, 2)),
    cdc(2, change(3, 2, op="D", name=None, price=None, at=None), second=5),
    cdc(3, change(4, 3, name=None)),
    # Committed on the 4th and written on the 5th: a partition is the day on which DMS wrote the file.
    cdc(5, change(5, 4)),
]


def content(file: DmsFile) -> bytes:
    return csv_bytes(file, tuple(ITEMS["columns"]), ("id",), DMS)


@pytest.fixture(scope="module", params=["folder", "s3"])
def lake(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Lake:
    """The same files in a folder and in a bucket."""
    folder = tmp_path_factory.mktemp("lake")
    source: dict[str, Any] = {}
    if request.param == "s3":
        s3: S3Config = request.getfixturevalue("s3")
        bucket = request.getfixturevalue("new_bucket")()
        for file in FILES:
            bucket.put_object(Key=f"dms/{file.key}", Body=content(file))
        assert s3.access_key_id is not None
        assert s3.secret_access_key is not None
        secrets = {
            "access_key_id": s3.access_key_id.get_secret_value(),
            "secret_access_key": s3.secret_access_key.get_secret_value(),
        }
        source = {"location": f"s3://{bucket.name}/dms", "s3": s3.model_dump() | secrets}
    else:
        for file in FILES:
            put(folder / "bronze", file.key, content(file))
    found = small_lake(folder, source=source)
    assert len(log_arrivals(found.runtime, "shop").logged) == len(FILES)
    return found


Seen = list[DataFrame]


def asset(lake: Lake, seen: Seen, *, partitioned: bool = True, **arguments: Any) -> dg.AssetsDefinition:
    @dg.asset(
        ins={"changes": dg.AssetIn(key=ITEMS_KEY, **arguments)},
        partitions_def=daily_partitions(lake.config.gold.start_date) if partitioned else None,
    )
    def mine(changes: DataFrame) -> None:
        seen.append(changes)

    return mine


def materialize(lake: Lake, mine: dg.AssetsDefinition, days: str | None = None) -> None:
    """Runs the asset next to the lake's own bronze assets; `days` is one, or first..last."""
    first, _, last = (days or "").partition("..")
    tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    result = dg.materialize(
        [*bronze_specs(lake.config, FirstPeriods.any(lake.config)), mine],
        selection=[mine],
        resources={IO_MANAGER_KEY: BronzeIOManager(lake.runtime), "io_manager": dg.mem_io_manager},
        partition_key=first if days and not last else None,
        tags=tags if last else None,
    )
    assert result.success


def ids(frame: DataFrame) -> list[int]:
    return [row["id"] for row in frame.orderBy("_file", "_row").collect()]


def test_masked_columns_are_masked(spark: SparkSession, tmp_path: Path) -> None:
    for file in FILES:
        put(tmp_path / "bronze", file.key, content(file))
    lake = small_lake(
        tmp_path, {"public.items": ITEMS | {"mask": {"name": "hash", "price": None}}}, **MASKING
    )
    log_arrivals(lake.runtime, "shop")
    seen: Seen = []
    materialize(lake, asset(lake, seen), "2026-03-02")
    found = {row["id"]: (row["name"], row["price"]) for row in seen[0].collect()}
    assert found == {1: (hashed('a "quoted", name'), None), 2: (hashed("item 2"), None), 3: (None, None)}


def test_a_bad_row_of_a_masked_table_has_no_values(spark: SparkSession, tmp_path: Path) -> None:
    """A field is missing, so that the price is in the place of the name."""
    lake = small_lake(tmp_path, {"public.items": ITEMS | {"mask": {"price": None}}}, **MASKING)
    text = (
        "Op,commit_ts,id,name,price,at,change_seq,BI_id\n"
        "I,2026-03-02 12:00:00.000000,1,a name,1.50,2026-03-02 10:00:00.000000,,\n"
        "I,2026-03-02 12:00:00.000000,2,4711.25,2026-03-02 10:00:00.000000,,,\n"
    )
    put(tmp_path / "bronze", "public/items/20260302-130000000.csv", text.encode())
    log_arrivals(lake.runtime, "shop")
    seen: Seen = []
    materialize(lake, asset(lake, seen), "2026-03-02")
    good, bad = seen[0].orderBy("_row").collect()
    assert (good["id"], good["name"], good["price"], good["_bad"]) == (1, "a name", None, None)
    assert bad["_bad"].startswith("price is not a valid decimal(10, 2); at is empty, ")
    assert (bad["_row"], bad["id"], bad["name"]) == (1, None, None)


def test_one_day_typed(lake: Lake) -> None:
    seen: Seen = []
    materialize(lake, asset(lake, seen), "2026-03-02")
    (frame,) = seen
    assert {field.name: field.dataType.simpleString() for field in frame.schema.fields} == TYPES
    rows = frame.orderBy("_file", "_row").collect()
    assert [(row["_op"], row["id"], row["name"], row["price"], row["_bad"]) for row in rows] == [
        ("U", 1, 'a "quoted", name', Decimal("1.50"), None),
        ("U", 2, "item 2", Decimal("1.50"), None),
        ("D", 3, None, None, None),
    ]
    assert [row["at"] and row["at"].astimezone(UTC) for row in rows] == [at(2, 10), at(2, 10), None]
    assert {row["_commit_ts"].astimezone(UTC) for row in rows} == {at(2)}
    assert [row["_file"].rsplit("/", 1)[-1] for row in rows] == [
        "20260302-130000000.csv",
        "20260302-130000000.csv",
        "20260302-130005000.csv",
    ]


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ("2026-03-02..2026-03-03", [1, 2, 3, 4]),
        ("2026-03-03..2026-03-05", [4, 5]),
        ("2026-03-05", [5]),
    ],
)
def test_a_range_of_days_in_one_run(lake: Lake, days: str, expected: list[int]) -> None:
    seen: Seen = []
    materialize(lake, asset(lake, seen), days)
    assert [ids(frame) for frame in seen] == [expected]


def test_an_asset_without_partitions_takes_everything(lake: Lake) -> None:
    seen: Seen = []
    materialize(lake, asset(lake, seen, partitioned=False))
    assert ids(seen[0]) == [1, 2, 3, 4, 5]


def test_the_day_before_the_run_s(lake: Lake) -> None:
    seen: Seen = []
    before = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)
    materialize(lake, asset(lake, seen, partition_mapping=before), "2026-03-04")
    assert ids(seen[0]) == [4]


def test_a_day_without_files_has_no_rows(lake: Lake) -> None:
    seen: Seen = []
    materialize(lake, asset(lake, seen), "2026-03-04")
    assert {field.name: field.dataType.simpleString() for field in seen[0].schema.fields} == TYPES
    assert seen[0].count() == 0


def test_nothing_is_stored_in_bronze(lake: Lake) -> None:
    @dg.asset(key=["bronze", "shop", "mine"], io_manager_key=IO_MANAGER_KEY)
    def mine() -> int:
        return 1

    with pytest.raises(dg.DagsterInvariantViolationError, match="bronze is written by DMS"):
        dg.materialize([mine], resources={IO_MANAGER_KEY: BronzeIOManager(lake.runtime)})


def test_another_asset_is_no_bronze_table(lake: Lake) -> None:
    spec = dg.AssetSpec(["bronze", "shop", "unheard_of"]).with_io_manager_key(IO_MANAGER_KEY)

    @dg.asset(ins={"changes": dg.AssetIn(key=spec.key)})
    def mine(changes: DataFrame) -> None: ...

    with pytest.raises(
        dg.DagsterInvariantViolationError, match="bronze/shop/unheard_of is not a bronze table"
    ):
        dg.materialize(
            [spec, mine], selection=[mine], resources={IO_MANAGER_KEY: BronzeIOManager(lake.runtime)}
        )


def test_a_file_too_big_to_be_inspected_at_once_is_read_by_its_own_header(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listing leaves it uncounted; its columns are not in the order of lake.yaml."""
    lake = small_lake(tmp_path)
    line = "1.50,2026-03-02 10:00:00.000000,a name,7"
    text = (
        f"Op,commit_ts,price,at,name,id,change_seq,BI_id\nI,2026-03-02 12:00:00.000000,{line},{'0' * 35},\n"
    )
    put(tmp_path / "bronze", "public/items/20260302-130000000.csv", text.encode())

    def impatient(*arguments: Any, **named: Any) -> Any:
        return discovery.discover(*arguments, **named, inspect_budget_bytes=1)

    monkeypatch.setattr(arrivals, "discover", impatient)
    (logged,) = log_arrivals(lake.runtime, "shop").logged
    assert logged.rows is None
    seen: Seen = []
    materialize(lake, asset(lake, seen), "2026-03-02")
    (row,) = seen[0].collect()
    assert (row["id"], row["name"], row["price"], row["_bad"]) == (7, "a name", Decimal("1.50"), None)

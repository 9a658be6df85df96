"""What the tables hold of each declared type, as three readers see it: Spark, PyIceberg, and DuckDB through PyIceberg.

Here: the whole engine. Not here: how a value is read (`test_types_by_contract.py` of bronze).
"""

import json
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake_assets.config.spark import EXACT
from lake_assets.silver.table.targets import Tracked
from lake_assets.spark.jars import SQLITE_JDBC, iceberg_jar
from lake_assets_tests.helpers.lakes.bench import Bench, comparable
from lake_assets_tests.helpers.processes.child import PATIENCE, environment, output_of, run_python

COLUMNS = {
    "id": "uuid not null",
    "t": "time",
    "doc": "json",
    "unsigned": "decimal(20, 0)",
    "digits": "decimal(38, 10)",
    "raw": "binary",
    "near": "float",
    "old": "date",
    "at": "timestamptz",
    "wall": "timestamp",
    "flag": "boolean",
    "code": "string",
}
HEADER = f"Op,commit_ts,{','.join(COLUMNS)}"
AT = "2026-03-01 12:00:00.000000"
ONE, TWO = "6F9619FF-8B86-D011-B42D-00C04FC964FF", "00000000-8B86-D011-B42D-00C04FC964FF"
ROWS = (
    f'I,{AT},{ONE},09:05:00.5,"{{""a"": 1}}",18446744073709551615,1234567890123456789012345678.0123456789,00ff,'
    "+3.23800011e+01,1500-02-28,1582-10-10 23:30:00.000001,1582-10-10 23:30:00.000001,t,05021 ",
    f"I,{AT},{TWO},NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,",
)
CHANGES = (f"D,2026-03-01 12:00:01,{TWO.lower()}" + ",NULL" * 11,)
RELOADED = ROWS[0].replace(AT, "2026-03-02 12:00:00.000000").replace(ONE, TWO)
"""A reload has only this row."""
UPDATE = f"U,2026-03-01 12:00:02,{ONE}" + ",NULL" * 7 + ",2026-03-01 23:30:00,NULL,NULL,NULL"
TYPES = [
    *("string", "string", "string", "decimal(20, 0)", "decimal(38, 10)", "binary", "float", "date"),
    *("timestamptz", "timestamp", "boolean", "string"),
]
"""Iceberg's types of the columns."""
ODD = {"true": "false", "false": "true", "CORRECTED": "LEGACY", "ANSI": "LEGACY", "EXCEPTION": "LAST_WIN"}
"""Other values of settings."""
BEFORE_1582 = datetime(1582, 10, 10, 23, 30, 0, 1, UTC)
EXPECTED = {
    "id": ONE.lower(),
    "t": "09:05:00.500000",
    "doc": '{"a": 1}',
    "unsigned": Decimal(2**64 - 1),
    "digits": Decimal("1234567890123456789012345678.0123456789"),
    "raw": b"\x00\xff",
    "near": 32.380001068115234,
    "old": date(1500, 2, 28),
    "at": BEFORE_1582,
    "wall": BEFORE_1582.replace(tzinfo=None),
    "flag": True,
    "code": "05021 ",
}


def filled_lake(folder: Path, **conf: str) -> Bench:
    """A lake with the rows above, deleted key included, applied."""
    bench = Bench(
        folder,
        {"public.items": {"columns": COLUMNS, "primary_key": ["id"], "partition_by": ["day(at)"]}},
        {"change_sequence_column": None, "before_image_prefix": None},
        {"spark": {"conf": conf}},
    )
    bench.put_text("public/items/LOAD00000001.csv", HEADER, *ROWS)
    bench.put_text("public/items/20260301-120100000.csv", HEADER, *CHANGES)
    bench.apply()
    return bench


def seen(bench: Bench) -> dict[str, Any]:
    """By reader, the table's rows."""
    pyiceberg = bench.stored()
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    duckdb = bench.table().scan().to_duckdb("items").execute(f"SELECT {names} FROM items").fetchall()
    catalog = bench.lake.config.catalog.name
    table = bench.lake.runtime.sessions.root().table(f"{catalog}.silver_shop.items")
    # Without the clock of this machine, in which PySpark shows instants.
    spark = table.withColumn("at", F.unix_micros("at")).collect()
    return {
        "pyiceberg": pyiceberg,
        "duckdb": [dict(zip(COLUMNS, row, strict=True)) for row in duckdb],
        "spark": [row.asDict() for row in spark],
    }


@pytest.mark.spark
def test_three_readers_see_the_same(spark: SparkSession, tmp_path: Path) -> None:
    found = seen(filled_lake(tmp_path))
    micros = (BEFORE_1582 - datetime(1970, 1, 1, tzinfo=UTC)) // (datetime.resolution)
    assert found["pyiceberg"] == [EXPECTED]
    assert found["spark"] == [EXPECTED | {"at": micros, "raw": bytearray(b"\x00\xff")}]
    (row,) = found["duckdb"]
    assert row | {"at": row["at"].astimezone(UTC)} == EXPECTED


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
def test_neither_the_machines_zone_nor_the_sessions_matters(tmp_path: Path) -> None:
    """The same files, applied in a process whose clock is in one zone and whose Spark session is in another."""
    own = environment(TZ="America/St_Johns")
    found = run_python("-m", "lake_assets_tests.silver.test_stored_types", tmp_path, env=own, timeout=300)
    told = json.loads(output_of(found).splitlines()[-1])
    assert told == {
        "zone": "America/St_Johns",
        "rows": comparable([EXPECTED]),
        "days": ["1582-10-10"],
        "touched": "1582-10-10,2026-03-01",
    }


@pytest.mark.spark
def test_nothing_depends_on_how_others_started_spark(tmp_path: Path) -> None:
    """Other code of the process, or a file of defaults, gave Spark settings that change types, values and rows."""
    found = run_python(
        "-m", "lake_assets_tests.silver.test_stored_types", tmp_path, "others", timeout=PATIENCE
    )
    told = json.loads(output_of(found).splitlines()[-1])
    assert told == {
        "types": TYPES,
        "rows": comparable([EXPECTED]),
        "reloaded": comparable([EXPECTED | {"id": TWO.lower()}]),
    }


def in_a_spark_of_others(folder: Path) -> dict[str, Any]:
    """The table after a load and a change, and after a reload that lacks all of its rows and partitions."""
    odd = {key: ODD.get(value, value) for key, value in EXACT.items()}
    odd |= {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.sources.partitionOverwriteMode": "DYNAMIC"}
    builder = SparkSession.builder.master("local[1]").config(
        "spark.jars.packages", f"{iceberg_jar()},{SQLITE_JDBC}"
    )
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    others = builder.config("spark.sql.extensions", extensions).config(map={**odd}).getOrCreate()
    assert others.conf.get("spark.sql.timestampType") == "TIMESTAMP_NTZ"
    bench = filled_lake(folder)
    types = [str(field.field_type) for field in bench.table().schema().fields]
    rows = bench.rows()
    bench.put_text("public/items/LOAD00000001.csv", HEADER, RELOADED)
    bench.apply()
    return {"types": types, "rows": rows, "reloaded": bench.rows()}


if __name__ == "__main__":
    if sys.argv[2:] == ["others"]:
        print(json.dumps(in_a_spark_of_others(Path(sys.argv[1]))))
        sys.exit()
    here = filled_lake(
        Path(sys.argv[1]), **{"spark.sql.session.timeZone": "Asia/Kolkata", "spark.master": "local[1]"}
    )
    root = here.lake.runtime.sessions.root()
    assert root.conf.get("spark.sql.session.timeZone") == "Asia/Kolkata"
    jvm_zone = root.sql("SELECT reflect('java.util.TimeZone', 'getDefault')").first()
    told_rows = here.rows()
    partitions = here.table().inspect.partitions().to_pylist()
    # The deleted row had no day.
    days = [str(day) for entry in partitions if (day := entry["partition"]["at_day"]) is not None]
    zone = "America/St_Johns" if "America/St_Johns" in str(jvm_zone) else str(jvm_zone)
    # An update half an hour before midnight, UTC: in Kolkata it is the next day, old image and new.
    here.tracked["items"] = Tracked(days=("at",))
    here.put_text("public/items/20260301-120200000.csv", HEADER, UPDATE)
    here.apply()
    touched = here.summary()["lake.touched-days.at"]
    print(json.dumps({"zone": zone, "rows": told_rows, "days": days, "touched": touched}))

"""Endpoint settings, types and names: whatever the files look like, silver equals the oracle.

Here: each layout with a full load and changes, through the whole engine. Not here: single rows and values
(`test_reader.py`, `test_casts.py` of bronze).
"""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.files.dms_files import NOON, Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench

pytestmark = pytest.mark.spark


def without_sequence(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "change_seq"}


def test_headerless_gzip_without_sequence_in_local_time(spark: SparkSession, tmp_path: Path) -> None:
    """The commit's centisecond, then file and line, order the changes; NULL is an empty field, as in real files."""
    columns = {
        "id": "long not null",
        "name": "string not null",
        "note": "string",
        "at": "timestamptz",
        "n": "int",
    }
    bench = Bench(
        tmp_path,
        {"public.items": {"columns": columns, "primary_key": ["id"]}},
        {
            "add_column_name": False,
            "include_op_for_full_load": False,
            "change_sequence_column": None,
            "csv_null_value": "",
            # A zone whose clocks never go back: commit times of others do not order changes.
            "timestamp_zone": "Asia/Kathmandu",
        },
    )

    def row(key: int, name: str = "", note: str | None = None, n: int | None = None) -> dict[str, Any]:
        return {
            "id": key,
            "name": name,
            "note": note,
            "at": datetime(2026, 7, 1, key % 24, tzinfo=UTC),
            "n": n,
        }

    c = Clock(datetime(2026, 3, 29, 0, 59, 50, tzinfo=UTC))
    bench.put(load_file("public.items", [row(n, 'x, "y"\nz', "é") for n in range(5)], extension="csv.gz"))
    first = [c.change("U", row(1, "one"))]
    first += [c.change("U", row(1, name), same_transaction=True) for name in ("two", "three")]
    first += [c.change("U", row(20, "moved"), before={"id": 2}), c.change("D", {"id": 3})]
    second = [c.change("U", row(1, "four", n=4)) for _ in range(5)]
    for number, rows in enumerate((first, second)):
        flushed = c.now + timedelta(seconds=number)
        bench.put(cdc_file("public.items", flushed, [without_sequence(r) for r in rows], extension="csv.gz"))
    bench.apply()
    assert bench.rows() == bench.truth()
    # The next commit is in the same centisecond as the last one applied, in another file: read again with it.
    tie = [
        c.change("U", row(1, "five"), same_transaction=True),
        c.change("I", row(6, "new"), same_transaction=True),
    ]
    bench.put(
        cdc_file("public.items", c.now + timedelta(minutes=1), [without_sequence(r) for r in tie], "csv.gz")
    )
    (batch,) = bench.apply()["items"]
    assert batch.replayed_bytes
    assert bench.rows() == bench.truth()


def test_parquet_with_types_that_changed(spark: SparkSession, tmp_path: Path) -> None:
    columns = {
        "id": "long not null",
        "size": "int",
        "price": "decimal(12, 3)",
        "at": "timestamptz",
        "ok": "boolean",
    }
    bench = Bench(
        tmp_path,
        {"public.items": {"columns": columns, "primary_key": ["id"], "quarantine": {"max_rows": 0}}},
        {"data_format": "parquet"},
    )
    types = {
        "id": pa.int64(),
        "size": pa.int32(),
        "price": pa.decimal128(38, 4),
        "at": pa.timestamp("us", tz="UTC"),
        "ok": pa.bool_(),
    }

    def row(key: int, size: int | None = 1, price: str = "1.500") -> dict[str, Any]:
        at = datetime(2026, 3, 1, 10, 0, 0, 123456, tzinfo=UTC)
        return {"id": key, "size": size, "price": Decimal(price), "at": at, "ok": key % 2 == 0}

    c = Clock()
    bench.put(load_file("public.items", [row(n) for n in range(4)], extension="parquet"), types=types)
    bench.put(load_file("public.items", [], part=2, extension="parquet"), types=types)
    gone = dict.fromkeys(columns)
    rows = [
        c.change("U", row(1, 2), before={"id": 1}),
        c.change("U", row(7, 3), before={"id": 2}),
        c.change("D", gone | {"id": 3}, before={"id": 3}),
    ]
    bench.put(cdc_file("public.items", c.now, rows, "parquet"), types=types)
    # As after ALTER TABLE … TYPE: other files in the same batch have other types, within what lake.yaml declares.
    rows = [c.change("U", row(7, None, "2.250"), before={"id": 7}), c.change("I", row(3, 9))]
    narrow = types | {"id": pa.int32(), "size": pa.int64(), "price": pa.decimal128(10, 3)}
    bench.put(cdc_file("public.items", c.now + timedelta(minutes=1), rows, "parquet"), types=narrow)
    bench.put(cdc_file("public.items", c.now + timedelta(minutes=2), [], "parquet"), types=types)
    bench.apply()
    assert bench.rows() == bench.truth()
    assert len(bench.rows()) == 4

    rows = [c.change("U", row(7, 1, "2.2505"), before={"id": 7})]
    bench.put(cdc_file("public.items", c.now + timedelta(minutes=3), rows, "parquet"), types=types)
    error = bench.turn()["items"].error
    assert "price is not a valid decimal(12, 3)" in str(error)
    assert "row 1 of" in str(error)


NAN = float("nan")
ODD = "we[ir]d {a} e=q %20 #h ü's.ta*le?"
TABLES: dict[str, dict[str, Any]] = {
    # Names that the engine uses itself, that need quotes in SQL, or that differ from others in nothing but case.
    ODD: {
        "name": "odd",
        "columns": {
            "Key": "long not null",
            "a.{b}": "string not null",
            "My Col": "string",
            "SELECT": "string",
            **dict.fromkeys(
                (
                    *(
                        "_op",
                        "_commit_ts",
                        "_sequence",
                        "_row",
                        "_bad",
                        "_image",
                        "_before",
                        "_before_Key",
                        "_corrupt",
                    ),
                    *(
                        "_tombstone",
                        "_order",
                        "_event",
                        "_last",
                        "_key_0",
                        "_0",
                        "_1",
                        "_metadata",
                        "k",
                        "t",
                        "rows",
                    ),
                ),
                "string",
            ),
        },
        "primary_key": ["Key", "a.{b}"],
    },
    "public.keys": {
        "columns": {
            "v": "string",
            "dec": "decimal(10, 2)",
            "ts": "timestamptz",
            "ntz": "timestamp",
            "txt": "string not null",
            "day": "date",
            "dbl": "double",
            "bin": "binary",
            "yes": "boolean",
        },
        "primary_key": ["dec", "ts", "ntz", "txt", "day", "dbl", "bin", "yes"],
    },
    "public.v2": {
        "columns": {"id": "long not null", "day": "date not null", "v": "string"},
        "primary_key": ["id"],
        "partition_by": ["day"],
        "format_version": 2,
    },
}


@pytest.mark.long
def test_names_keys_and_format_versions(spark: SparkSession, tmp_path: Path) -> None:
    """Three tables at once: odd names of columns, tables and folders; keys of every type; Iceberg's format v2."""
    bench = Bench(tmp_path, TABLES, location=tmp_path / "bucket {1} [a] %41 =#?")

    def odd(key: int, name: str, value: str | None = "x") -> dict[str, Any]:
        texts = dict.fromkeys(TABLES[ODD]["columns"], value)
        return texts | {"Key": key, "a.{b}": name, "_tombstone": "true", "_bad": "bad", "_op": "D"}

    def keys(v: str, dbl: float, txt: str = "", bin_: bytes = b"\x00\xff") -> dict[str, Any]:
        ntz = datetime(2026, 3, 1, 1, 2, 3, 4)  # noqa: DTZ001
        key = {"dec": Decimal("1.10"), "ts": NOON, "ntz": ntz, "txt": txt, "day": date(1969, 12, 31)}
        return {"v": v, **key, "dbl": dbl, "bin": bin_, "yes": True}

    def dated(key: int, day: int, v: str = "x") -> dict[str, Any]:
        return {"id": key, "day": date(2026, 3, day), "v": v}

    def key_of(row: dict[str, Any]) -> dict[str, Any]:
        return {name: row[name] for name in TABLES["public.keys"]["primary_key"]}

    c = Clock()
    bench.put(
        load_file(ODD, [odd(1, "a"), odd(1, "b", None), odd(2, "a")]),
        load_file(
            "public.keys", [keys("nan", NAN), keys("zero", 0.0), keys("one", 1.5), keys("b", 1.5, "", b"")]
        ),
        load_file("public.v2", [dated(n, 1 + n % 3) for n in range(9)]),
    )
    bench.apply()
    before = keys("", 1.5)
    bench.put(
        cdc_file(
            ODD,
            c.now,
            [
                c.change("U", odd(3, "a", "moved"), before={"Key": 1}),
                c.change("D", {"Key": 2, "a.{b}": "a"}),
                c.change("I", odd(2, "A", "")),
            ],
        ),
        cdc_file(
            "public.keys",
            c.now,
            [
                c.change("U", keys("nan again", NAN)),
                # The image keeps the sign that the key does not mind.
                c.change("U", keys("minus zero", -0.0)),
                c.change("U", keys("moved", 1.5, "k", b"\x01"), before=key_of(before)),
                c.change("D", key_of(keys("", 1.5, "", b""))),
            ],
        ),
        cdc_file(
            "public.v2", c.now, [c.change("U", dated(1, 9)), *(c.change("D", dated(n, 3)) for n in (2, 5, 8))]
        ),
    )
    bench.apply()
    # A reload replaces also where rows are marked deleted by position files, as in format v2.
    reloaded = load_file(
        "public.v2", [dated(n, 1, "again") for n in (1, 2, 3)], at=c.now + timedelta(minutes=5)
    )
    bench.put(reloaded)
    bench.apply(only=["v2"])
    for name, table in (("odd", ODD), ("keys", "public.keys"), ("v2", "public.v2")):
        assert bench.rows(name) == bench.truth(table)
    assert len(bench.rows("odd")) == len(bench.rows("keys")) == len(bench.rows("v2")) == 3
    assert (bench.table("v2").format_version, bench.table("odd").format_version) == (2, 3)

"""What DMS writes of each type, read as lake.yaml declares it: a test for each fact that is known of real files.

Here: `read_changes` on files made by hand. Not here: single conversions (`test_casts.py`), what becomes of the rows
in Iceberg (`test_stored_types.py` of silver).
"""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets.errors import TableStopped
from lake_assets_tests.helpers.files.dms_files import put
from lake_assets_tests.helpers.files.items import EPOCH, NOON, Items

pytestmark = pytest.mark.spark


@pytest.fixture
def items(spark: SparkSession, tmp_path: Path) -> Any:
    def build(columns: dict[str, str] | str, **dms: Any) -> Items:
        return Items(tmp_path, columns if isinstance(columns, dict) else {"c": columns}, dms)

    return build


# --- CSV


CSV: dict[str, tuple[str, list[str], list[Any]]] = {
    "reals in scientific form": ("float", ["+3.23800011e+01"], [32.380001068115234]),
    "doubles in scientific form": ("double", ["+1.00000000000000e-05", "-0"], [1e-05, -0.0]),
    "leading zeros": ("string", ["05021", "0", "1e5"], ["05021", "0", "1e5"]),
    "padded CHAR": ("string", ["ab  ", '"  ab "', "   "], ["ab  ", "  ab ", "   "]),
    "AddTrailingPaddingCharacter": ("string", ["ab@@"], ["ab@@"]),
    "booleans as CHAR(5)": ("boolean", ["true", "false", "t", "0"], [True, False, True, False]),
    "unsigned 64-bit": ("decimal(20, 0)", ["18446744073709551615"], [Decimal(2**64 - 1)]),
    "38 digits": (
        "decimal(38, 0)",
        ["-" + "9" * 38, "9" * 39],
        [Decimal("-" + "9" * 38), "FACT is not a valid decimal(38, 0)"],
    ),
    "money": ("decimal(38, 4)", ["92233720368547758.0700"], [Decimal("92233720368547758.0700")]),
    "TIME": ("time", ["09:05:00", "09:05:00.25"], ["09:05:00", "09:05:00.250000"]),
    "timestamps to the microsecond": (
        "timestamptz",
        ["2026-03-01 12:00:00.123456", "1582-10-10 00:00:00.000001"],
        [NOON, datetime(1582, 10, 10, 0, 0, 0, 1, UTC)],
    ),
    "dates before 1582": ("date", ["1500-02-28", "0001-01-01"], [date(1500, 2, 28), date(1, 1, 1)]),
    "1500 has no leap day in Gregory's calendar": ("date", ["1500-02-29"], ["FACT is not a valid date"]),
    "binary": ("binary", ["00ff", '""'], [b"\x00\xff", b""]),
    "json": ("json", ['"{""a"": [1, null]}"', '"{""a"'], ['{"a": [1, null]}', "FACT is not a valid json"]),
    "SQL Server's uniqueidentifier": (
        "uuid",
        ["6F9619FF-8B86-D011-B42D-00C04FC964FF"],
        ["6f9619ff-8b86-d011-b42d-00c04fc964ff"],
    ),
}
"""By fact: the declared type, texts, and their values; a text for a row that is bad."""


@pytest.fixture(scope="module")
def csv_facts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What is read of every fact: one file, in which each text has a row and each fact a column of its own."""
    columns = {f"c{n}": declared for n, (declared, _, _) in enumerate(CSV.values())}
    files = Items(tmp_path_factory.mktemp("csv"), columns)
    places = [(n, text) for n, (_, texts, _) in enumerate(CSV.values()) for text in texts]
    files.csv(*(",".join(text if n == own else "NULL" for n in range(len(CSV))) for own, text in places))
    found: dict[str, list[Any]] = {fact: [] for fact in CSV}
    for (own, _), row in zip(places, files.rows(), strict=True):
        value = row.replace(f"c{own} ", "FACT ") if isinstance(row, str) else row[own]
        found[list(CSV)[own]].append(value)
    return found


@pytest.mark.parametrize("fact", CSV)
def test_csv(csv_facts: dict[str, list[Any]], fact: str) -> None:
    assert repr(csv_facts[fact]) == repr(CSV[fact][2])


def test_the_null_token_is_the_endpoints(items: Any) -> None:
    """It is documented as NULL, and real files have an empty field."""
    files = items({"s": "string", "r": "string not null", "n": "long"})
    files.csv("NULL,,1", ",NULL,1", "null,x,NULL", "x,x,")
    empty = "n is empty, which is not a valid long (is csv_null_value the endpoint's?)"
    assert files.rows() == [(None, "", 1), "r is NULL", ("null", "x", None), empty]
    files.dms = {"csv_null_value": ""}
    assert files.rows() == [("NULL", "", 1), (None, "NULL", 1), "n is not a valid long", ("x", "x", None)]
    files.dms = {"csv_null_value": "x"}
    assert files.rows() == [("NULL", "", 1), ("", "NULL", 1), "n is not a valid long", empty]


def test_a_stated_zone_counts_for_csv(items: Any) -> None:
    files = items({"at": "timestamptz", "wall": "timestamp"}, timestamp_zone="Europe/Berlin")
    files.csv("2026-07-01 12:00:00,2026-07-01 12:00:00", "2026-01-01 12:00:00+00,2026-03-29 02:30:00")
    assert files.rows() == [
        (datetime(2026, 7, 1, 10, tzinfo=UTC), datetime(2026, 7, 1, 12)),  # noqa: DTZ001
        (datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 3, 29, 2, 30)),  # noqa: DTZ001
    ]


# --- Parquet


def test_time32_which_spark_refuses_for_the_whole_file(items: Any) -> None:
    files = items({"t": "time", "n": "long"})
    times = [time(9, 5), time(23, 59, 59, 999000), None]
    files.parquet({"t": pa.array(times, pa.time32("ms")), "n": pa.array([1, 2, 3])})
    files.parquet({"t": pa.array([time(9, 5), time(0, 0, 0, 1)], pa.time64("us")), "n": pa.array([4, 5])})
    files.parquet({"t": pa.array([1000, 1], pa.time64("ns")), "n": pa.array([6, 7])})
    files.parquet({"t": pa.array([86_400_000, -1], pa.int32()).view(pa.time32("ms")), "n": pa.array([8, 9])})
    assert files.rows() == [
        ("09:05:00", 1),
        ("23:59:59.999000", 2),
        (None, 3),
        ("09:05:00", 4),
        ("00:00:00.000001", 5),
        ("00:00:00.000001", 6),
        "t is not a valid time",
        "t is not a valid time",
        "t is not a valid time",
    ]
    files.columns = {"t": "string", "n": "long"}
    assert files.rows()[:2] == [("09:05:00", 1), ("23:59:59.999", 2)]


def test_unsigned_and_small_integers(items: Any) -> None:
    """INT8 to INT64 and UINT8 to UINT64, of which Parquet 1.0 keeps UINT32 in 64 bits."""
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    declared = ["int", "int", "int", "long", "int", "int", "long", "decimal(20, 0)"]
    bounds = [(-(2 ** (k.bit_width - 1)), 2 ** (k.bit_width - 1) - 1) for k in kinds[:4]]
    bounds += [(0, 2**k.bit_width - 1) for k in kinds[4:]]
    files = items({str(k): d for k, d in zip(kinds, declared, strict=True)})
    for version in ("1.0", "2.6"):
        arrays = (pa.array([*edges, None], k) for k, edges in zip(kinds, bounds, strict=True))
        files.parquet({str(k): a for k, a in zip(kinds, arrays, strict=True)}, version=version)
    low, high = zip(*bounds, strict=True)
    assert files.rows() == [low, high, (None,) * 8] * 2


def test_int_beside_long_and_two_decimal_widths_in_one_batch(items: Any) -> None:
    files = items({"n": "int", "d": "decimal(12, 3)"})

    def file(width: pa.DataType, digits: pa.DataType, n: int, d: str) -> None:
        files.parquet({"n": pa.array([n], width), "d": pa.array([Decimal(d)], digits)})

    file(pa.int32(), pa.decimal128(12, 3), 1, "1.500")
    file(pa.int64(), pa.decimal128(12, 3), 2, "2.500")
    file(pa.int32(), pa.decimal128(38, 4), 3, "3.5000")
    file(pa.int64(), pa.decimal128(5, 0), 4, "4")
    file(pa.int64(), pa.decimal128(5, 0), 2**31, "5")
    file(pa.int32(), pa.decimal128(38, 4), 6, "6.5001")
    assert files.rows() == [
        (1, Decimal("1.500")),
        (2, Decimal("2.500")),
        (3, Decimal("3.500")),
        (4, Decimal("4.000")),
        "n is not a valid int",
        "d is not a valid decimal(12, 3)",
    ]


def test_money_is_a_decimal_of_38_and_4_in_fixed_length_bytes(items: Any) -> None:
    files = items("decimal(38, 4)")
    values = [Decimal("92233720368547758.0700"), Decimal("-0.0001"), Decimal("9" * 34 + ".9999")]
    files.parquet({"c": pa.array(values, pa.decimal128(38, 4))})
    assert files.values() == values


@pytest.mark.parametrize("version", ["1.0", "2.6"])
@pytest.mark.parametrize("unit", ["ms", "us"])
def test_timestamps_are_marked_as_utc_whatever_the_column_is(items: Any, unit: str, version: str) -> None:
    """Seen in real files, for a column of the source without a zone too: the clock is the source's own."""
    files = items({"at": "timestamptz", "my_timestamp": "timestamp"}, timestamp_zone="Europe/Berlin")
    at = NOON if unit == "us" else NOON.replace(microsecond=123000)
    array = pa.array([at], pa.timestamp(unit, "UTC"))
    files.parquet({"at": array, "my_timestamp": array}, version=version)
    assert files.rows() == [(at, at.replace(tzinfo=None))]


def test_timestamps_that_are_not_marked_are_wall_clocks_in_the_stated_zone(items: Any) -> None:
    files = items({"at": "timestamptz", "wall": "timestamp"}, timestamp_zone="Europe/Berlin")
    array = pa.array([datetime(2026, 7, 1, 12)], pa.timestamp("us"))  # noqa: DTZ001
    files.parquet({"at": array, "wall": array})
    assert files.rows() == [(datetime(2026, 7, 1, 10, tzinfo=UTC), datetime(2026, 7, 1, 12))]  # noqa: DTZ001


def test_millisecond_and_microsecond_files_in_one_batch(items: Any) -> None:
    """ParquetTimestampInMillisecond was switched on: neither is read as the other (hudi#6232, hudi#2123)."""
    files = items("timestamptz")
    for unit in ("ms", "us", "ms"):
        files.parquet({"c": pa.array([NOON.replace(microsecond=123000), None], pa.timestamp(unit, "UTC"))})
    files.parquet({"c": pa.array([NOON], pa.timestamp("us", "UTC"))})
    assert files.values() == [NOON.replace(microsecond=123000), None] * 3 + [NOON]


def test_nanoseconds_of_other_writers(items: Any) -> None:
    files = items({"at": "timestamptz", "wall": "timestamp"})
    nanos = pa.array([-1_000, 1_000, 1_001])
    files.parquet({"at": nanos.view(pa.timestamp("ns", "UTC")), "wall": nanos.view(pa.timestamp("ns"))})
    before, after = EPOCH - timedelta(microseconds=1), EPOCH + timedelta(microseconds=1)
    assert files.rows() == [
        (before, before.replace(tzinfo=None)),
        (after, after.replace(tzinfo=None)),
        "at is not a valid timestamptz",
    ]


def test_int96_of_old_writers(items: Any) -> None:
    files = items("timestamptz")
    old = [NOON, datetime(1500, 1, 1, 12, tzinfo=UTC).replace(year=1700)]
    files.parquet({"c": pa.array(old, pa.timestamp("us", "UTC"))}, use_deprecated_int96_timestamps=True)
    assert files.values() == old


def test_dates_before_1582_when_several_files_are_read_together(items: Any) -> None:
    """Spark's rebase modes: neither an exception (hudi#6278) nor days that shift."""
    files = items({"d": "date", "at": "timestamptz", "wall": "timestamp"})
    days = [date(1, 1, 1), date(1500, 2, 28), date(1582, 10, 4), date(1582, 10, 10), date(1900, 1, 1)]
    walls = [datetime(d.year, d.month, d.day, 12, 0, 0, 1000) for d in days]  # noqa: DTZ001
    for unit in ("us", "ms"):
        arrays = {
            "d": pa.array(days, pa.date32()),
            "at": pa.array(walls, pa.timestamp(unit, "UTC")),
            "wall": pa.array(walls, pa.timestamp(unit)),
        }
        files.parquet(arrays)
        files.parquet(arrays)
    expected = [(d, wall.replace(tzinfo=UTC), wall) for d, wall in zip(days, walls, strict=True)]
    assert files.rows() == expected * 4


def test_uuid_and_json_are_texts(items: Any) -> None:
    files = items({"u": "uuid", "j": "json"})
    text = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
    files.parquet({"u": pa.array([text, "no"]), "j": pa.array(['{"a": 1}', "[]"])})
    sixteen = pa.array([bytes.fromhex(text.replace("-", ""))] * 2, pa.uuid())
    files.parquet({"u": sixteen, "j": pa.array(["1", "{"])}, store_schema=True)
    assert files.rows() == [(text, '{"a": 1}'), "u is not a valid uuid", (text, "1"), "j is not a valid json"]


def test_a_column_of_nothing_but_null(items: Any) -> None:
    files = items({"a": "date", "b": "string"})
    files.parquet({"a": pa.nulls(2), "b": pa.nulls(2)}, store_schema=True)
    assert files.rows() == [(None, None)] * 2


def test_strings_are_kept_as_they_are(items: Any) -> None:
    files = items("string")
    texts = ["05021", "ab  ", "", "NULL", None, " \n\r\t"]
    files.parquet({"c": pa.array(texts)})
    files.parquet({"c": pa.array(texts, pa.large_string())}, store_schema=True)
    assert files.values() == texts * 2


MISFITS: list[tuple[str, pa.Array]] = [
    ("int", pa.array([2**31])),
    ("int", pa.array([1.5])),
    ("long", pa.array([2**63], pa.uint64())),
    ("long", pa.array(["1.5"])),
    ("float", pa.array([0.1])),
    ("double", pa.array([2**53 + 1])),
    ("decimal(10, 2)", pa.array([Decimal("1.005")])),
    ("boolean", pa.array([2], pa.int8())),
    ("date", pa.array([NOON], pa.timestamp("us", "UTC"))),
    ("date", pa.array([12], pa.int32())),
    ("timestamptz", pa.array([12])),
    ("timestamp", pa.array(["2026-03-01 12:00:00Z"])),
    ("time", pa.array([12], pa.int32())),
    ("binary", pa.array([12])),
    ("binary", pa.array(["xyz"])),
    ("string", pa.array([b"a\xff"])),
    ("uuid", pa.array([b"ab"])),
    ("json", pa.array([1.0])),
]


def test_what_the_declared_type_cannot_hold_is_a_bad_row(items: Any) -> None:
    """Never an exception of the batch, and never another value."""
    columns = {f"c{n}": declared for n, (declared, _) in enumerate(MISFITS)}
    files = items(columns)
    for n in range(len(MISFITS)):
        values = {
            name: array if position == n else pa.nulls(1, array.type)
            for position, (name, (_, array)) in enumerate(zip(columns, MISFITS, strict=True))
        }
        files.parquet(values)
    assert files.rows() == [f"{name} is not a valid {declared}" for name, declared in columns.items()]


def test_a_type_that_nothing_can_hold_stops_the_table(items: Any) -> None:
    files = items({"c": "string"})
    files.parquet({"c": pa.array([[1, 2]])})
    with pytest.raises(
        TableStopped, match=r"LOAD00000001.parquet has the column c of Parquet type list<.*int64>"
    ):
        files.changes()


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_the_sessions_zone_changes_nothing(items: Any, zone: str) -> None:
    columns = {"at": "timestamptz", "wall": "timestamp", "day": "date", "t": "time", "s": "string"}
    files = items(columns, timestamp_zone="Europe/Berlin")
    array = pa.array([datetime(2026, 3, 1, 23, 30)], pa.timestamp("us", "UTC"))  # noqa: DTZ001
    midnight = pa.array([datetime(2026, 3, 1)], pa.timestamp("us", "UTC"))  # noqa: DTZ001
    files.parquet(
        {
            "at": array,
            "wall": array,
            "day": midnight,
            "t": pa.array([time(23, 30)], pa.time32("ms")),
            "s": array,
        }
    )
    files.conf = {"spark.sql.session.timeZone": zone}
    assert files.rows() == [
        (
            datetime(2026, 3, 1, 23, 30, tzinfo=UTC),
            datetime(2026, 3, 1, 23, 30),  # noqa: DTZ001
            date(2026, 3, 1),
            "23:30:00",
            "2026-03-01 23:30:00",
        )
    ]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_synthetic_sequence_is_in_utc(items: Any, zone: str) -> None:
    files = items("string")
    put(files.folder / "bronze", "public/items/20260301-120000000.csv", b"U,2026-03-01 12:00:01.239000,1,a\n")
    files.conf = {"spark.sql.session.timeZone": zone}
    assert [row["_sequence"] for row in files.changes().collect()] == ["2026030112000123" + "0" * 19]

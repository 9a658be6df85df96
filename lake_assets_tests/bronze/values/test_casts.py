"""The oracle of conversions: a value as its declared type, exactly or not at all."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from lake_assets.local_times import LocalClock
from lake_assets_tests.helpers.lakes.small_lakes import own_session
from lake_assets_tests.helpers.oracles.spark_casts import exactly, instant

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

TEXTS: list[tuple[str, str, Any]] = [
    ("long", "12", 12),
    ("long", "-9223372036854775808", -(2**63)),
    ("long", "9223372036854775808", None),
    ("long", "1.5", None),
    ("long", "1e3", None),
    ("long", "", None),
    ("int", "2147483648", None),
    ("boolean", "true", True),
    ("boolean", "0", False),
    ("boolean", "t", True),
    ("boolean", "False", False),
    ("boolean", "F", False),
    ("boolean", "2", None),
    ("boolean", "yes", None),
    ("boolean", "Y", None),
    ("boolean", "", None),
    ("decimal(10, 2)", "12.30", Decimal("12.30")),
    ("decimal(10, 2)", "-0.5", Decimal("-0.50")),
    ("decimal(10, 2)", ".5", Decimal("0.50")),
    ("decimal(10, 2)", "12.3000", Decimal("12.30")),
    ("decimal(10, 2)", "12.345", None),
    ("decimal(10, 2)", "123456789.00", None),
    ("decimal(10, 2)", "1.25e1", Decimal("12.50")),
    ("decimal(10, 2)", "1.2345e1", None),
    ("decimal(10, 2)", "+1.2500E-01", None),
    ("decimal(10, 2)", "12500e-4", Decimal("1.25")),
    ("decimal(10, 2)", "1.00000000000000000001e1", None),
    ("decimal(10, 2)", "0e-5", Decimal("0.00")),
    (
        "decimal(38, 0)",
        "1.2345678901234567890123456789012345678e37",
        Decimal("12345678901234567890123456789012345678"),
    ),
    ("decimal(10, 2)", "1e9999", None),
    ("decimal(10, 2)", "NaN", None),
    ("decimal(20, 0)", "18446744073709551615", Decimal(2**64 - 1)),
    (
        "decimal(38, 38)",
        "-0.12345678901234567890123456789012345678",
        Decimal("-0.12345678901234567890123456789012345678"),
    ),
    ("decimal(38, 4)", "92233720368547758.0700", Decimal("92233720368547758.0700")),
    (
        "decimal(38, 0)",
        "12345678901234567890123456789012345678",
        Decimal("12345678901234567890123456789012345678"),
    ),
    ("double", "+3.23800011e+01", 32.3800011),
    ("float", "+3.23800011e+01", 32.380001068115234),
    ("double", "-Infinity", float("-inf")),
    ("double", "NaN", float("nan")),
    ("double", "1e400", None),
    ("float", "1e39", None),
    ("double", "1e-400", None),
    ("double", "0.000e5", 0.0),
    ("double", "5e-324", 5e-324),
    ("double", "1d", None),
    ("double", "2F", None),
    ("double", "0x1p3", None),
    ("double", "-0", -0.0),
    ("double", "1,5", None),
    ("date", "2026-03-01", date(2026, 3, 1)),
    ("date", "2026-03-01 00:00:00.000000", date(2026, 3, 1)),
    ("date", "2026-03-01 23:00:00", None),
    ("date", "2026-02-30", None),
    ("date", "1582-10-10", date(1582, 10, 10)),
    ("date", "0001-01-01", date(1, 1, 1)),
    ("date", "0000-00-00", None),
    ("date", "0044-03-15 BC", None),
    ("time", "12:34:56", "12:34:56"),
    ("time", "12:34:56.000000", "12:34:56"),
    ("time", "12:34:56.5", "12:34:56.500000"),
    ("time", "00:00:00.000001", "00:00:00.000001"),
    ("time", "23:59:59.9999990", "23:59:59.999999"),
    ("time", "23:59:59.9999999", None),
    ("time", "24:00:00", None),
    ("time", "-838:59:59", None),
    ("time", "12:34", None),
    ("time", "12:34:56+02", None),
    ("uuid", "6F9619FF-8B86-D011-B42D-00C04FC964FF", "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
    ("uuid", "6f9619ff8b86d011b42d00c04fc964ff", None),
    ("uuid", "6f9619ff-8b86-d011-b42d-00c04fc964f", None),
    ("json", '{"a": 1,  "a": [null]}', '{"a": 1,  "a": [null]}'),
    ("json", "null", "null"),
    ("json", ' "text" ', ' "text" '),
    (
        "json",
        "12345678901234567890123456789012345678901234567890",
        "12345678901234567890123456789012345678901234567890",
    ),
    ("json", '{"cut off by a LOB lim', None),
    ("json", "no", None),
    ("json", "", None),
    ("date", "infinity", None),
    ("timestamp", "2026-03-01 12:00:00.123456", datetime(2026, 3, 1, 12, 0, 0, 123456)),  # noqa: DTZ001
    ("timestamp", "2026-03-01 12:00:00.1234560", datetime(2026, 3, 1, 12, 0, 0, 123456)),  # noqa: DTZ001
    ("timestamp", "2026-03-01 12:00:00.1234567", None),
    ("timestamp", "2026-03-01 12:00:00+02:00", None),
    ("timestamp", "0001-01-01 00:00:00", datetime(1, 1, 1)),  # noqa: DTZ001
    ("timestamp", "1582-10-10 12:00:00.000001", datetime(1582, 10, 10, 12, 0, 0, 1)),  # noqa: DTZ001
    ("timestamp", "infinity", None),
    ("timestamptz", "1582-10-10 12:00:00", datetime(1582, 10, 10, 12, tzinfo=UTC)),
    ("timestamptz", "2026-03-01 12:00:00", NOON),
    ("timestamptz", "2026-03-01T12:00:00.000Z", NOON),
    ("timestamptz", "2026-03-01 14:00:00 +02:00", NOON),
    ("timestamptz", "2026-03-01 14:00:00+02", NOON),
    ("timestamptz", "12:00:00", None),
    ("timestamptz", "2026-03", None),
    ("timestamptz", "today", None),
    ("binary", "00ff4a", b"\x00\xffJ"),
    ("binary", "", b""),
    ("binary", "0ff", None),
    ("binary", "0x00", None),
    ("string", "", ""),
    ("string", " ü\x00\r\n", " ü\x00\r\n"),
    ("string", "05021", "05021"),
    ("string", "padded    ", "padded    "),
]

PARQUET: list[tuple[str, str, str, Any]] = [
    ("long", "int", "12", 12),
    ("int", "bigint", "2147483648", None),
    ("int", "double", "12.0D", 12),
    ("int", "double", "12.5D", None),
    ("long", "decimal(20,0)", "12", 12),
    ("decimal(10, 2)", "decimal(38,4)", "12.3000", Decimal("12.30")),
    ("decimal(10, 2)", "decimal(38,4)", "12.3456", None),
    ("float", "double", "0.5D", 0.5),
    ("float", "double", "0.1D", None),
    ("double", "float", "0.1F", 0.10000000149011612),
    ("boolean", "tinyint", "1", True),
    ("boolean", "tinyint", "2", None),
    ("date", "timestamp", "'2026-03-01 00:00:00'", date(2026, 3, 1)),
    ("date", "timestamp", "'2026-03-01 12:00:00'", None),
    ("timestamptz", "timestamp", "'2026-03-01 12:00:00'", NOON),
    ("timestamp", "timestamp", "'2026-03-01 12:00:00'", datetime(2026, 3, 1, 12)),  # noqa: DTZ001
    ("string", "bigint", "12", "12"),
    ("long", "string", "'12'", 12),
    ("binary", "binary", "X'00FF'", b"\x00\xff"),
    ("double", "bigint", "9007199254740993L", None),
    ("double", "decimal(38,4)", "12.3000", 12.3),
    ("double", "decimal(38,4)", "1234567890123456789.1234", None),
    ("long", "decimal(20,0)", "18446744073709551615", None),
    ("decimal(20, 0)", "decimal(20,0)", "18446744073709551615", Decimal(2**64 - 1)),
    ("int", "boolean", "true", 1),
    ("timestamp", "date", "DATE'2026-03-01'", datetime(2026, 3, 1)),  # noqa: DTZ001
    ("timestamptz", "date", "DATE'2026-03-01'", datetime(2026, 3, 1, tzinfo=UTC)),
    ("timestamp", "timestamp_ntz", "'2026-03-01 12:00:00'", datetime(2026, 3, 1, 12)),  # noqa: DTZ001
    ("date", "timestamp_ntz", "'2026-03-01 00:00:00'", date(2026, 3, 1)),
    ("string", "timestamp", "'2026-03-01 12:00:00.5'", "2026-03-01 12:00:00.5"),
    ("uuid", "binary", "X'6F9619FF8B86D011B42D00C04FC964FF'", "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
    ("uuid", "binary", "X'6F96'", None),
    ("uuid", "string", "'6F9619FF-8B86-D011-B42D-00C04FC964FF'", "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
    ("boolean", "string", "'true'", True),
    # What another family's type could only mean: a count of seconds, a text's bytes, a number's day.
    ("timestamptz", "bigint", "12", None),
    ("timestamp", "double", "12.0D", None),
    ("long", "timestamp", "'2026-03-01 12:00:00'", None),
    ("int", "date", "DATE'2026-03-01'", None),
    ("date", "int", "12", None),
    ("time", "int", "12", None),
    ("time", "timestamp_ntz", "'2026-03-01 12:00:00'", None),
    ("json", "int", "12", None),
    ("uuid", "bigint", "12", None),
    ("string", "binary", "X'4142'", "AB"),
    ("string", "binary", "X'41FF'", None),
    ("binary", "int", "12", None),
    ("boolean", "date", "DATE'2026-03-01'", None),
]


@pytest.fixture(scope="module", params=["UTC", "America/New_York", "Asia/Kolkata"])
def session(spark: SparkSession, request: pytest.FixtureRequest) -> SparkSession:
    """Whose own zone must make no difference."""
    session = own_session(spark)
    session.conf.set("spark.sql.session.timeZone", request.param)
    return session


def instants(literal: str, kind: str) -> str:
    """The cases' timestamps are in UTC, whatever the session's zone is."""
    return f"{literal[:-1]} UTC'" if kind == "timestamp" else literal


def utc(values: tuple[Any, ...], declared: list[str]) -> list[Any]:
    # PySpark shows an instant as the wall clock of this machine, without a zone.
    return [
        v.astimezone(UTC) if isinstance(v, datetime) and t == "timestamptz" else v
        for v, t in zip(values, declared, strict=True)
    ]


@pytest.mark.spark
def test_texts(session: SparkSession) -> None:
    names = [f"c{n}" for n in range(len(TEXTS))]
    row = session.createDataFrame(
        [tuple(text for _, text, _ in TEXTS)], ", ".join(f"{n} string" for n in names)
    )
    found = row.select(
        *(exactly(F.col(n), StringType(), t, LocalClock()) for n, (t, _, _) in zip(names, TEXTS, strict=True))
    )
    values = utc(tuple(found.first() or ()), [t for t, _, _ in TEXTS])
    assert [(t, x, repr(v)) for (t, x, _), v in zip(TEXTS, values, strict=True)] == [
        (t, x, repr(v)) for t, x, v in TEXTS
    ]


@pytest.mark.spark
def test_parquet_values(session: SparkSession) -> None:
    columns = ", ".join(
        f"CAST({instants(literal, kind)} AS {kind}) AS c{n}"
        for n, (_, kind, literal, _) in enumerate(PARQUET)
    )
    row = session.sql(f"SELECT {columns}")
    found = row.select(
        *(
            exactly(F.col(f.name), f.dataType, t, LocalClock())
            for f, (t, *_) in zip(row.schema.fields, PARQUET, strict=True)
        )
    )
    values = utc(tuple(found.first() or ()), [t for t, *_ in PARQUET])
    assert [(*case[:3], repr(v)) for case, v in zip(PARQUET, values, strict=True)] == [
        (*case[:3], repr(case[3])) for case in PARQUET
    ]


@pytest.mark.spark
def test_wall_clock_times_are_in_the_endpoints_zone(session: SparkSession) -> None:
    texts = ["2026-01-01 12:00:00", "2026-07-01 12:00:00", "2026-07-01 12:00:00Z"]
    rows = session.createDataFrame([(text,) for text in texts], "t string").select(
        instant(F.col("t"), LocalClock("Europe/Berlin")),
        exactly(
            F.col("t").try_cast("timestamp_ntz"),
            session.sql("SELECT localtimestamp() AS t").schema["t"].dataType,
            "timestamptz",
            LocalClock("Europe/Berlin"),
        ),
    )
    hours = [[value.astimezone(UTC).hour for value in row] for row in rows.collect()]
    assert hours == [[11, 11], [10, 10], [12, 10]]

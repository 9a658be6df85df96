"""Texts as values, by Arrow and without Spark: every spelling gives what Spark reads, or nothing.

Here: every type and many spellings of its values, alone and among others, and the clocks of zones. Not here: files
(`bronze/decode/`).
"""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from lake_assets.bronze.files.parquet_columns import ParquetColumn
from lake_assets.bronze.reader.parquet_types import read_schema
from lake_assets.bronze.values import text_values
from lake_assets.bronze.values.image_types import image_type
from lake_assets.bronze.values.text_values import values_of
from lake_assets.local_times import LocalClock
from lake_assets_tests.bronze.values.test_casts import TEXTS
from lake_assets_tests.helpers.files.spellings import SEEDS, texts
from lake_assets_tests.helpers.oracles.spark_casts import exactly

UTC = LocalClock()
CLOCKS = [LocalClock("America/New_York"), LocalClock("Europe/Berlin", "later"), LocalClock("Asia/Kolkata")]
CASES = [*((declared, UTC) for declared in SEEDS), *(("timestamptz", clock) for clock in CLOCKS)]


def spellings(declared: str) -> list[str]:
    return sorted({*texts(declared), *(text for other, text, _ in TEXTS if other == declared)})


def together(given: Sequence[str | None], declared: str, clock: LocalClock) -> pa.Array:
    return values_of(pa.chunked_array([pa.array(given, pa.string())]), declared, clock).combine_chunks()


@pytest.mark.spark
@pytest.mark.parametrize(("declared", "clock"), CASES, ids=str)
def test_every_spelling_is_what_spark_reads(spark: SparkSession, declared: str, clock: LocalClock) -> None:
    given = spellings(declared)
    kind = image_type(declared)
    rows = pa.table(
        {
            "text": given,
            "value": together(given, declared, clock),
            # One by one, as many as can are read by Arrow alone.
            "alone": pa.concat_arrays([together([text], declared, clock) for text in given]),
        }
    )
    types = {"text": "string", "value": str(kind), "alone": str(kind)}
    frame = spark.createDataFrame(rows, read_schema([ParquetColumn(*one) for one in types.items()]))
    frame = frame.withColumn("spark", exactly(F.col("text"), StringType(), declared, clock))
    # As texts too: -0 equals 0.
    same = F.expr("spark <=> value AND spark <=> alone AND string(spark) <=> string(value)")
    assert frame.filter(~(same & F.expr("string(spark) <=> string(alone)"))).collect() == []
    known = frame.filter("spark IS NOT NULL").count()
    assert known >= len(SEEDS[declared]) // 3
    assert declared == "string" or known < len(given)


def test_plain_spellings_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_values, "_exact", lambda *_: pytest.fail("text by text"))
    for declared, usual in {
        "int": ["0", "-12"],
        "decimal(10, 2)": ["12.30", "-0.5"],
        "double": ["1.5", "1e5"],
        "boolean": ["true", "0"],
        "date": ["2026-03-01"],
        "timestamp": ["2026-03-01 12:00:00.123456"],
        "timestamptz": ["2026-03-01 12:00:00"],
        "time": ["12:00:00"],
        "uuid": ["6F9619FF-8B86-D011-B42D-00CF4FC964FF"],
    }.items():
        values = together([*usual, None], declared, CLOCKS[0])
        assert values.type == image_type(declared)
        assert values.null_count == 1, declared


def test_one_odd_spelling_changes_no_other_value() -> None:
    plain = ["1.50", "-2.25", None, "3.00"]
    assert together([*plain, "25e-2", "x"], "decimal(10, 2)", UTC).to_pylist() == [
        *together(plain, "decimal(10, 2)", UTC).to_pylist(),
        *together(["0.25", None], "decimal(10, 2)", UTC).to_pylist(),
    ]


@pytest.mark.parametrize("clock", CLOCKS, ids=str)
def test_times_of_a_zone_are_the_same_at_once_and_one_by_one(clock: LocalClock) -> None:
    walls = [
        f"{year}-{day} {hour}:30:00.000001"
        for year in (1850, 1916, 2026, 2099, 2103, 2399, 9999)
        for day in ("03-08", "03-29", "07-01", "10-25", "11-01")
        for hour in ("00", "01", "02", "03")
    ]
    at_once = together(walls, "timestamptz", clock)
    odd = together([*walls, "2026-3-1 1:2:3"], "timestamptz", clock)
    assert at_once.equals(odd[:-1])
    assert odd[-1].is_valid
    assert clock.zone == "Asia/Kolkata" or at_once.null_count > 0


def test_long_texts_that_are_no_numbers_take_no_time() -> None:
    """Whatever an attacker puts into a field: one bad row, found at once."""
    digits = "1" * 1_000_001
    for declared in ("decimal(10, 2)", "double", "long"):
        assert together([digits, f"{digits}x", f"{'0' * 200_000}x"], declared, UTC).null_count == 3, declared
    assert together(["1e999999999999999999", "1e-9999"], "decimal(10, 2)", UTC).null_count == 2


def test_a_column_goes_text_by_text_in_a_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The zone's changes are looked up once, not for each text."""
    asked: list[str] = []
    offsets = LocalClock.offsets

    def counted(clock: LocalClock) -> list[tuple[int, int | None]]:
        asked.append(clock.zone)
        return offsets(clock)

    monkeypatch.setattr(LocalClock, "offsets", counted)
    texts = [f"2026-3-1 1:2:{second}" for second in range(60)]
    assert together(texts, "timestamptz", CLOCKS[0]).null_count == 0
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("decimal(10, 2)", "340282366920938463463374607431762114560"),  # 2**128 - 6096896 * 10**2, about
        ("decimal(10, 2)", "1e-999"),
        ("decimal(10, 2)", "1000000000000000.00000000000000500000000000000000000e-50"),
        ("decimal(10, 2)", "123456789.00"),
        ("decimal(38, 0)", "9" * 39),
        ("decimal(38, 38)", "4"),
        ("decimal(38, 4)", "410009090749430807060507804449523222"),
    ],
)
def test_a_number_that_arrow_would_cut_has_no_value(declared: str, text: str) -> None:
    assert values_of(pa.chunked_array([[text]]), declared, LocalClock()).null_count == 1


@pytest.mark.parametrize("text", ["0.01", "-12345678.90", ".5", "+7", "7.", "99999999.9900000", None])
def test_a_plain_decimal_is_decoded(text: str | None) -> None:
    texts = pa.chunked_array([pa.array([text], pa.string())])
    assert values_of(texts, "decimal(10, 2)", LocalClock()).null_count == (text is None)

"""Parquet columns as declared types, by Arrow and without Spark: every value is what Spark reads, or nothing.

Here: every Arrow type with every declared type, values near each border of both, and the clocks of zones. Not here: the
spellings of texts (`test_text_values.py`).
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.files.parquet_columns import ParquetColumn
from lake_assets.bronze.reader.parquet_types import READ_OPTIONS, read_schema
from lake_assets.bronze.values import exact_conversions
from lake_assets.bronze.values.exact_conversions import converted
from lake_assets.bronze.values.image_types import image_type
from lake_assets.local_times import LocalClock
from lake_assets_tests.helpers.oracles.spark_casts import from_parquet

UTC = LocalClock()
CLOCKS = [
    LocalClock("Europe/Berlin"),
    LocalClock("Europe/Berlin", "later"),
    LocalClock("America/New_York", "earlier"),
]
NUMBERS = ("boolean", "int", "long", "float", "double", "decimal(10, 2)", "decimal(38, 0)", "decimal(20, 10)")
DECLARED = (
    *NUMBERS,
    *("decimal(3, 3)", "string", "binary", "uuid", "json", "date", "timestamp", "timestamptz", "time"),
)
PAIRS = [*((declared, UTC) for declared in DECLARED), *(("timestamptz", clock) for clock in CLOCKS)]
CHANCE = random.Random(17)
DAY = 86_400
TOLD_BY_JAVA = frozenset(name for name in DECLARED if name.startswith(("string", "decimal")))
"""Declared types whose values of a large or tiny real depend on the version of Java."""


@dataclass(frozen=True)
class Case:
    """A column of a Parquet file."""

    values: pa.Array
    without: frozenset[str] = frozenset()
    """Declared types that it is not compared for."""

    def pairs(self) -> list[tuple[str, LocalClock]]:
        return [(declared, clock) for declared, clock in PAIRS if declared not in self.without]

    def __str__(self) -> str:
        return f"{self.values.type}-{len(self.values)}"


BORDERS = [0, *(10**n for n in (0, 1, 2, 8, 10, 18)), *(2**n for n in (15, 16, 24, 31, 32, 53, 62, 63, 64))]


def whole(kind: pa.DataType, without: Iterable[str] = ()) -> Case:
    bits = kind.bit_width
    low, high = (0, 2**bits - 1) if str(kind).startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    near = [sign * n + d for n in BORDERS for d in (-1, 0, 1) for sign in (1, -1)]
    found = {low, low + 1, high - 1, high, *(n for n in near if low <= n <= high)}
    return Case(pa.array([*sorted(found), None], kind), frozenset(without))


def floats(texts: str) -> list[float]:
    return [float(text) for text in words(texts)]


def some_reals(number: int, digits: int) -> list[float]:
    return [CHANCE.uniform(-1, 1) * 10 ** CHANCE.randrange(-9, digits) for _ in range(number)]


def words(texts: str) -> list[str]:
    return texts.split()


REALS = floats(
    """
    0.0 -0.0 1.0 -1.0 0.5 1.5 0.1 -0.1 0.001 0.00099999 1e-05 1e-10 100.0 123456.789 0.125 0.995 1e-30
    9999999.0 9999999.5 10000000.0 12345678.0 16777215.0 0.005 0.0049999 0.3 0.30000000000000004 1e-07
    0.0025 nan inf -inf 0.999 0.9995 0.9999999999999999 99.99 1.1 7.0 -255.0 2e-37
    """
)
DOUBLES = floats(
    """
    16777217.0 2147483648.0 2147483647.0 -2147483648.0 -2147483649.0 9007199254740991.0 10000000000.0
    99999999.99 99999999.995 1000000000000000.0 1234567890123400.0 0.7999999999999999 0.3333333333333333
    666666.6666666666 1000000000.1 9999999999.0 9999999999.99999 1.17e-38 1e-300 0.30000000000000004 5e-11
    1.5e-10 5e-11 123456789.12345678
    """
)
HUGE = floats(
    """
    9007199254740992.0 9007199254740994.0 1e+17 4.611686018427388e+18 9.223372036854776e+18
    -9.223372036854776e+18 1.8446744073709552e+19 1e+23 3.4e+38 -1e+39 1e+300 1.7976931348623157e+308
    """
)
TINY = floats("5e-324 1e-323 2.2250738585072014e-308 1e-301")
DECIMALS = words(
    """
    0 1 -1 0.1 0.01 0.005 12.30 -12.34 99999999.99 100000000 0.0000000001 1.5 2147483647 2147483648
    -2147483648 -2147483649 0.999 16777217 900719925474099 0.25 123456789.123456789 0.3333333333 7 255 0.50
    10000000000 0.0010
    """
)
LARGE = words(
    """
    9007199254740993 9223372036854775807 9223372036854775808 -9223372036854775808 18446744073709551616
    -9223372036854775809 11111111111111111111111111111111111111 99999999999999999999999999999999999999
    10000000000000000000000000000000000000 -99999999999999999999999999999999999999
    1267650600228229400000000000000
    """
)


def decimals(kind: pa.DataType, texts: Iterable[str], without: Iterable[str] = ()) -> Case:
    """Those that it holds."""
    found = []
    for text in texts:
        _, digits, exponent = Decimal(text).as_tuple()
        assert isinstance(exponent, int)
        if -exponent <= kind.scale and len(digits) + exponent <= kind.precision - kind.scale:
            found.append(Decimal(text))
    edge = Decimal("9" * kind.precision).scaleb(-kind.scale, None) if kind.precision < 16 else Decimal(0)
    return Case(pa.array([*found, edge, -edge, None], kind), frozenset(without))


def at(kind: pa.DataType, numbers: Iterable[int]) -> Case:
    """Of days, times or units since 1970."""
    physical = pa.int32() if kind.bit_width == 32 else pa.int64()
    return Case(pa.array([*numbers, None], physical).view(kind))


SECONDS = [
    *(0, -1, 1, DAY, -DAY),
    # Around 2026-03-08, 03-29, 10-25 and 11-01, at whose half hours the clocks are set forward and back.
    *(day * DAY + half * 1_800 for day in (20_520, 20_541, 20_751, 20_758) for half in range(8)),
    # 0001-01-01, 0000-12-31, 1582-10-10, 9999-12-31, 10000-01-01, and years before 0 and of six digits.
    *(-62_135_596_800, -62_135_596_801, -12_218_688_000, 253_402_300_799, 253_402_300_800, -70_000_000_000),
    *(9_000_000_000_000, -9_000_000_000_000, 4_000_000_000 + DAY, 951_782_400, 7_258_118_400, 4_133_980_800),
    *(CHANCE.randrange(-(10**11), 10**12) for _ in range(200)),
    *(CHANCE.randrange(-40_000, 40_000) * DAY for _ in range(20)),
]
MICROS = [
    *(second * 10**6 + fraction for second in SECONDS for fraction in (0, 1, 500_000, 123_456, 120_000)),
    *(sign * (2**63 - 10**9 * far) - (sign > 0) for sign in (1, -1) for far in (0, 3, 7_200, 20_000, 10**6)),
]
NANOS = [n * 1_000 + d for n in MICROS if abs(n) < 2**53 for d in (0, 1)] + [2**63 - 1, -(2**63), -1, 999]
DAYS = [s // DAY for s in SECONDS] + [10**6, -(10**6), 10**8, -(10**8), 106_751_991, -106_751_991]
FAR_DAYS = [106_751_992, -106_751_992, -106_751_993, 2**31 - 1, -(2**31)]
"""Beyond Spark's timestamps."""
OF_DAY = [0, 1, 59, 60, 3_599, 43_200, 86_399]
BYTES = [b"", b"abc", "é𝄞".encode(), b"NULL", b'{"a": 1}', b"00ff", b"\x00" * 16, b"1" * 16, b"1" * 17]
# No UTF-8: a single byte, half of a surrogate pair, too long, too large, cut off. UTF-8 again: the last one.
BYTES += [
    b"\xff",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\xf0\x8f\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\xe2\x82",
    b"\xef\xbf\xbf",
]
BYTES += [bytes(range(16))]
TEXTS = [
    "",
    "2026-03-29 02:30:00",
    "2026-10-25 02:30:00.5",
    '{"a": 1}',
    "6F9619FF-8B86-D011-B42D-00CF4FC964FF",
]
TEXTS += words("1 1.50 true x 2026-03-01 12026-03-01 12:00:00.5 NaN 00ff 1e5 99999999999999999999 é𝄞")
SIZES = [(10, 2), (38, 0), (20, 10), (38, 10), (1, 0), (38, 38), (3, 3)]
ZONES = (None, "UTC", "+01:00", "Europe/Berlin")

CASES = [
    Case(pa.array([True, False, None])),
    *(whole(kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *(whole(kind) for kind in (pa.uint8(), pa.uint16(), pa.uint32())),
    whole(pa.uint64(), ("float", "double")),
    Case(pa.array([0, 1, 2**24, 2**24 + 1, 2**40, 2**50 + 1, None], pa.uint64())),
    Case(pa.array([*REALS, *some_reals(300, 7), None], pa.float32())),
    Case(pa.array([*REALS, *DOUBLES, *some_reals(500, 15), None])),
    Case(pa.array([*(real for real in HUGE if abs(real) < 1e38), 1e-45, None], pa.float32()), TOLD_BY_JAVA),
    Case(pa.array([*HUGE, *TINY, None]), TOLD_BY_JAVA),
    *(decimals(pa.decimal128(*size), DECIMALS) for size in SIZES),
    *(decimals(kind, DECIMALS) for kind in (pa.decimal256(38, 10), pa.decimal32(5, 2), pa.decimal64(18, 4))),
    *(decimals(pa.decimal128(38, scale), LARGE, ("float", "double")) for scale in (0, 10)),
    *(
        Case(pa.array([*TEXTS, None], kind))
        for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.json_())
    ),
    Case(pa.array([*TEXTS, None, *TEXTS]).dictionary_encode()),
    *(Case(pa.array([*BYTES, None], kind)) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    Case(pa.array([*BYTES, None, *BYTES]).dictionary_encode()),
    *(Case(pa.array([*(b for b in BYTES if len(b) == size), None], pa.binary(size))) for size in (3, 16)),
    Case(pa.array([bytes(range(16)), None], pa.uuid())),
    at(pa.date32(), DAYS),
    Case(at(pa.date32(), FAR_DAYS).values, frozenset({"timestamptz"})),
    at(pa.time32("ms"), [n * 1_000 + f for n in OF_DAY for f in (0, 1, 500)] + [-1, DAY * 1_000, 2**31 - 1]),
    at(
        pa.time64("us"),
        [n * 10**6 + f for n in OF_DAY for f in (0, 1, 120_000)] + [-1, DAY * 10**6, 2**63 - 1],
    ),
    at(
        pa.time64("ns"),
        [n * 10**9 + f for n in OF_DAY for f in (0, 1, 1_000)] + [-1, DAY * 10**9, 2**63 - 1, -(2**63)],
    ),
    *(at(pa.timestamp("s", zone), SECONDS) for zone in ZONES),
    *(at(pa.timestamp("ms", zone), [s * 1_000 + f for s in SECONDS for f in (0, 1, 999)]) for zone in ZONES),
    *(at(pa.timestamp("us", zone), MICROS) for zone in ZONES),
    *(at(pa.timestamp("ns", zone), NANOS) for zone in ZONES),
    Case(pa.nulls(3)),
]
SPARK_IS_WRONG = {
    # A real of 2**63 as a long ends at 2**63 - 1, without an error, so that it also comes back as the same real.
    *(("int64", real, str(2**63 - 1)) for real in ("float", "double")),
    *((real, "long", repr(2.0**63)) for real in ("float", "double")),
}
"""Arrow type, declared type and value for which Spark gives a value that differs; here it is NULL."""


@pytest.fixture(scope="module")
def read(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[pa.Table, list[str], pa.Table]:
    """One file that has every case as a column: its values, its types by the file log, and what Spark makes of it,
    in the order of cases and pairs."""
    most = max(len(case.values) for case in CASES)
    columns = {
        f"c{place}": pa.concat_arrays([case.values, pa.nulls(most - len(case.values), case.values.type)])
        for place, case in enumerate(CASES)
    }
    path = str(tmp_path_factory.mktemp("types") / "file.parquet")
    pq.write_table(pa.table(columns), path)
    found = pq.ParquetFile(path).schema_arrow
    types = [str(found.field(name).type) for name in columns]
    schema = read_schema([ParquetColumn(*one) for one in zip(columns, types, strict=True)])
    frame = spark.read.options(**READ_OPTIONS).schema(schema).parquet(path)
    by_spark = [
        from_parquet(F.col(name), arrow, declared, clock).alias(f"{name} {declared} {clock}")
        for name, arrow, case in zip(columns, types, CASES, strict=True)
        for declared, clock in case.pairs()
    ]
    return pq.read_table(path), types, frame.select(by_spark).toArrow()


def shown(values: pa.ChunkedArray) -> list[str]:
    """Values as texts: -0 equals 0, and NaN nothing. Python has no year 10000."""
    kind = values.type
    if pa.types.is_temporal(kind):
        values = values.cast(pa.int64() if kind.bit_width == 64 else pa.int32())
    return [repr(value) for value in values.to_pylist()]


@pytest.mark.spark
@pytest.mark.parametrize("place", range(len(CASES)), ids=map(str, CASES))
def test_every_value_is_what_spark_reads(read: tuple[pa.Table, list[str], pa.Table], place: int) -> None:
    rows, types, by_spark = read
    given, different = rows[f"c{place}"], []
    for declared, clock in CASES[place].pairs():
        values = converted(given, declared, clock)
        assert values.type == image_type(declared)
        expected = by_spark[f"c{place} {declared} {clock}"].cast(values.type)
        for one, ours, theirs in zip(shown(given), shown(values), shown(expected), strict=True):
            if (types[place], declared, one) in SPARK_IS_WRONG:
                assert (ours, theirs != "None") == ("None", True)
            elif ours != theirs:
                different.append((declared, clock, one, ours, theirs))
    assert different == []


def one(value: Any, kind: pa.DataType, declared: str, clock: LocalClock = UTC) -> Any:
    physical = pa.int32() if kind == pa.date32() else pa.int64() if pa.types.is_temporal(kind) else kind
    values = pa.array([value], physical).view(kind)
    return converted(pa.chunked_array([values]), declared, clock).to_pylist()[0]


def test_an_instant_beyond_64_bits_is_none() -> None:
    """Spark refuses such a file as a whole."""
    assert one(FAR_DAYS[0], pa.date32(), "timestamptz") is None
    assert one(2**63 - 1, pa.timestamp("ms"), "timestamp") is None
    assert one(-(2**63), pa.timestamp("ms", "UTC"), "string") is None


def test_the_text_of_a_real_has_the_fewest_digits() -> None:
    """Java 17 writes 2.0E23 as 1.9999999999999998E23, and the float 33573952 as 3.3573952E7; Java 21 as here."""
    for value, text in (
        (2e23, "2.0E23"),
        (-(2.0**53), "-9.007199254740992E15"),
        (2.0**-44, "5.684341886080802E-14"),
    ):
        assert one(value, pa.float64(), "string") == text
    for value, text in ((33573952.0, "3.357395E7"), (2.0**24, "1.6777216E7"), (0.1, "0.1")):
        assert one(value, pa.float32(), "string") == text
    assert one(8.41e21, pa.float64(), "decimal(38, 0)") == Decimal("841E19")
    assert one(Decimal("841E19"), pa.decimal128(38, 0), "double") == 8.41e21
    assert one(2**63, pa.uint64(), "double") is None, "its digits are another number's"
    assert one(8.41e21, pa.float64(), "decimal(10, 2)") is None
    assert one(2.0**-44, pa.float64(), "float") == 2.0**-44


def test_an_overflow_that_arrow_does_not_notice() -> None:
    """Its cast gives 9858816539530768268312708629.1158942720."""
    large = Decimal("180000000000000000000000012345")
    assert one(large, pa.decimal128(38, 0), "decimal(38, 10)") is None


def test_usual_columns_are_cast_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_conversions, "_each", lambda *_: pytest.fail("value by value"))
    usual: list[tuple[pa.Array, str]] = [
        (pa.array([1, None]), "int"),
        (pa.array([1, None], pa.uint64()), "long"),
        (pa.array([2**53, None]), "double"),
        (pa.array([99_999_999, None], pa.int32()), "decimal(10, 2)"),
        (pa.array([Decimal("12.3400000000"), None], pa.decimal128(38, 10)), "decimal(10, 2)"),
        (pa.array([Decimal(2**63 - 1), None], pa.decimal128(38, 10)), "long"),
        (pa.array([0.5, None], pa.float32()), "double"),
        (pa.array([0.5, None]), "float"),
        (pa.array([DAY * 1_000, None], pa.timestamp("ms")), "timestamptz"),
        (pa.array([DAY * 10**9, None], pa.timestamp("ns", "UTC")), "date"),
        (pa.array([1, None], pa.date32()), "timestamptz"),
    ]
    for values, declared in usual:
        found = converted(pa.chunked_array([values]), declared, CLOCKS[0])
        assert (found.type, found.null_count) == (image_type(declared), 1), declared


def test_columns_of_several_pieces_and_of_none() -> None:
    words = [pa.array(texts).dictionary_encode() for texts in (["1", "2"], ["2", None, "3"])]
    assert converted(pa.chunked_array(words), "int", UTC).to_pylist() == [1, 2, 2, None, 3]
    numbers = pa.chunked_array([pa.array([1, 5]), pa.array([0, None])])
    assert converted(numbers, "boolean", UTC).to_pylist() == [True, None, False, None]
    for case in CASES:
        for declared, clock in PAIRS:
            none = converted(pa.chunked_array([], case.values.type), declared, clock)
            assert (len(none), none.type) == (0, image_type(declared))

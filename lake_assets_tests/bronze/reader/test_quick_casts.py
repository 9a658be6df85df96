"""The quick ways of `casts.py` for what is usual give what the full ones give, for texts near the border of both."""

import random

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from lake_assets.bronze.reader.casts import _SCIENTIFIC, _WALL_CLOCK, _ZONE, exactly
from lake_assets_tests.helpers.lakes.small_lakes import own_session

SEEDS = {
    "timestamptz": [
        "2026-03-01 12:00:00.123456",
        "2026-03-01T12:00:00",
        "2026-3-1 1:2:3.5",
        "0001-01-01 00:00:00",
        "12026-03-01 12:00:00.5",
        "2026-03-01 12:00:00.+01:00",
        "2026-03-01 12:00:00.123+01",
        "2026-03-29 02:30:00",
        "2026-03-08 02:30:00.000001",
        "2026-03-01 12:00:00 N",
        "2026-03-01 12:00:00.12 GMT0",
        "2026-03-01 12:00:00Z",
        "2026-03-01 12:00",
        "T12:00:00",
        "12:00:00.5",
        "-2026-03-01 12:00:00",
        "+2026-03-01 12:00:00 UTC",
        "2026-03-01 12:00:00.1234567000",
        "2026-11-01 01:30:00",
    ],
    "decimal(10, 2)": [
        "12.30",
        "-0.5",
        ".5",
        "1.",
        "12.3000",
        "12.345",
        "1.25e1",
        "12500e-4",
        "0e-5",
        "0.000e9",
        "+7",
        "99999999.99",
        "99999999.995",
        "1e9",
    ],
    "double": [
        "1.5",
        "-0",
        "0.000e5",
        "1e400",
        "1e-400",
        "5e-324",
        "1d",
        "2F",
        "0x1p3",
        "NaN",
        "-Infinity",
        "inf",
        "1e5",
        ".5",
        "5.",
        "1e",
        "1234567.890123",
        "0e",
        "0d",
    ],
    "float": ["1.5", "1e39", "1e-50", "3.4028236e38", "0.1", "1f", "Infinity", "-0.0"],
}
MARKS = "0159+-.:TZeEdDfFxXiINn \t\n\r\u0085\u2028\u0661,_"


def texts(declared: str) -> list[str]:
    """The seeds, and each with one to three characters put in, taken out or replaced; the same ones in every run."""
    chance = random.Random(declared)
    found = list(SEEDS[declared])
    for _ in range(3_000):
        text = chance.choice(SEEDS[declared])
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice((chance.choice(MARKS), "")) + text[at + chance.randint(0, 1) :]
        found.append(text)
    return found


def in_full(text: Column, declared: str, zone: str) -> Column:
    """What the type's text means, by all its rules for every value."""
    match declared:
        case "timestamptz":
            zoned = F.when(text.rlike(f"{_WALL_CLOCK}$"), F.concat(text, F.lit(f" {zone}")))
            return zoned.when(text.rlike(f"{_WALL_CLOCK}{_ZONE}$"), text).try_cast("timestamp")
        case "decimal(10, 2)":
            value = text.try_cast(declared)
            plain = text.rlike(r"^\s*[+-]?\d*\.?\d{0,2}0*\s*$")
            whole, fraction, exponent = (F.regexp_extract(text, _SCIENTIFIC, group) for group in (1, 2, 3))
            digits = F.concat(whole, fraction)
            zeros = F.length(digits) - F.length(F.regexp_replace(digits, "0+$", ""))
            decimals = F.length(fraction) - exponent.try_cast("int") - zeros
            exact = (decimals <= 2) | (value == 0) & (zeros == F.length(digits))
            return F.when(plain | text.rlike(_SCIENTIFIC) & exact, value)
    value = F.when(~text.rlike(r"[0-9.][dDfF]\s*$|[xX]"), text).try_cast(declared)
    infinite = F.abs(value) == F.lit("infinity").cast(declared)
    return (
        F.when(infinite, F.when(text.rlike("[iI]"), value))
        .when(value == 0, F.when(~text.rlike("^[^eE]*[1-9]"), value))
        .otherwise(value)
    )


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("session_zone", ["UTC", "America/New_York", "Europe/Berlin"])
def test_quick_and_full_agree(spark: SparkSession, session_zone: str, zone: str) -> None:
    session = own_session(spark)
    session.conf.set("spark.sql.session.timeZone", session_zone)
    for declared in SEEDS:
        rows = session.createDataFrame([(text,) for text in texts(declared)], "t string").select(
            "t",
            exactly(F.col("t"), StringType(), declared, zone).alias("quick"),
            in_full(F.col("t"), declared, zone).alias("full"),
        )
        # As texts too: -0 equals 0.
        same = F.col("quick").eqNullSafe(F.col("full")) & F.expr("string(quick) <=> string(full)")
        assert rows.filter(F.col("full").isNotNull()).count() > 100
        assert rows.filter(~same).collect() == []

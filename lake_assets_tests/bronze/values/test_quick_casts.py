"""The oracle's quick ways for what is usual give what its full ones give, for texts near the border of both."""

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from lake_assets.local_times import LocalClock
from lake_assets_tests.helpers.files.spellings import texts
from lake_assets_tests.helpers.lakes.small_lakes import own_session
from lake_assets_tests.helpers.oracles.spark_casts import _SCIENTIFIC, _WALL_CLOCK, _ZONE, exactly


def in_full(text: Column, declared: str) -> Column:
    """What the type's text means, by all its rules for every value."""
    match declared:
        case "timestamptz":
            zoned = F.when(text.rlike(f"{_WALL_CLOCK}$"), F.concat(text, F.lit(" UTC")))
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
    value = F.when(~text.rlike(r"[0-9.][dDfF][\x00-\x20]*$|[xX]"), text).try_cast(declared)
    infinite = F.abs(value) == F.lit("infinity").cast(declared)
    return (
        F.when(infinite, F.when(text.rlike("[iI]"), value))
        .when(value == 0, F.when(~text.rlike("^[^eE]*[1-9]"), value))
        .otherwise(value)
    )


@pytest.mark.spark
@pytest.mark.parametrize("session_zone", ["America/New_York", pytest.param("UTC", marks=pytest.mark.long)])
def test_quick_and_full_agree(spark: SparkSession, session_zone: str) -> None:
    session = own_session(spark)
    session.conf.set("spark.sql.session.timeZone", session_zone)
    for declared in ("timestamptz", "decimal(10, 2)", "double", "float"):
        rows = session.createDataFrame([(text,) for text in texts(declared)], "t string").select(
            "t",
            exactly(F.col("t"), StringType(), declared, LocalClock()).alias("quick"),
            in_full(F.col("t"), declared).alias("full"),
        )
        # As texts too: -0 equals 0.
        same = F.col("quick").eqNullSafe(F.col("full")) & F.expr("string(quick) <=> string(full)")
        assert rows.filter(F.col("full").isNotNull()).count() > 100
        assert rows.filter(~same).collect() == []

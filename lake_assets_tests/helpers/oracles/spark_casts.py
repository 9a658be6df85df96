"""One value of a DMS file as a value of its declared type, by Spark: exactly, or NULL. The oracle of conversions.

Here: texts, values of Spark's types, and Parquet's own types. Not here: the lake's own conversions, which use none of
it (`lake_assets/bronze/values/`).

Spark's own casts are too lenient: they round a decimal, turn a number that is too large into infinity, drop a date's
time and a timestamp's zone, and read `10:00:00` as ten o'clock today. Nothing here depends on the session's time zone.
"""

import re
from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from lake_assets.bronze.files.parquet_columns import DICTIONARY, TIMESTAMP, ParquetColumn
from lake_assets.bronze.reader.parquet_types import read_schema
from lake_assets.local_times import CYCLE, LAST_CYCLE, LocalClock
from lake_assets.spark.types import spark_type

_DAY = r"[+-]?\d{4,6}-\d{1,2}-\d{1,2}"
# Iceberg stores microseconds: further digits must be zeros.
_FRACTION = r"(\.\d{0,6}0*)?"
_WALL_CLOCK = rf"^{_DAY}[ T]\d{{1,2}}:\d{{1,2}}:\d{{1,2}}{_FRACTION}"
_ZONE = r" ?(Z|UTC|[+-]\d{2}(:?\d{2})?)"
_MIDNIGHT = r"([ T]00:00:00(\.0*)?)?"
_TIME_OF_DAY = rf"^([01]\d|2[0-3]):[0-5]\d:[0-5]\d{_FRACTION}$"
_UUID = "^" + "-".join(f"[0-9A-Fa-f]{{{digits}}}" for digits in (8, 4, 4, 4, 12)) + r"\z"
_SCIENTIFIC = r"^\s*[+-]?(\d*)\.?(\d*)[eE]([+-]?\d{1,4})\s*$"

_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")
"""The spellings of source engines and DMS. Not `yes` or `Y`: those are texts of an application."""

_NUMBERS = frozenset({"boolean", "int", "long", "float", "double", "decimal", "string"})
_DAYS = frozenset({"date", "timestamp", "timestamptz", "string"})
_ESCAPE = r'\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})'
_STRING = r'"[^"\\\x00-\x1F]*+"'
_NO_LIMIT = str(2**31 - 1)
STRICT = {
    "allowComments": "false",
    "allowUnquotedFieldNames": "false",
    "allowSingleQuotes": "false",
    "allowNumericLeadingZeros": "false",
    "allowNonNumericNumbers": "false",
    "allowBackslashEscapingAnyCharacter": "false",
    "allowUnquotedControlChars": "false",
    # Spark's own limits are 1,000 digits, 1,000 nested values and 20 million characters.
    "maxNumLen": _NO_LIMIT,
    "maxNestingDepth": _NO_LIMIT,
    "maxStringLen": _NO_LIMIT,
}
"""Options with which Spark's JSON parser takes only JSON, of any size. A name of more than 50,000 characters stays
refused, which no option changes."""
_TIME_UNITS = {"time32[ms]": 1_000, "time64[us]": 1_000_000, "time64[ns]": 1_000_000_000}
"""The column's units per second."""
_SECONDS = 86_400


def is_json(text: Column) -> Column:
    """Whether the text is one JSON value; false for NULL.

    An escape becomes a letter, which is valid in a string only, and a string an empty one; a broken string stays as it
    is. The parser stops at the end of the outer object and ignores the rest. So the last member shows that it came to
    the end: no text can close the outer object and have that name, which has a letter. The text is once the value of a
    member and once alone in an array: `1,"":2` can only be a part of an object, and `1,2` only of an array.
    """
    plain = F.regexp_replace(F.regexp_replace(text, _ESCAPE, "_"), _STRING, '""')
    twice = F.concat(F.lit('{"":'), plain, F.lit(',"":['), plain, F.lit('],"whole":true}'))
    return F.from_json(twice, "whole boolean", STRICT)["whole"].isNotNull()


def exactly(value: Column, found: DataType, declared: str, clock: LocalClock) -> Column:
    """`value`, of Spark's type `found`, as the type `declared` of lake.yaml; NULL where that would change it.

    A `timestamptz` without a zone is a local time of `clock`. An instant declared as a `timestamp` is its UTC wall
    clock: DMS marks every Parquet timestamp as UTC, whatever the source's column is.
    """
    if isinstance(found, StringType):
        return value if declared == "string" else _from_text(value, declared, clock)
    if isinstance(found, TimestampType):
        if declared == "timestamptz":
            return value
        value, found = utc_wall_clock(value), TimestampNTZType()
    target = spark_type(declared)
    if isinstance(found, BinaryType) and declared in ("uuid", "string"):
        return _uuid_of_bytes(value) if declared == "uuid" else _text_of_bytes(value)
    # Spark's casts between other families fail, or reinterpret the value: a number as a timestamp counts seconds.
    if declared.split("(")[0] not in _holders(found):
        return F.lit(None).cast(target)
    if declared == "timestamptz":
        return _local(_as_utc(value.cast("timestamp_ntz")), clock)
    if found.simpleString() == target.replace(" ", ""):
        return value
    converted = value.try_cast(target)
    return F.when(converted.try_cast(found).eqNullSafe(value), converted)


def instant(text: Column, clock: LocalClock) -> Column:
    """A timestamp's text as an instant, by the zone in the text; without one, as a local time of `clock`."""
    unzoned = text.rlike(f"{_WALL_CLOCK}$")
    zoned = F.when(text.rlike(f"{_WALL_CLOCK}{_ZONE}$"), text).try_cast("timestamp")
    return F.when(unzoned, _local(F.concat(text, F.lit("Z")).try_cast("timestamp"), clock)).otherwise(zoned)


def _local(shown: Column, clock: LocalClock) -> Column:
    """The instant that a local time of `clock` is, NULL if it is none. `shown`: the instant at which a clock of UTC
    shows the same. Spark's own conversion would take the next hour for a time that does not exist, and the first one
    for a time that exists twice."""
    starts, offsets = zip(*clock.offsets(), strict=True)
    if len(starts) == 1:
        return _earlier(shown, F.lit(offsets[0])) if offsets[0] else shown
    known = _numbers(starts)
    steps = [F.lit(1 << bit) for bit in reversed(range(len(starts).bit_length()))]

    def offset_at(seconds: Column) -> Column:
        # A binary search: F.get is NULL beyond the last span.
        place = F.aggregate(
            F.array(*steps),
            F.lit(0),
            lambda at, step: F.when(F.get(known, at + step) <= seconds, at + step).otherwise(at),
        )
        return F.get(_numbers(offsets), place)

    def at(shown: Column) -> Column:
        seconds = F.unix_seconds(shown)
        later = F.lit(LAST_CYCLE) + F.pmod(seconds - LAST_CYCLE, F.lit(CYCLE))
        return _earlier(shown, _let(F.when(seconds < LAST_CYCLE, seconds).otherwise(later), offset_at))

    return _let(shown, at)


def _earlier(at: Column, seconds: Column) -> Column:
    """NULL before the first instant that Spark has, and after the last."""
    return F.timestamp_micros(F.try_subtract(F.unix_micros(at), seconds * 1_000_000))


def _let(value: Column, result: Callable[[Column], Column]) -> Column:
    """`result` of the value, which Spark computes once however often the result uses it."""
    return F.get(F.transform(F.array(value), result), F.lit(0))


def _numbers(values: Sequence[int | None]) -> Column:
    """An array of the numbers. One text is a smaller plan than a literal for each; Spark converts it when planning."""
    texts = ",".join("" if value is None else str(value) for value in values)
    return F.split(F.lit(texts), ",").try_cast("array<bigint>")


def _as_utc(wall: Column) -> Column:
    """The instant at which a clock of UTC shows a `timestamp_ntz`. A cast would use the session's zone."""
    return F.timestamp_micros(F.timestamp_diff("MICROSECOND", _epoch(), wall))


def utc_wall_clock(at: Column) -> Column:
    """An instant as its wall-clock time in UTC, a `timestamp_ntz`. A cast would use the session's zone."""
    return after_epoch(F.unix_micros(at))


def after_epoch(micros: Column) -> Column:
    """Microseconds since 1970 as a `timestamp_ntz`."""
    return F.timestamp_add("MICROSECOND", micros, _epoch())


def _epoch() -> Column:
    return F.lit("1970-01-01 00:00:00").cast("timestamp_ntz")


def _holders(found: DataType) -> frozenset[str]:
    if isinstance(found, NumericType | BooleanType):
        return _NUMBERS
    if isinstance(found, DateType | TimestampNTZType):
        return _DAYS
    return frozenset({"binary"}) if isinstance(found, BinaryType) else frozenset()


def _from_text(text: Column, declared: str, clock: LocalClock) -> Column:
    target = spark_type(declared)
    match declared.split("(")[0]:
        case "timestamptz":
            return instant(text, clock)
        case "timestamp":
            return F.when(text.rlike(f"{_WALL_CLOCK}$"), text).try_cast(target)
        case "date":
            return F.when(text.rlike(f"^{_DAY}{_MIDNIGHT}$"), text).try_cast(target)
        case "time":
            return F.when(text.rlike(_TIME_OF_DAY), _canonical_time(text))
        case "binary":
            # DMS writes binary columns to CSV as hexadecimal digits, two a byte.
            return F.try_to_binary(F.when(text.rlike("^([0-9A-Fa-f]{2})*$"), text), F.lit("hex"))
        case "boolean":
            lower = F.lower(text)
            return F.when(lower.isin(*_TRUE), F.lit(True)).when(lower.isin(*_FALSE), F.lit(False))
        case "uuid":
            return F.when(text.rlike(_UUID), F.lower(text))
        case "json":
            return F.when(is_json(text), text)
        case "float" | "double":
            return _real(text, target)
        case "decimal":
            return _decimal(text, target, int(re.findall(r"\d+", declared)[1]))
    return text.try_cast(target)


def _canonical_time(text: Column) -> Column:
    """`HH:MM:SS`, with six decimals if any is not zero: one text for each time, and texts sort by time."""
    decimals = F.regexp_extract(text, r"\.(\d*[1-9])0*$", 1)
    fraction = F.when(decimals != "", F.concat(F.lit("."), F.rpad(decimals, 6, "0"))).otherwise("")
    return F.concat(F.substring(text, 1, 8), fraction)


def _text_of_bytes(value: Column) -> Column:
    """Some writers do not mark texts as such in Parquet."""
    text = value.cast("string")
    return F.when(F.is_valid_utf8(text), text)


def _uuid_of_bytes(value: Column) -> Column:
    groups = r"^(.{8})(.{4})(.{4})(.{4})(.{12})$"
    text = F.regexp_replace(F.lower(F.hex(value)), groups, r"$1-$2-$3-$4-$5")
    return F.when(F.octet_length(value) == 16, text)


def _real(text: Column, target: str) -> Column:
    """The nearest value of the type; NULL if that would be infinity or zero for another number."""
    # Java reads `1d` and `0x1p3` as numbers; to a source they are texts.
    value = F.when(~text.rlike(r"[0-9.][dDfF][\x00-\x20]*$|[xX]"), text).try_cast(target)
    infinity = F.lit("infinity").cast(target)
    exact = (
        F.when(F.abs(value) == infinity, F.when(text.rlike("[iI]"), value))
        .when(value == 0, F.when(~text.rlike("^[^eE]*[1-9]"), value))
        .otherwise(value)
    )
    # Nearly every value has digits only and is neither too large nor too small: then the cast alone is right.
    plain = text.try_cast(target)
    usual = ~text.rlike("[^-+.0-9eE]") & (plain != 0) & (F.abs(plain) != infinity)
    return F.when(usual, plain).otherwise(exact)


def _decimal(text: Column, target: str, scale: int) -> Column:
    value = text.try_cast(target)
    plain = text.rlike(rf"^\s*[+-]?\d*\.?\d{{0,{scale}}}0*\s*$")
    whole, fraction, exponent = (F.regexp_extract(text, _SCIENTIFIC, group) for group in (1, 2, 3))
    digits = F.concat(whole, fraction)
    zeros = F.length(digits) - F.length(F.regexp_replace(digits, "0+$", ""))
    decimals = F.length(fraction) - exponent.try_cast("int") - zeros
    exact = (decimals <= scale) | (value == 0) & (zeros == F.length(digits))
    # A CASE with three branches: for an OR, Spark would evaluate each repeated subexpression for every value.
    return F.when(plain, value).when(text.rlike(_SCIENTIFIC), F.when(exact, value))


def read_type(arrow: str) -> DataType:
    """The Spark type to read a column of this Arrow type with. The type must have a `spark_name`."""
    return read_schema([ParquetColumn("value", arrow)]).fields[0].dataType


def from_parquet(value: Column, arrow: str, declared: str, clock: LocalClock) -> Column:
    """`value`, read with the `read_type` of `arrow`, as the type `declared`, like `exactly`; NULL where that would
    change it."""
    if (match := DICTIONARY.fullmatch(arrow)) is not None:
        return from_parquet(value, match[1], declared, clock)
    if arrow == "null":
        return exactly(value.cast("string"), StringType(), declared, clock)
    if arrow in _TIME_UNITS:
        return exactly(_time_text(value.cast("bigint"), arrow), StringType(), declared, clock)
    if (match := TIMESTAMP.fullmatch(arrow)) is not None and match[1] == "ns":
        return _from_nanos(value, adjusted=match[2] is not None, declared=declared, clock=clock)
    return exactly(value, read_type(arrow), declared, clock)


def _micros(nanos: Column) -> Column:
    """Rounded down. Computed in decimals: a division of integers uses doubles, which lose the last digits."""
    return F.floor(nanos.cast("decimal(20, 0)") / 1000).cast("bigint")


def _whole_micros(nanos: Column) -> Column:
    return F.pmod(nanos, F.lit(1000)) == 0


def _time_text(value: Column, arrow: str) -> Column:
    micros, exact = value, F.lit(True)
    if arrow == "time32[ms]":
        micros = value * 1000
    elif arrow == "time64[ns]":
        micros, exact = _micros(value), _whole_micros(value)
    in_the_day = exact & (value >= 0) & (value < _SECONDS * _TIME_UNITS[arrow])
    return F.when(in_the_day, F.substring(after_epoch(micros).cast("string"), 12, 15))


def _from_nanos(value: Column, *, adjusted: bool, declared: str, clock: LocalClock) -> Column:
    if adjusted:
        converted = exactly(F.timestamp_micros(_micros(value)), TimestampType(), declared, clock)
    else:
        converted = exactly(after_epoch(_micros(value)), TimestampNTZType(), declared, clock)
    return F.when(_whole_micros(value), converted)

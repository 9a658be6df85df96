"""Values of a Parquet file as values of their declared type, exactly, by Arrow and without Spark.

Here: the twin of `from_parquet` (`bronze/reader/parquet_types.py`), for every Arrow type that has a `spark_name`. Not
here: the spellings of texts (`text_values.py`); INT96, which Arrow reads as a timestamp without a zone.
"""

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from lake_assets.bronze.values.image_types import image_type
from lake_assets.bronze.values.text_values import instants, values_of
from lake_assets.local_times import LocalClock

_EPOCH, _CYCLE_YEARS, _CYCLE_DAYS = np.datetime64("1970-01-01"), 400, 146_097
_SECOND, _DAY = 1_000_000, 86_400_000_000
_PER_UNIT = {"s": _SECOND, "ms": 1_000, "us": 1, "day": _DAY}
"""Microseconds."""
_PRECISE = Context(prec=100)
_SINGLE, _DOUBLE, _UINT64 = pa.float32(), pa.float64(), pa.decimal128(20, 0)
Number = bool | int | float | Decimal


def converted(values: pa.ChunkedArray, declared: str, clock: LocalClock) -> pa.ChunkedArray:
    """The values, of `image_type`; NULL where that would change one. A time without a zone is a local time of `clock`
    if it is declared as a `timestamptz`. The text of a real has as few digits as distinguish it from others."""
    found, kind = values.type, image_type(declared)
    if kinds.is_dictionary(found):
        words = values.unify_dictionaries().combine_chunks()
        different = converted(pa.chunked_array([words.dictionary]), declared, clock)
        return pa.chunked_array([different.combine_chunks().take(words.indices)])
    if isinstance(found, pa.BaseExtensionType):
        return converted(values.cast(found.storage_type), declared, clock)
    if kinds.is_time(found):
        values = pa.chunked_array([_times_of_day(values.combine_chunks())])
    if (plain := _plain(values.type)) == pa.string():
        return values_of(values.cast(plain), declared, clock)
    one = values.cast(plain).combine_chunks()
    if plain == kind:
        result = one
    elif kinds.is_temporal(plain):
        result = _from_time(one, declared, clock)
    elif plain == pa.binary():
        result = _from_bytes(one, declared)
    else:
        result = _from_numbers(one, declared)
    return pa.chunked_array([pa.nulls(len(one), kind) if result is None else result])


def _plain(found: pa.DataType) -> pa.DataType:
    """Of types with the same values, one."""
    if kinds.is_decimal(found):
        return pa.decimal128(found.precision, found.scale)
    if kinds.is_large_string(found) or kinds.is_string_view(found):
        return pa.string()
    is_binary = kinds.is_large_binary(found) or kinds.is_binary_view(found)
    return pa.binary() if is_binary or kinds.is_fixed_size_binary(found) else found


def _each(values: pa.Array, value: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """Each different value by itself."""
    different = values.dictionary_encode()
    found = [None if one is None else value(one) for one in different.dictionary.to_pylist()]
    return pa.array(found, kind).take(different.indices)


def _micros(values: pa.Array) -> pa.Array:
    """Since 1970, or since midnight; NULL for a time between two microseconds, or too far away for 64 bits."""
    unit = "day" if kinds.is_date(values.type) else values.type.unit
    bits = values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64())
    numbers = np.asarray(bits.fill_null(0), np.int64)
    if unit == "ns":
        found, fits = numbers // 1_000, numbers % 1_000 == 0
    else:
        per = _PER_UNIT[unit]
        fits = (numbers >= -(2**63 // per)) & (numbers <= (2**63 - 1) // per)
        found = np.where(fits, numbers, 0) * per
    return pa.array(found, mask=~(fits & np.asarray(values.is_valid())))


def _times_of_day(values: pa.Array) -> pa.Array:
    return _each(_micros(values), lambda at: _clock_text(at) if 0 <= at < _DAY else None, pa.string())


def _from_time(values: pa.Array, declared: str, clock: LocalClock) -> pa.Array | None:
    is_date, kind = kinds.is_date(values.type), image_type(declared)
    if is_date and declared == "string":
        return _each(values.cast(pa.int32()), _day_text, kind)
    micros = _micros(values)
    match declared:
        case "timestamp":
            return micros.cast(kind)
        case "timestamptz":
            is_instant = not is_date and values.type.tz is not None
            return micros.cast(kind) if is_instant else _local(micros.cast(kind), clock)
        case "date":
            numbers = np.asarray(micros.fill_null(0))
            is_day = (numbers % _DAY == 0) & np.asarray(micros.is_valid())
            return pa.array((numbers // _DAY).astype(np.int32), mask=~is_day).cast(kind)
        case "string":
            return _each(micros, lambda at: f"{_day_text(at // _DAY)} {_clock_text(at % _DAY)}", kind)
    return None


def _local(shown: pa.Array, clock: LocalClock) -> pa.Array:
    """As `instants`, but NULL for an instant that is too far away for 64 bits: it has the other sign."""
    found = instants(shown, clock)
    before, after = (np.asarray(times.cast(pa.int64()).fill_null(0)) for times in (shown, found))
    is_over = (before ^ after < 0) & ((before > 2**62) | (before < -(2**62)))
    return pc.if_else(pa.array(is_over), pa.scalar(None, found.type), found)


def _day_text(days: int) -> str:
    # The calendar is the same every 400 years.
    cycles, rest = divmod(days, _CYCLE_DAYS)
    year, day = str(_EPOCH + rest).split("-", 1)
    number = int(year) + cycles * _CYCLE_YEARS
    return f"{'-' if number < 0 else '+' if number > 9999 else ''}{abs(number):04}-{day}"


def _clock_text(micros: int) -> str:
    seconds, fraction = divmod(micros, _SECOND)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def _from_bytes(values: pa.Array, declared: str) -> pa.Array | None:
    if declared == "uuid":
        return _each(values, lambda one: str(UUID(bytes=one)) if len(one) == 16 else None, pa.string())
    return _each(values, _utf8, pa.string()) if declared == "string" else None


def _utf8(value: bytes) -> str | None:
    text = value.decode(errors="ignore")
    return text if text.encode() == value else None


def _from_numbers(values: pa.Array, declared: str) -> pa.Array | None:
    kind, name = image_type(declared), declared.split("(")[0]
    if kinds.is_null(values.type) or name not in _FROM_NUMBER:
        return None
    try:
        if (result := _at_once(values, kind)) is not None:
            return result
    except pa.ArrowInvalid:
        pass  # the cast would change a value
    # Spark takes it for a decimal, and compares it with a real by the real's text.
    found = values.cast(_UINT64) if kinds.is_uint64(values.type) else values
    return _each(found, lambda one: _FROM_NUMBER[name](one, found.type, kind), kind)


def _at_once(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """By a cast that refuses to change a value. None if Arrow has none."""
    found = values.type
    if kinds.is_floating(found) and kinds.is_floating(kind):
        nearest = values.cast(kind, safe=False)
        is_same = pc.or_(pc.equal(nearest.cast(found), values), pc.is_nan(values))
        return pc.if_else(is_same, nearest, pa.scalar(None, kind))
    if kinds.is_decimal(kind) and (kinds.is_integer(found) or kinds.is_decimal(found)):
        decimals = values.cast(_UINT64) if kinds.is_integer(found) else values
        # Arrow does not notice every overflow of 128 bits.
        most = max(abs(end.as_py() or 0) for end in pc.min_max(decimals).values())
        return decimals.cast(kind) if most < 10 ** (kind.precision - kind.scale) else None
    is_whole = kinds.is_integer(kind) and (kinds.is_integer(found) or kinds.is_decimal(found))
    return values.cast(kind) if is_whole or (kinds.is_integer(found) and kinds.is_floating(kind)) else None


def _text(number: Number, found: pa.DataType, kind: pa.DataType) -> str:
    """As Java writes it from version 19 on; older ones have a digit too many for some reals."""
    if not isinstance(number, float):
        return f"{number:f}" if isinstance(number, Decimal) else str(number).lower()
    if not math.isfinite(number):
        return str(number).replace("nan", "NaN").replace("inf", "Infinity")
    shortest = Decimal(np.format_float_scientific(np.float32(number)) if found == _SINGLE else repr(number))
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        plain = f"{shortest:f}"
        return plain if "." in plain else f"{plain}.0"
    sign, digits, _ = shortest.as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    return f"{'-' * sign}{text[0]}.{text[1:] or '0'}E{shortest.adjusted()}"


def _whole(number: Number, found: pa.DataType, kind: pa.DataType) -> int | None:
    end = 2 ** (kind.bit_width - 1)
    return int(number) if -end <= number < end and int(number) == number else None


def _nearest(number: Number, kind: pa.DataType) -> float:
    if kind == _DOUBLE:
        return float(number)
    # Not by a double: rounded twice, a value may become the neighbour of the nearest one.
    value: float = pa.scalar(str(+number)).cast(kind).as_py()
    return value


def _real(number: Number, found: pa.DataType, kind: pa.DataType) -> float | None:
    value = _nearest(number, kind)
    back = _rounded(value, found) if kinds.is_decimal(found) else value
    return value if back == number else None


def _decimal(number: Number, found: pa.DataType, kind: pa.DataType) -> Decimal | None:
    value = _rounded(number, kind)
    back = _nearest(value, found) if kinds.is_floating(found) and value is not None else value
    return value if back == number else None


def _rounded(number: Number, kind: pa.DataType) -> Decimal | None:
    """As a decimal, None if it does not fit. Of a real, the decimal that Java writes."""
    if not abs(number) < 10 ** (kind.precision - kind.scale):
        return None
    if isinstance(number, float):
        number = Decimal(repr(number))
    return Decimal(number).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _PRECISE)


def _boolean(number: Number, found: pa.DataType, kind: pa.DataType) -> bool | None:
    return bool(number) if number in (0, 1) else None


_FROM_NUMBER: dict[str, Callable[[Any, pa.DataType, pa.DataType], Any]] = {
    "boolean": _boolean,
    "int": _whole,
    "long": _whole,
    "float": _real,
    "double": _real,
    "decimal": _decimal,
    "string": _text,
}
"""The functions from a value, its type and the declared one, by the latter."""

"""One text of a DMS file as a value of its declared type: exactly, or None. Pure.

Here: what each spelling means, decided text by text. Slow, so only for texts that Arrow does not read by itself
(`text_values.py`). Not here: null tokens, rows. Values that a Python date cannot hold are numbers: days and
microseconds since 1970.
"""

import re
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal, localcontext
from operator import itemgetter
from typing import Any

import pyarrow as pa

from lake_assets.bronze.files.json_lines import is_json
from lake_assets.local_times import LocalClock, in_force

_DAY = r"(?P<year>[+-]?[0-9]{4,6})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
_CLOCK = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})(\.(?P<fraction>[0-9]{0,6})0*)?"
_ZONE = r"(?: ?(?P<zone>Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?))"
_END = r"(?:\r?\n|\r)?\Z"
"""A line end behind a value is no part of it."""
_DATE = re.compile(rf"{_DAY}(?:[ T]00:00:00(?:\.0*)?)?{_END}")
_TIMESTAMP = re.compile(rf"{_DAY}[ T]{_CLOCK}{_END}")
_ZONED = re.compile(rf"{_DAY}[ T]{_CLOCK}{_ZONE}{_END}")
_TIME = re.compile(
    rf"((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])(?:\.([0-9]{{0,6}})0*)?(?:{_END}|[\x85\u2028\u2029]\Z)"
)
_UUID = re.compile("-".join(f"[0-9a-f]{{{digits}}}" for digits in (8, 4, 4, 4, 12)))
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2})*")
_NUMBER = re.compile(
    # Possessive: a long text that is no number would else be tried from each of its digits.
    r"[+-]?(?P<whole>[0-9]*+)(?:\.(?P<fraction>[0-9]*+))?(?:[eE](?P<exponent>[+-]?[0-9]++))?"
)
_NO_NUMBER = re.compile(r"[+-]?(?:inf(?:inity)?|nan)", re.IGNORECASE)
_BLANK = " \t\n\x0b\f\r"
_CONTROL = "".join(map(chr, range(0x21)))
_CONTROL_AND_DELETE = _CONTROL + "\x7f"
"""Characters around a decimal, a float and an integer that are no part of it."""
_EPOCH, _CYCLE_YEARS, _CYCLE_DAYS, _A_DAY = date(1970, 1, 1).toordinal(), 400, 146_097, 86_400
_SECOND = 1_000_000
_LONGS = range(-(2**63), 2**63)
_INTEGERS = {"int": range(-(2**31), 2**31), "long": _LONGS}
_MOST_DIGITS = len(str(2**63))
_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
"""The spellings of source engines and DMS. Not `yes` or `Y`: those are texts of an application."""
_FARTHEST_ZONE = 18 * 3600
Offsets = Sequence[tuple[int, int | None]]
"""As `LocalClock.offsets`."""


def exact_value(declared: str, clock: LocalClock) -> Callable[[str], Any]:
    """The function from a text to its value, None for a text that is none. `date`: days since 1970; `timestamp` and
    `timestamptz`: microseconds since 1970; others: as Arrow takes them. Not for a `string`, which is its text. A
    `timestamptz` without a zone is a local time of `clock`."""
    kind = declared.split("(")[0]
    if kind in ("int", "long"):
        return lambda text: _integer(text, _INTEGERS[kind])
    if kind == "decimal":
        precision, scale = map(int, re.findall(r"\d+", declared))
        return lambda text: _decimal(text, precision, scale)
    if kind == "timestamptz":
        offsets = clock.offsets()
        return lambda text: _instant(text, offsets)
    return _FUNCTIONS[kind]


def _integer(text: str, values: range) -> int | None:
    text = text.strip(_CONTROL_AND_DELETE)
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal()):
        return None
    if len(digits.lstrip("0")) > _MOST_DIGITS:
        return None  # Python refuses numbers of more than 4,300 digits
    number = int(text)
    return number if number in values else None


def _decimal(text: str, precision: int, scale: int) -> Decimal | None:
    text = text.strip(_BLANK)
    found = _NUMBER.fullmatch(text)
    if found is None or not (found["whole"] or found["fraction"]):
        return None
    if len((found["exponent"] or "").lstrip("+-")) > 4:
        return None
    with localcontext(prec=len(text) + 10_000):
        try:
            value = Decimal(text)
            unscaled = value.scaleb(scale)
            fits = unscaled == unscaled.to_integral_value() and abs(unscaled) < 10**precision
        except ArithmeticError:
            return None
    # Arrow takes no zero with a large exponent.
    return (value or Decimal(0)) if fits else None


def _double(text: str) -> float | None:
    return _real(text, float)


def _float(text: str) -> float | None:
    # Not by a double: rounded twice, a value may become the neighbour of the nearest one.
    return _real(text, lambda digits: pa.scalar(digits.lstrip("+")).cast(pa.float32()).as_py())


def _real(text: str, parse: Callable[[str], Any]) -> float | None:
    """The nearest value of the type; None if that would be infinity or zero for another number."""
    text = text.strip(_CONTROL)
    if _NO_NUMBER.fullmatch(text):
        is_nan = text[-1] in "nN"
        return None if is_nan and text[0] in "+-" and text[1:] != "NaN" else float(text)
    found = _NUMBER.fullmatch(text)
    if found is None or not (found["whole"] or found["fraction"]):
        return None
    value: float = parse(text)
    is_zero = not (found["whole"] + (found["fraction"] or "")).strip("0")
    return None if abs(value) == float("inf") or (value == 0) != is_zero else value


def _boolean(text: str) -> bool | None:
    return _BOOLEANS.get(text.lower())


def _date(text: str) -> int | None:
    found = _DATE.fullmatch(text)
    return None if found is None else _days(found)


def _days(found: re.Match[str]) -> int | None:
    """Days since 1970 in the Gregorian calendar, which is the same every 400 years; None if it lacks the day."""
    year = int(found["year"])
    cycles = (year - 2000) // _CYCLE_YEARS
    try:
        day = date(year - cycles * _CYCLE_YEARS, int(found["month"]), int(found["day"]))
    except ValueError:
        return None
    return day.toordinal() - _EPOCH + cycles * _CYCLE_DAYS


def _timestamp(text: str) -> int | None:
    found = _TIMESTAMP.fullmatch(text)
    return None if found is None else _micros(found)


def _micros(found: re.Match[str]) -> int | None:
    days, hour, minute, second = _days(found), *map(int, found.group("hour", "minute", "second"))
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    fraction = int((found["fraction"] or "").ljust(6, "0"))
    return _long((days * _A_DAY + hour * 3600 + minute * 60 + second) * _SECOND + fraction)


def _instant(text: str, offsets: Offsets) -> int | None:
    """A timestamp's text as an instant, by the zone in the text; without one, as a local time of the clock that has the
    offsets."""
    if (found := _ZONED.fullmatch(text)) is not None:
        shown, offset = _micros(found), _zone(found["zone"])
    elif (found := _TIMESTAMP.fullmatch(text)) is not None:
        shown = _micros(found)
        offset = None if shown is None else in_force(offsets, shown // _SECOND, itemgetter(0))[1]
    else:
        return None
    return None if shown is None or offset is None else _long(shown - offset * _SECOND)


def _zone(text: str) -> int | None:
    """The seconds that clocks of the zone are ahead of UTC; None if no zone is."""
    if text in ("Z", "UTC"):
        return 0
    minutes = text[3:].removeprefix(":") or "0"
    seconds = int(text[1:3]) * 3600 + int(minutes) * 60
    if int(minutes) > 59 or seconds > _FARTHEST_ZONE:
        return None
    return -seconds if text[0] == "-" else seconds


def _long(number: int) -> int | None:
    return number if number in _LONGS else None


def _time(text: str) -> str | None:
    """`HH:MM:SS`, with six decimals if any is not zero: one text for each time, and texts sort by time."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    fraction = (found[2] or "").ljust(6, "0")
    return found[1] if fraction == "000000" else f"{found[1]}.{fraction}"


def _binary(text: str) -> bytes | None:
    # DMS writes binary columns to CSV as hexadecimal digits, two a byte.
    return bytes.fromhex(text) if _HEX.fullmatch(text) else None


def _uuid(text: str) -> str | None:
    lower = text.lower()
    return lower if _UUID.fullmatch(lower) else None


def _json(text: str) -> str | None:
    return text if is_json(text) else None


_FUNCTIONS: dict[str, Callable[[str], Any]] = {
    "boolean": _boolean,
    "float": _float,
    "double": _double,
    "date": _date,
    "timestamp": _timestamp,
    "time": _time,
    "binary": _binary,
    "uuid": _uuid,
    "json": _json,
}

"""Texts of a DMS file as values of their declared type, exactly, by Arrow and without Spark.

Nearly every file spells its values so that Arrow reads a whole column at once. Arrow accepts other spellings than
the lake does, and refuses some of its own, so a column with any other spelling goes text by text.
Here: both. Not here: what a single text means (`exact_values.py`), null tokens and empty fields (`bronze/decode/`).
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.bronze.values.exact_values import exact_value
from lake_assets.bronze.values.image_types import image_type
from lake_assets.local_times import CYCLE, LAST_CYCLE, LocalClock

_SHORTEST_TIME = len("2026-03-01 10:00:00")
"""Arrow also accepts a time without seconds."""
_MOST_DIGITS = 38
"""The most digits of a 128-bit decimal. Arrow does not notice that more digits overflow, not even those of an exponent
or a scale."""
_TIME_OF_DAY = r"^([01]\d|2[0-3]):[0-5]\d:[0-5]\d$"
_UUID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_MICROS, _SECOND = pa.timestamp("us"), 1_000_000


def values_of(texts: pa.ChunkedArray, declared: str, clock: LocalClock) -> pa.ChunkedArray:
    """The values, of `image_type`; NULL also for a text that is no value of the type. A `timestamptz` without a zone is
    a local time of `clock`."""
    if declared == "string":
        return texts
    try:
        values = _plain(texts, declared)
    except pa.ArrowInvalid:
        values = None
    if values is None:
        return _exact(texts, declared, clock)
    if declared == "timestamptz":
        values = pa.chunked_array([instants(values.combine_chunks(), clock)])
    return values


def instants(shown: pa.Array, clock: LocalClock) -> pa.Array:
    """The instants (UTC) at which `clock` shows these times; NULL where it takes no such time. `shown`: the instants
    at which a clock of UTC shows the same."""
    starts, offsets = zip(*clock.offsets(), strict=True)
    if offsets == (0,):
        return shown
    valid = np.asarray(shown.is_valid())
    micros = np.asarray(shown.cast(pa.int64()).fill_null(0))
    seconds = micros // _SECOND
    seconds = np.where(seconds < LAST_CYCLE, seconds, LAST_CYCLE + (seconds - LAST_CYCLE) % CYCLE)
    places = np.maximum(np.searchsorted(starts, seconds, "right") - 1, 0)
    known = np.array([offset is not None for offset in offsets])
    ahead = np.array([offset or 0 for offset in offsets], np.int64)
    found = pa.array(micros - ahead[places] * _SECOND, pa.int64(), mask=~(valid & known[places]))
    return found.cast(shown.type)


def _exact(texts: pa.ChunkedArray, declared: str, clock: LocalClock) -> pa.ChunkedArray:
    """Each different text by itself."""
    different = texts.combine_chunks().dictionary_encode()
    value, kind = exact_value(declared, clock), image_type(declared)
    found = [value(text) for text in different.dictionary.to_pylist()]
    counts = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    numbers = pa.int32() if pa.types.is_date(kind) else pa.int64()
    values = pa.array(found, numbers).cast(kind) if counts else pa.array(found, kind)
    return pa.chunked_array([values.take(different.indices)])


def _plain(texts: pa.ChunkedArray, declared: str) -> pa.ChunkedArray | None:
    """The texts as values of the type, a `timestamptz` as a time of UTC. None, or ArrowInvalid, for a spelling that has
    to be looked at."""
    kind = image_type(declared)
    match declared:
        case "json" | "binary":
            return None
        case "uuid":
            lower = pc.utf8_lower(texts)
            return lower if all_true(pc.match_substring_regex(lower, _UUID)) else None
        case "time":
            return texts if all_true(pc.match_substring_regex(texts, _TIME_OF_DAY)) else None
    if pa.types.is_integer(kind) and _have(texts, "xX"):
        return None  # Arrow accepts hexadecimal digits
    if pa.types.is_decimal(kind) and not _fit(texts, kind):
        return None
    if pa.types.is_timestamp(kind):
        shortest = pc.min(pc.binary_length(texts)).as_py()
        is_whole = shortest is None or shortest >= _SHORTEST_TIME
        return texts.cast(_MICROS).cast(kind) if is_whole else None
    values = texts.cast(kind)
    if pa.types.is_floating(kind):
        zeros = texts.filter(pc.equal(values, pa.scalar(0, kind)))
        if not all_true(pc.is_finite(values)) or any_true(pc.match_substring_regex(zeros, "^[^eE]*[1-9]")):
            return None  # too large or too small for the type, or no number
    return values


def _fit(texts: pa.ChunkedArray, kind: pa.Decimal128Type) -> bool:
    """Whether Arrow sees all digits of each decimal."""
    whole = kind.precision - kind.scale
    most = pc.max(pc.binary_length(texts)).as_py() or 0
    if most + kind.scale < _MOST_DIGITS and not _have(texts, "eE"):
        return True
    return all_true(
        pc.match_substring_regex(texts, rf"^[+-]?\d{{0,{whole}}}(\.\d{{0,{_MOST_DIGITS - whole}}})?$")
    )


def _have(texts: pa.ChunkedArray, letters: str) -> bool:
    """Whether one of the texts has one of the letters. A regular expression would take twice as long."""
    return any(any_true(pc.match_substring(texts, letter)) for letter in letters)


def all_match(texts: Any, pattern: str) -> bool:
    """Whether every text matches; no NULL does."""
    return not texts.null_count and all_true(pc.match_substring_regex(texts, pattern))


def all_true(facts: pa.ChunkedArray | pa.Array) -> bool:
    """Whether every fact is true, or unknown."""
    return bool(pc.all(facts, min_count=0).as_py())


def any_true(facts: Any) -> bool:
    """Whether a fact is true."""
    return bool(pc.any(facts, min_count=0).as_py())

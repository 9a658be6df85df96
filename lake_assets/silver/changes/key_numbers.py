"""Numbers that stand for keys.

Here: a hash, by which the events of many keys are cut into pieces, and numbers that differ for different keys. Not
here: the pieces (`keyed_events.py`). Pure.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_Hashes = NDArray[np.uint64]
_Numbers = NDArray[np.int64]
_Marks = NDArray[np.bool_]
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(32)
_MOST_CODES = 1 << 62
_NONE = np.zeros(0, np.uint64)
_ROWS_AT_ONCE = 1 << 16
"""Numbers for each byte of so many keys take little memory."""


def key_hashes(keys: pa.Table) -> _Hashes:
    """By row. The columns have no NULL."""
    begins = range(0, keys.num_rows, _ROWS_AT_ONCE)
    return np.concatenate([_NONE, *(_hashes(keys.slice(begin, _ROWS_AT_ONCE)) for begin in begins)])


def _hashes(keys: pa.Table) -> _Hashes:
    found = np.zeros(keys.num_rows, np.uint64)
    for column in keys.columns:
        values = column.combine_chunks()
        own = _of_numbers(values) if pa.types.is_integer(values.type) else _of_texts(values)
        found = _mixed(found * _FACTOR + own)
    return found


def _of_numbers(values: pa.Array) -> _Hashes:
    return _mixed(np.asarray(values.cast(pa.int64()), np.int64).view(np.uint64))


def _of_texts(values: pa.Array) -> _Hashes:
    """Of values of any type, by the bytes of their texts: the sum of these, each times a number for its place."""
    is_bytes = pa.types.is_binary(values.type) or pa.types.is_fixed_size_binary(values.type)
    texts = (values if is_bytes else values.cast(pa.string())).cast(pa.large_binary())
    _, offsets, content = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    octets = np.frombuffer(content or b"", np.uint8)[ends[0] : ends[-1]]
    lengths, ends = np.diff(ends), ends - ends[0]
    factors = np.cumprod(np.full(int(lengths.max(initial=0)), _FACTOR))
    places = np.arange(len(octets)) - np.repeat(ends[:-1], lengths)
    # Sums of the bytes before each text and after it, because a text may have none.
    sums = np.append(np.uint64(0), np.cumsum((octets + np.uint64(1)) * factors[places]))
    return _mixed(sums[ends[1:]] - sums[ends[:-1]])


def _mixed(numbers: _Hashes) -> _Hashes:
    spread = numbers * _FACTOR
    return spread ^ (spread >> _MIX)


def key_codes(keys: pa.Table, others: pa.Table | None = None) -> tuple[_Numbers, _Marks]:
    """A number for each of the keys, and whether it is among the `others`; all are if these are None."""
    if others is None:
        return _codes(keys), np.ones(keys.num_rows, bool)
    codes = _codes(pa.concat_tables([keys, others.select(keys.column_names).cast(keys.schema)]))
    own, those = np.split(codes, [keys.num_rows])
    return own, np.isin(own, those)


def _codes(keys: pa.Table) -> _Numbers:
    codes, most = np.zeros(keys.num_rows, np.int64), 1
    for column in keys.columns:
        values = column.combine_chunks()
        if keys.num_columns == 1 and pa.types.is_integer(values.type):
            return np.asarray(values, np.int64)
        encoded = values.dictionary_encode()
        number = max(1, len(encoded.dictionary))
        if most * number >= _MOST_CODES:
            _, codes = np.unique(codes, return_inverse=True)
            most = keys.num_rows
        codes = codes * number + np.asarray(encoded.indices, np.int64)
        most *= number
    return codes

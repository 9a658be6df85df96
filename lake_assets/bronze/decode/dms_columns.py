"""DMS's own columns: their names here, generated sequences, and whole numbers that differ.

Here: what the decoder, the look at files and the last changes share. Not here: their values
(`bronze/decode/changes.py`).
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lake_assets.errors import LakeError

OPERATION, COMMIT_TS, SEQUENCE = "_op", "_commit_ts", "_sequence"
"""Names of the columns that changes have beside the key, as in a change log."""
KEY, OLD_KEY = "_key_{place}", "_old_{place}"
"""Names of the key's columns in a file's changes, whatever the source calls them. If some changes move their key, the
changes also have columns for the old key, which are NULL in the others."""
SYNTHETIC_TAIL = "0" * 19
"""Ends the generated sequence of a change without one; in DMS's own sequences these digits are never all zero."""
SEQUENCE_DIGITS = 35
FIRST_SEQUENCE = "0" * SEQUENCE_DIGITS
"""Sorts before every change, as the rows of a full load do."""
_TIME_DIGITS = SEQUENCE_DIGITS - len(SYNTHETIC_TAIL)
_NEIGHBOURS = 8
"""If fewer than one in eight numbers of a range are keys, sorting the keys is faster than marking each number."""


class Unusable(Exception):
    """The rows have to be decoded, because one of them may be unusable."""


FAULTS = (Unusable, LakeError, pa.ArrowException, OSError, ValueError, KeyError, ArithmeticError)
"""What a look at a file without Spark may raise."""


def generated(times: pa.Array) -> pa.Array:
    """The sequences of changes without one: the digits of the commit time down to centiseconds, and zeros."""
    digits = pc.replace_substring(pc.strftime(times, "%Y%m%d%H%M%S"), ".", "")
    return pc.binary_join_element_wise(pc.utf8_slice_codeunits(digits, 0, _TIME_DIGITS), SYNTHETIC_TAIL, "")


def all_differ(keys: pa.ChunkedArray) -> bool:
    """Whether none of these whole numbers repeats."""
    parts = [np.asarray(chunk) for chunk in keys.chunks if len(chunk)]
    if _rise(parts):
        return True  # Most full loads are in the order of the key.
    numbers = np.concatenate(parts, dtype=np.int64)
    lowest, highest = int(numbers.min()), int(numbers.max())
    if highest - lowest < _NEIGHBOURS * len(numbers):
        seen = np.zeros(highest - lowest + 1, bool)
        seen[numbers - lowest] = True
        return int(np.count_nonzero(seen)) == len(numbers)
    numbers = np.sort(numbers)
    return not np.any(numbers[1:] == numbers[:-1])


def _rise(parts: Sequence[NDArray[np.int64]]) -> bool:
    """Whether each number is above the one before. Goes part by part, because joining the parts takes longer."""
    within = all(np.all(part[1:] > part[:-1]) for part in parts)
    return within and all(one[-1] < other[0] for one, other in pairwise(parts))

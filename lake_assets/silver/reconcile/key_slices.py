"""The keys of a slice: a range of the key's first column if that is of whole numbers, else a share of the key's hash.

Here: those as conditions. Not here: which slices are due (`cycle.py`). DataFrame API only.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

BUCKETS = 1024
"""A slice's keys are compared by this many checksums."""


@dataclass(frozen=True, slots=True)
class KeySlices:
    """The slices of a cycle. The first and the last range have no outer bound, so that every key is in a slice."""

    number: int
    bounds: tuple[int, ...] = ()
    """The first key of each slice but the first; empty for slices of the key's hash."""

    def contain(self, chosen: Collection[int], key: Sequence[Column]) -> Column:
        """Whether a key, by its columns, is in one of the slices."""
        if len(set(chosen)) == self.number:
            return F.lit(True)
        return reduce(or_, (self._contains(one, key) for one in sorted(set(chosen))))

    def of(self, chosen: Collection[int], key: Sequence[Column]) -> Column:
        """Which of the slices a key is in."""
        first, *others = sorted(set(chosen))
        found = F.when(self._contains(first, key), first)
        for one in others:
            found = found.when(self._contains(one, key), one)
        return found

    def _contains(self, one: int, key: Sequence[Column]) -> Column:
        if not self.bounds:
            return F.pmod(F.xxhash64(*key), F.lit(self.number)) == one
        first, last = self._range(one)
        above = F.lit(True) if first is None else key[0] >= first
        return above if last is None else above & (key[0] < last)

    def _range(self, one: int) -> tuple[int | None, int | None]:
        """The first key of the slice, and that of the next one."""
        return (None, *self.bounds)[one], (*self.bounds, None)[one]

    def name(self, one: int, column: str) -> str:
        """The slice for users, counted from 1."""
        text = f"slice {one + 1} of {self.number}"
        if self.number == 1:
            return "all keys"
        if not self.bounds:
            return f"{text} by the hash of the key"
        first, last = self._range(one)
        below = "" if last is None else f" below {last}"
        return f"{text}, {column}" + (below if first is None else f" from {first} on,{below}".rstrip(","))


def bucket(key: Sequence[Column]) -> Column:
    """The bucket of a key; not the hash of `KeySlices`, so that a slice's keys are in all buckets."""
    return F.pmod(F.xxhash64(F.lit("bucket"), *key), F.lit(BUCKETS))

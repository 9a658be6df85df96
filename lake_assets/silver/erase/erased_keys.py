"""The keys whose rows are erased: as a user writes them, as a file's contract reads them, and as silver has them.

Here: those three, and which decoded rows are of the keys. Not here: reading files (`found_rows.py`), changing a table
(`erased_rows.py`).
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.bronze.decode.changes import BEFORE, IMAGE, matched_columns
from lake_assets.bronze.values.exact_conversions import converted
from lake_assets.config import Column, TableConfig
from lake_assets.errors import LakeError
from lake_assets.local_times import LocalClock
from lake_assets.silver.changes.in_silver import masked_values
from lake_assets.silver.table.change_events import key_columns
from lake_assets.silver.table.targets import Target

Key = tuple[str, ...]
"""A text for each column of the key, spelled as in a CSV file."""


@dataclass(frozen=True, slots=True)
class ErasedKeys:
    """Keys of one source table."""

    columns: tuple[str, ...]
    """The columns of the key, by their present names."""
    keys: tuple[Key, ...]

    @classmethod
    def of(cls, target: Target, given: Iterable[str]) -> "ErasedKeys":
        """The keys of a command: each the text of a value; of a key of several columns, a CSV record of them. Raises
        LakeError for a table without a key, and for a text that is no value of its column."""
        if not target.key:
            raise LakeError(
                f"{target.table} has no primary_key, so that no key names its rows: nothing can be erased from it."
            )
        several = len(target.key) > 1
        keys = tuple(dict.fromkeys(tuple(next(csv.reader([text]))) if several else (text,) for text in given))
        for key in keys:
            if len(key) != len(target.key):
                names = ",".join(target.key)
                raise LakeError(
                    f"{','.join(key)}: the key of {target.table} is {names}: name a value of each."
                )
        found = cls(target.key, keys)
        for place, (column, values) in enumerate(zip(_columns(target), found._silver(target), strict=True)):
            if values.null_count:
                wrong = keys[pc.index(values.is_null(), True).as_py()][place]
                raise LakeError(f"{wrong}: {target.table} has the key {column.name}, a {column.type}.")
        return found

    def _silver(self, target: Target) -> list[pa.ChunkedArray]:
        clock = target.config.clock(target.dms)
        return self._typed([(place, column.type) for place, column in enumerate(_columns(target))], clock)

    def _typed(self, columns: Sequence[tuple[int, str]], clock: LocalClock) -> list[pa.ChunkedArray]:
        """By place in the key, the values of a type."""
        return [
            converted(
                pa.chunked_array([pa.array([key[place] for key in self.keys], pa.string())]), declared, clock
            )
            for place, declared in columns
        ]

    def values(self, target: Target) -> tuple[Key, ...]:
        """A text for each value that does not depend on how the user has spelled it."""
        columns = (values.to_pylist() for values in self._silver(target))
        return tuple(dict.fromkeys(tuple(map(repr, key)) for key in zip(*columns, strict=True)))

    def in_silver(self, target: Target) -> pa.Table:
        """The keys in the columns `key_columns`, with the masks of the target."""
        found = {}
        for name, values, held in zip(target.key, self._silver(target), key_columns(target.key), strict=True):
            mask = target.config.mask.get(name)
            found[held] = values if mask is None else masked_values(values, mask, target.salt)
        return pa.table(found)

    def rows_of(
        self, changes: pa.Table, table: TableConfig, names: Mapping[str, str], clock: LocalClock
    ) -> "RowsOfKeys":
        """The decoded changes (`bronze/decode/changes.py`) of these keys. `table`: as of the contract of the changes;
        `names`: by its columns, their present names."""
        key = [column for column in table.columns if column.name in table.primary_key]
        places = [self.columns.index(names.get(column.name, column.name)) for column in key]
        wanted = self._typed([(at, each.type) for at, each in zip(places, key, strict=True)], clock)
        every = [column.name for column in table.columns]
        matched = [column.name for column in matched_columns(table)]
        after = [changes[IMAGE.format(place=every.index(column.name))] for column in key]
        before = [changes[BEFORE.format(place=matched.index(column.name))] for column in key]
        is_after, is_before = _are_among(after, wanted), _are_among(before, wanted)
        found = pc.or_(is_after, is_before)
        moved = pc.and_(found, pc.and_(_are_known(after), _are_known(before)))
        # A key from which, or to which, a row of these keys moved.
        others = [
            *_texts(after, pc.and_(moved, pc.invert(is_after)), places),
            *_texts(before, pc.and_(moved, pc.invert(is_before)), places),
        ]
        keyless = pc.and_(pc.is_valid(changes["_bad"]), pc.invert(_are_known(after)))
        return RowsOfKeys(found, frozenset(others), keyless)


@dataclass(frozen=True, slots=True)
class RowsOfKeys:
    """Which of some changes are of the keys."""

    found: pa.ChunkedArray
    """Whether a row is of one of the keys, now or before."""
    others: frozenset[Key]
    """Further keys of the same rows: those before or after a change of the key."""
    keyless: pa.ChunkedArray
    """Whether a row is bad and shows no key."""


def _columns(target: Target) -> list[Column]:
    by_name = {column.name: column for column in target.config.columns}
    return [by_name[name] for name in target.key]


def _are_among(values: Sequence[pa.ChunkedArray], wanted: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    each = (
        pc.is_in(column, value_set=keys.combine_chunks()) for column, keys in zip(values, wanted, strict=True)
    )
    # A value that cannot be read is NULL, and so is the key that a contract of another time cannot read.
    found = pc.and_(reduce(pc.and_, each), _are_known(values))
    if len(values) == 1:
        return found
    places = pc.indices_nonzero(found)
    keys = {*zip(*(column.to_pylist() for column in wanted), strict=True)}
    rows = zip(*(column.take(places).to_pylist() for column in values), strict=True)
    right = [place for place, row in zip(places.to_pylist(), rows, strict=True) if row in keys]
    return pc.is_in(pa.chunked_array([pa.array(range(len(found)), pa.int64())]), pa.array(right, pa.int64()))


def _are_known(values: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    return reduce(pc.and_, (column.is_valid() for column in values))


def _texts(values: Sequence[pa.ChunkedArray], mask: pa.ChunkedArray, places: Sequence[int]) -> set[Key]:
    """The keys of the rows with the mask, as a user would write them."""
    ordered = [values[places.index(place)].filter(mask).cast(pa.string()) for place in range(len(places))]
    return {*zip(*(column.to_pylist() for column in ordered), strict=True)}

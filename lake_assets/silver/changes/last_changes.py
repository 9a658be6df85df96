"""The last change of each key of a large batch, found without Spark before its rows are read.

Arrow has read keys, operations and sequences already, to check them. To sort those few numbers here takes a fraction of
what Spark takes to find the last image of each key. Then Spark reads each row once and writes it, without a stop in
between. Here: the last changes by the rule of `collapse.py`, and the rows of given places. Not here: reading the files
(`stage_batch.py`), writing (`silver/write/current/foreseen.py`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructField, StructType

from lake_assets.bronze.decode.dms_columns import FIRST_SEQUENCE, OLD_KEY, OPERATION, SEQUENCE
from lake_assets.bronze.files.parquet_columns import ParquetColumn
from lake_assets.bronze.reader.parquet_types import read_schema
from lake_assets.bronze.reader.places import plain
from lake_assets.silver.changes.hold_batch import Marks
from lake_assets.silver.changes.key_states import Counts
from lake_assets.silver.changes.large_batch import OPERATIONS
from lake_assets.silver.table.change_events import COMMIT_DIGITS, key_columns
from lake_assets.spark.sql import Sql, joined, literal, sql

_I, _U, _D, _HERE, _AWAY = range(5)
"""An update that moves its key is two events: its row arrives at one key, and leaves the other."""
_HIGH_DIGITS, _LOW_DIGITS = 17, 18
"""A sequence's 35 digits in two parts, each of which fits into a long."""
_BELOW_COMMIT = int(10 ** (_HIGH_DIGITS - COMMIT_DIGITS))
_KEYS_IN_A_LIST = 1 << 16
MOST_IN_PLAN, BYTES_IN_PLAN = 1_000, 1 << 20
"""Limits of the keys that become literals of a plan: 5,000 took Spark a third longer than a join."""
MOST_MARKS = 1 << 24
"""So many bits are allowed, however few the keys: 2 MiB cost almost nothing."""
_UNESCAPED = re.compile(r"[\w./:=-]+", re.ASCII)
"""Paths that Spark does not escape."""
_Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LastChanges:
    """The last changes of a batch's keys. A mark is a row of the batch, by file and place."""

    files: Mapping[str, int]
    """By address, the number of the file's rows."""
    is_row: Marks
    """Whether a row is the last change of its key, and no delete."""
    is_update: Marks
    """Whether a row is the last change of a key that has a row in the end, and whose first change is an update."""
    counts: Counts
    keys: pa.Table
    """Each key of the batch once, also those from which a row moved."""
    if_new: tuple[int, int] | None = None
    """The range of the keys that came and went within one transaction. They have no row in the end only if the table
    had none of them; None if there are no such keys."""

    def keys_in(self, spark: SparkSession) -> DataFrame:
        """The batch's keys, in columns that are named as those of events."""
        # As lists, because Spark's optimizer goes through the rows of a local table one by one.
        ends = [*range(0, self.keys.num_rows, _KEYS_IN_A_LIST), self.keys.num_rows]
        every = self.keys.combine_chunks().to_struct_array().combine_chunks()
        lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), every)
        # With a schema: without one, a time of no zone would become an instant.
        types = read_schema([ParquetColumn(field.name, str(field.type)) for field in self.keys.schema])
        schema = StructType([StructField("_keys", ArrayType(types))])
        return spark.createDataFrame(pa.table({"_keys": lists}), schema).select(F.inline("_keys"))

    @property
    def few_keys(self) -> Sql | None:
        """The batch's keys as a list of literals, if they are few numbers or short texts of one column: looking a row
        up in a set of the plan is faster than a join. A text, because a `Column` of each key takes a call of the JVM,
        and each call waits for the other threads that run Python."""
        keys = self.keys[0]
        is_number = pa.types.is_integer(keys.type)
        is_few = len(keys) <= MOST_IN_PLAN and keys.nbytes <= BYTES_IN_PLAN
        if self.keys.num_columns > 1 or not is_few or not (is_number or pa.types.is_string(keys.type)):
            return None
        values = keys.to_pylist()
        return joined(
            ", ", (sql("{value}L", value=value) for value in values) if is_number else map(literal, values)
        )

    def key_marks(self, lowest: int, highest: int) -> pa.Table | None:
        """A row with `_marks`, a list of longs: a bit for each number from `lowest` to `highest`, set for the batch's
        keys, which lie between the two. None if the key is not one whole number, or if the bits would take more memory
        than the keys."""
        keys = self.keys[0]
        if self.keys.num_columns > 1 or not pa.types.is_integer(keys.type):
            return None
        if highest - lowest >= max(MOST_MARKS, 64 * len(keys)):
            return None
        marks = np.zeros(highest - lowest + 1, bool)
        marks[np.asarray(keys, np.int64) - lowest] = True
        return pa.table({"_marks": pa.array([_as_longs(marks)], pa.list_(pa.int64()))})

    def marked(self, changes: DataFrame, marks: Marks) -> DataFrame:
        """The batch's `changes` with `_marked` boolean, without those of other files."""
        ends = np.cumsum(list(self.files.values()))[:-1]
        found: dict[str, list[Any]] = {"_address": [], "_marks": []}
        for address, part in zip(self.files, np.split(marks, ends), strict=True):
            for spelled in _spellings(address):
                found["_address"].append(spelled)
                found["_marks"].append(_as_longs(part))
        schema = pa.schema([("_address", pa.string()), ("_marks", pa.list_(pa.int64()))])
        listed = F.broadcast(changes.sparkSession.createDataFrame(pa.table(found, schema)))
        long_of_row = F.get("_marks", F.shiftright("_row", 6).cast("int"))
        is_marked = F.getbit(long_of_row, F.col("_row").bitwiseAND(63).cast("int")) == 1
        with_marks = changes.join(listed, on=F.col("_file") == F.col("_address"))
        return with_marks.withColumn("_marked", F.coalesce(is_marked, F.lit(False))).drop(
            "_address", "_marks"
        )


def last_changes(files: Mapping[str, pa.Table], key: Sequence[str], *, has_range: bool) -> LastChanges | None:
    """The last changes of the files, by address, each as `keys_of` (`hold_batch.py`). None if the rule needs the rows
    themselves: if two changes of a key have the same sequence, or if a key may have had two rows for a moment (see
    `collapse`), or if Spark writes a file's address otherwise. `has_range`: the key's first column is a whole
    number."""
    key = key_columns(key)
    every = [_with_operations(table) for table in files.values()]
    rows = pa.concat_tables(every, promote_options="permissive").combine_chunks()
    if not rows.num_rows or not all(_UNESCAPED.fullmatch(address) for address in files):
        return None
    events, kinds = _events(rows, key)
    codes = _codes(events, key)
    if codes is None or (order := _in_order(events, codes)) is None:
        return None
    begins = np.flatnonzero(np.append(True, np.diff(codes[order]) != 0))
    ends = np.append(begins[1:], len(order)) - 1
    passing = _passing(events, kinds, order, begins, ends)
    if passing is None or (len(passing) and not has_range):
        return None
    first, last = kinds[order[begins]], kinds[order[ends]]
    has_row = ~np.isin(last, (_D, _AWAY))
    is_updated = (first == _U) & has_row
    counts = Counts(
        keys=len(begins),
        rows=int(np.count_nonzero(has_row)),
        doubtful=0,
        present=int(np.count_nonzero(np.isin(first, (_U, _D, _AWAY)))),
        updated=int(np.count_nonzero(is_updated)),
        lowest=pc.min(events[key[0]]).as_py() if has_range else None,
        highest=pc.max(events[key[0]]).as_py() if has_range else None,
    )

    def marks(states: Marks) -> Marks:
        found = np.zeros(len(order), bool)
        found[order[ends]] = states
        return found[: rows.num_rows]

    return LastChanges(
        files={name: table.num_rows for name, table in files.items()},
        is_row=marks(has_row),
        is_update=marks(is_updated),
        counts=counts,
        keys=events.select(key).take(pa.array(np.sort(order[ends]))),
        if_new=_ends_of(events[key[0]].take(pa.array(passing))) if len(passing) else None,
    )


def _with_operations(changes: pa.Table) -> pa.Table:
    """The changes of a file; rows of a full load as inserts before every change."""
    if OPERATION in changes.column_names:
        return changes
    number = changes.num_rows
    inserts = changes.append_column(OPERATION, pa.repeat(OPERATIONS[_I], number))
    return inserts.append_column(SEQUENCE, pa.repeat(FIRST_SEQUENCE, number))


def _codes(rows: pa.Table, key: Sequence[str]) -> _Numbers | None:
    """A number for each key; None if there are too many combinations of the key's columns."""
    codes, most = np.zeros(rows.num_rows, np.int64), 1
    for name in key:
        column = rows[name].combine_chunks()
        if len(key) == 1 and pa.types.is_integer(column.type):
            return np.asarray(column, np.int64)
        encoded = column.dictionary_encode()
        most *= max(1, len(encoded.dictionary))
        if most >= 2**62:
            return None
        codes = codes * len(encoded.dictionary) + np.asarray(encoded.indices, np.int64)
    return codes


def _events(rows: pa.Table, key: Sequence[str]) -> tuple[pa.Table, NDArray[np.int8]]:
    """The key, sequence and kind of each row's event, then those of the keys from which rows moved."""
    names = [*key, SEQUENCE]
    found = pc.index_in(rows[OPERATION].combine_chunks(), pa.array(OPERATIONS))
    kinds = np.asarray(found, np.int8).copy()
    if (first := OLD_KEY.format(place=0)) not in rows.column_names:
        return rows.select(names), kinds
    moving = rows.filter(rows[first].is_valid())
    old = [OLD_KEY.format(place=place) for place in range(len(key))]
    away = moving.select([*old, SEQUENCE]).rename_columns(names)
    kinds[np.asarray(rows[first].is_valid())] = _HERE
    kinds = np.append(kinds, np.full(away.num_rows, _AWAY, np.int8))
    return pa.concat_tables([rows.select(names), away], promote_options="permissive").combine_chunks(), kinds


def _in_order(rows: pa.Table, codes: _Numbers) -> _Numbers | None:
    """The rows by key, those of a key by sequence; None if two changes of a key have the same one."""
    order = np.argsort(codes)
    again = np.diff(codes[order]) == 0
    several = np.append(again, False) | np.append(False, again)
    chosen = order[several]
    time = (chosen,) if _rises(rows[SEQUENCE]) else _sequences(rows, chosen)
    by_time = np.lexsort((*reversed(time), codes[chosen]))
    equal = [np.diff(part[by_time]) == 0 for part in (codes[chosen], *time)]
    if np.logical_and.reduce(equal).any():
        return None
    order[several] = chosen[by_time]
    return order


def _rises(sequences: pa.ChunkedArray) -> bool:
    """Whether each sequence is above the one before, as in the files of one task."""
    return bool(pc.all(pc.less(sequences[:-1], sequences[1:]), min_count=0).as_py())


def _sequences(rows: pa.Table, chosen: _Numbers) -> tuple[_Numbers, _Numbers]:
    """The first and the other digits of these rows' sequences."""
    texts = rows[SEQUENCE].take(pa.array(chosen))
    high = pc.utf8_slice_codeunits(texts, 0, _HIGH_DIGITS).cast(pa.int64())
    low = pc.utf8_slice_codeunits(texts, _HIGH_DIGITS, _HIGH_DIGITS + _LOW_DIGITS).cast(pa.int64())
    return np.asarray(high, np.int64), np.asarray(low, np.int64)


def _passing(
    events: pa.Table, kinds: NDArray[np.int8], order: _Numbers, begins: _Numbers, ends: _Numbers
) -> _Numbers | None:
    """An event of each key that came and went within one transaction. None if another key may have had two rows for a
    moment: its last event takes a row away, in the transaction in which its last row arrived."""
    arrives, leaves = np.isin(kinds[order], (_I, _HERE)), np.isin(kinds[order], (_D, _AWAY))
    arrived = np.maximum.reduceat(np.where(arrives, np.arange(len(order)), -1), begins)
    lost = np.flatnonzero((ends > begins) & leaves[ends] & (arrived >= 0))
    last_commit = _commits(events, order[ends[lost]])
    is_doubtful = _commits(events, order[arrived[lost]]) == last_commit
    times = np.add.reduceat(arrives.astype(np.int64) - leaves, begins)[lost]
    passes = arrives[begins[lost]] & (times == 0) & (_commits(events, order[begins[lost]]) == last_commit)
    if np.any(is_doubtful & ~passes):
        return None
    found: _Numbers = order[begins[lost[is_doubtful]]]
    return found


def _ends_of(numbers: pa.ChunkedArray) -> tuple[int, int]:
    found = pc.min_max(numbers)
    return found["min"].as_py(), found["max"].as_py()


def _commits(rows: pa.Table, chosen: _Numbers) -> _Numbers:
    high, _ = _sequences(rows, chosen)
    return high // _BELOW_COMMIT


def _as_longs(marks: Marks) -> _Numbers:
    """64 marks in a long, the first in its lowest bit."""
    octets = np.packbits(marks, bitorder="little")
    return np.frombuffer(octets.tobytes().ljust(-(-len(octets) // 8) * 8, b"\0"), np.int64)


def _spellings(address: str) -> set[str]:
    """As Spark's readers may write the address: the scheme with one slash or with three."""
    short = plain(address)
    return {address, short, re.sub(r"^(\w+):/", r"\1:///", short)}

"""Rows of files that are marked: a bit for each, by file and place.

Here: marks, and the marked ones of rows that Spark reads. Not here: which rows (`silver/reduce/current/keyed_edit.py`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.silver.changes.keyed_events import Marks, Numbers


class RowMarks:
    """Marks of the rows of some files."""

    def __init__(self, addresses: Sequence[str]) -> None:
        """`addresses`: of the files, by their numbers."""
        self._addresses = addresses
        self._marks = [np.zeros(0, bool) for _ in addresses]

    def add(self, files: Numbers, places: Numbers) -> None:
        """Marks rows, by the number of the file and the place in it, from 0."""
        order = np.argsort(files, kind="stable")
        ends = np.searchsorted(files[order], np.arange(1, len(self._marks)))
        for number, those in enumerate(np.split(places[order], ends)):
            if not len(those):
                continue
            if (size := int(those.max()) + 1) > len(self._marks[number]):
                larger = np.zeros(max(size, 2 * len(self._marks[number])), bool)
                larger[: len(self._marks[number])] = self._marks[number]
                self._marks[number] = larger
            self._marks[number][those] = True

    def of(self, files: Numbers, places: Numbers) -> Marks:
        """Whether each of these rows is marked."""
        sizes = np.array([len(marks) for marks in self._marks], np.int64)
        begins = np.append(0, np.cumsum(sizes)[:-1])
        found, known = np.zeros(len(files), bool), places < sizes[files]
        every = np.concatenate((np.zeros(0, bool), *self._marks))  # there may be no file with rows
        found[known] = every[begins[files[known]] + places[known]]
        return found

    def chosen(self, changes: DataFrame) -> DataFrame:
        """Those of the changes, with `_file` and `_row`, that are marked."""
        # All files: Spark would not read any, and count no rows, if there were no mark.
        found: dict[str, list[Any]] = {
            "_address": [*self._addresses],
            "_marks": [as_longs(marks) for marks in self._marks],
        }
        schema = pa.schema([("_address", pa.string()), ("_marks", pa.list_(pa.int64()))])
        listed = F.broadcast(changes.sparkSession.createDataFrame(pa.table(found, schema)))
        long_of_row = F.get("_marks", F.shiftright("_row", 6).cast("int"))
        is_marked = F.getbit(long_of_row, F.col("_row").bitwiseAND(63).cast("int")) == 1
        joined = changes.join(listed, on=F.col("_file") == F.col("_address"))
        return joined.filter(F.coalesce(is_marked, F.lit(False))).drop("_address", "_marks")


def as_longs(bits: Marks) -> Numbers:
    """64 bits in a long, the first in its lowest bit."""
    octets = np.packbits(bits, bitorder="little")
    return np.frombuffer(octets.tobytes().ljust(-(-len(octets) // 8) * 8, b"\0"), np.int64)

"""`python -m benchmarks.deciding [--changes N] [--keys N]`: how long this process takes to decide the last change of
each key, and how much memory.

The changes have texts as keys, of which every tenth moves, and come as decoded pieces of 128,000 rows, as of files
that are too large to be held. The time to make them is not counted. Here: the measurement. Not here: reading files
(`reading.py`), writing tables (`large_tables`).
"""

import argparse
import resource
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.bronze.decode.changes import BEFORE, IMAGE
from lake_assets.config import TableConfig
from lake_assets.silver.changes.keyed_events import ReadingEvents, events_of
from lake_assets.silver.changes.row_marks import RowMarks
from lake_assets.silver.reduce.current.last_changes import last_changes

PIECE, FILES = 128_000, 30
TABLE = TableConfig.model_validate({"columns": {"id": "string not null"}, "primary_key": ["id"]})
ADDRESSES = [f"s3a://bucket/public/items/20260301-1200{number:05d}.parquet" for number in range(FILES)]


def names(numbers: np.ndarray) -> pa.Array:
    """Keys of 17 characters."""
    return pc.binary_join_element_wise(
        "customer", pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 9, "0"), ""
    )


def decoded(first: int, rows: int, keys: int, chance: np.random.Generator) -> pa.Table:
    """Changes from the number `first` on."""
    numbers = chance.integers(0, keys, rows)
    old = pa.array(np.where(np.arange(rows) % 10, numbers, chance.integers(0, keys, rows)))
    sequences = pc.utf8_lpad(pa.array(np.arange(first, first + rows)).cast(pa.string()), 19, "0")
    return pa.table(
        {
            "_op": pa.array(np.array(["I", "U", "U", "D"])[chance.integers(0, 4, rows)]),
            "_sequence": pc.binary_join_element_wise("2026030112000000", sequences, ""),
            "_row": pa.array(np.arange(rows) + first // PIECE // FILES * PIECE),
            IMAGE.format(place=0): names(numbers),
            BEFORE.format(place=0): names(np.asarray(old)),
        }
    )


def pieces(changes: int, keys: int) -> Iterator[pa.Table]:
    """All changes."""
    chance = np.random.default_rng(1)
    for first in range(0, changes, PIECE):
        yield decoded(first, min(PIECE, changes - first), keys, chance)


def memory() -> float:
    """The most that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=30_000_000)
    parser.add_argument("--keys", type=int, default=20_000_000)
    given = parser.parse_args()
    before, events, taken = memory(), ReadingEvents(ADDRESSES, given.changes), 0.0
    for number, piece in enumerate(pieces(given.changes, given.keys)):
        begin = time.perf_counter()
        file = number % FILES
        events.add(events_of(piece, TABLE, ["id"], file), file)
        taken += time.perf_counter() - begin
    begin, marks, keys, rows, doubtful = time.perf_counter(), RowMarks(ADDRESSES), 0, 0, 0
    for part in events.pieces():
        last = last_changes(part, ["id"])
        marks.add(*last.rows())
        keys += last.keys.num_rows
        rows += int(np.count_nonzero(last.has_row))
        doubtful += int(np.count_nonzero(last.doubtful))
    decided = time.perf_counter() - begin
    print(f"{given.changes:,} changes: {keys:,} keys, {rows:,} rows, {doubtful:,} doubtful")
    print(
        f"events {taken:.1f} s, decided in {decided:.1f} s: {given.changes / (taken + decided):,.0f} changes a second"
    )
    print(f"{memory():,.0f} MB at most, {before:,.0f} MB before")


if __name__ == "__main__":
    main()

"""The last change of each key: the rule by which a table of current rows is computed.

A key's state is its event with the highest sequence. Only numbers decide: Spark reads or gets the rows once it is known
which of them remain. Keys whose last event does not determine their state are doubtful, and are followed row by row
(`key_moves.py`). Here: that rule. Not here: the events (`silver/changes/keyed_events.py`), what becomes of the rows
(`edit.py`). Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lake_assets.bronze.decode.dms_columns import OLD_KEY, SEQUENCE, SYNTHETIC_TAIL
from lake_assets.silver.changes.key_numbers import key_codes
from lake_assets.silver.changes.keyed_events import (
    ARRIVAL,
    DELETE,
    DEPARTURE,
    FILE,
    INSERT,
    KIND,
    LACKS,
    ROW,
    UPDATE,
    KeyedEvents,
    Marks,
    Numbers,
)
from lake_assets.silver.table.change_events import COMMIT_DIGITS, key_columns

_HIGH_DIGITS, _LOW_DIGITS = 17, 18
"""A sequence's 35 digits in two parts, each of which fits into a long."""
_BELOW_COMMIT = int(10 ** (_HIGH_DIGITS - COMMIT_DIGITS))
_MOST_ROWS = 1 << 40
"""Of a file."""


@dataclass(frozen=True, slots=True)
class LastChanges:
    """The last event of each key; figures and marks by key, in the order of `keys`."""

    events: KeyedEvents
    keys: pa.Table
    """Each key once, also those from which a row moved, in columns that are named as those of events."""
    last: Numbers
    """By key, the number of its last event."""
    has_row: Marks
    first: NDArray[np.int8]
    """The kind of the first event."""
    doubtful: Marks
    """Whether the last event does not determine the key's state: see `last_changes`."""
    passing: Marks
    """Whether a key is doubtful, but has no row in the end if the table had none before: it came and went within one
    transaction."""

    @property
    def starts_with_update(self) -> Marks:
        """Keys whose first event is an update that does not change the key."""
        found: Marks = self.first == UPDATE
        return found

    @property
    def present(self) -> Marks:
        """Keys that the table should have: their first event updates a row, or removes it."""
        found: Marks = np.isin(self.first, (UPDATE, DELETE, DEPARTURE))
        return found

    def rows(self) -> tuple[Numbers, Numbers]:
        """Of the keys that have a row, the number of the file with its last image, and the place there."""
        chosen = self.events.rows.select([FILE, ROW]).take(pa.array(self.last[self.has_row]))
        return np.asarray(chosen[FILE], np.int64), np.asarray(chosen[ROW], np.int64)

    def without_row(self, keys: Marks) -> "LastChanges":
        """The same, where these keys have no row, and are not doubtful."""
        return replace(self, has_row=self.has_row & ~keys, doubtful=self.doubtful & ~keys)


def last_changes(
    events: KeyedEvents, key: Sequence[str], *, applied_commit: str = "", only: pa.Table | None = None
) -> LastChanges:
    """The last changes of all keys, or `only` of some keys. `applied_commit`: transactions up to this one may have been
    applied in part.

    A key is doubtful if its last event does not determine its state. A key that gets a row and loses one in the same
    transaction may have had two for a moment (a swap, `id = id + 1`): then it loses the older one. The same holds for a
    key that loses a row in a transaction of which a part was applied before. And an image may lack columns."""
    keys = events.rows.select(key_columns(key))
    codes, wanted = key_codes(keys, only)
    order = _in_order(events, codes, wanted)
    begins = np.flatnonzero(np.append(len(order) > 0, np.diff(codes[order]) != 0))
    ends = np.append(begins[1:], len(order)) - 1 if len(begins) else begins
    kinds = np.asarray(events.rows[KIND].combine_chunks(), np.int8)[order]
    doubtful, passing = _doubtful(events, order, kinds, begins, ends, applied_commit)
    last = order[ends]
    return LastChanges(
        events,
        keys=keys.take(pa.array(last)),
        last=last,
        has_row=~np.isin(kinds[ends], (DELETE, DEPARTURE)),
        first=kinds[begins],
        doubtful=doubtful,
        passing=passing,
    )


def destinations(moves: pa.Table | None, key: Sequence[str], keys: pa.Table) -> pa.Table:
    """The keys; also those to which a row moved from one of them by a change that lacks columns: what is recomputed of
    the row counts there, too. `moves`: those of a reading (`ReadingEvents.partial_moves`)."""
    names = key_columns(key)
    if moves is None:
        return keys
    old = moves.select([OLD_KEY.format(place=place) for place in range(len(names))]).rename_columns(names)
    new = moves.select(names)
    every = (
        pa.concat_tables([keys, old, new]) if keys.num_rows else pa.concat_tables([old.slice(0, 0), old, new])
    )
    _, codes = np.unique(key_codes(every)[0], return_inverse=True)
    known, there, here = np.split(codes, [keys.num_rows, keys.num_rows + old.num_rows])
    found = np.zeros(len(every) + 1, bool)
    found[known] = True
    while np.any(more := found[there] & ~found[here]):
        found[here[more]] = True
    found[known] = False
    _, first = np.unique(codes, return_index=True)
    return pa.concat_tables([keys, every.take(pa.array(first[found[codes[first]]]))])


def _in_order(events: KeyedEvents, codes: Numbers, wanted: Marks) -> Numbers:
    """The wanted events by key, those of a key by their sequences. Changes with the same sequence are in the order of
    `order_of_change`: those without a sequence of their own by the times in their files' names, others by address, both
    by place."""
    if _rises(events.rows[SEQUENCE]):
        order: Numbers = np.argsort(codes, kind="stable")
        return order if wanted.all() else order[wanted[order]]
    order = np.flatnonzero(wanted)
    order = order[np.argsort(codes[order])]
    again = np.diff(codes[order]) == 0
    several = np.append(again, False) | np.append(False, again) if len(order) else again
    chosen = order[several]
    order[several] = chosen[np.lexsort((*reversed(_times(events, chosen)), codes[chosen]))]
    return order


def _times(events: KeyedEvents, chosen: Numbers) -> tuple[Numbers, ...]:
    rows = events.rows.select([SEQUENCE, ROW]).take(pa.array(chosen))
    by_address, by_name = events.ranks(chosen)
    files = np.where(np.asarray(pc.ends_with(rows[SEQUENCE], SYNTHETIC_TAIL)), by_name, by_address)
    return *_sequences(rows[SEQUENCE]), files * _MOST_ROWS + np.asarray(rows[ROW], np.int64)


def _doubtful(
    events: KeyedEvents,
    order: Numbers,
    kinds: NDArray[np.int8],
    begins: Numbers,
    ends: Numbers,
    applied_commit: str,
) -> tuple[Marks, Marks]:
    """By key, whether it is doubtful, and whether it is `passing`."""
    doubtful, passing = np.zeros(len(ends), bool), np.zeros(len(ends), bool)
    if not len(ends):
        return doubtful, passing
    arrives, leaves = np.isin(kinds, (INSERT, ARRIVAL)), np.isin(kinds, (DELETE, DEPARTURE))
    arrived = np.maximum.reduceat(np.where(arrives, np.arange(len(order)), -1), begins)
    lost = np.flatnonzero(leaves[ends] & ((arrived >= 0) | bool(applied_commit)))
    commit = _commits(events, order[ends[lost]])
    in_part = commit <= int(applied_commit or -1)
    # Without an arrival, any event has its place here.
    at_once = (arrived[lost] >= 0) & (_commits(events, order[arrived[lost]]) == commit)
    doubtful[lost] = at_once | in_part
    times = np.add.reduceat(arrives.astype(np.int64) - leaves, begins)[lost]
    alone = (_commits(events, order[begins[lost]]) == commit) & arrives[begins[lost]] & (times == 0)
    passing[lost] = at_once & alone & ~in_part
    if LACKS in events.rows.column_names:
        lacks = np.asarray(pc.fill_null(events.rows[LACKS], False).combine_chunks())[order] & ~leaves
        partial = np.logical_or.reduceat(lacks, begins)
        doubtful |= partial
        passing &= ~partial
    return doubtful, passing


def _rises(sequences: pa.ChunkedArray) -> bool:
    """Whether each sequence is above the one before, as in the files of one task."""
    return bool(pc.all(pc.less(sequences[:-1], sequences[1:]), min_count=0).as_py())


def _commits(events: KeyedEvents, chosen: Numbers) -> Numbers:
    """The times of the events' transactions."""
    high, _ = _sequences(events.rows[SEQUENCE].take(pa.array(chosen)))
    return high // _BELOW_COMMIT


def _sequences(texts: pa.ChunkedArray) -> tuple[Numbers, Numbers]:
    """The first and the other digits."""
    high = pc.utf8_slice_codeunits(texts, 0, _HIGH_DIGITS).cast(pa.int64())
    low = pc.utf8_slice_codeunits(texts, _HIGH_DIGITS, _HIGH_DIGITS + _LOW_DIGITS).cast(pa.int64())
    return np.asarray(high, np.int64), np.asarray(low, np.int64)

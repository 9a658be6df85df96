"""The events of a reading's usable changes: key, kind, sequence, and the place of the row. They decide which change is
a key's last one.

An update that moves its key is two events: its row arrives at one key, and leaves the other. Any other change is one.
Here: the events of decoded changes, and those of a reading: few are in this process, many on its disk, in pieces by a
hash of the key. Not here: deciding (`silver/reduce/current/last_changes.py`), decoding (`bronze/decode/files.py`).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from tempfile import TemporaryFile
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lake_assets.bronze.decode.changes import BEFORE, IMAGE, matched_columns
from lake_assets.bronze.decode.dms_columns import FIRST_SEQUENCE, KEY, OLD_KEY, OPERATION, SEQUENCE
from lake_assets.bronze.values.text_values import all_true, any_true
from lake_assets.config import TableConfig
from lake_assets.silver.changes.key_numbers import key_codes, key_hashes
from lake_assets.silver.table.change_events import INSERTED, UPDATED

Marks = NDArray[np.bool_]
Numbers = NDArray[np.int64]
INSERT, UPDATE, DELETE, ARRIVAL, DEPARTURE = range(5)
"""Kinds of events, in numbers."""
KIND, FILE, ROW, LACKS = "_kind", "_number", "_row", "_lacks"
"""Columns of events beside the key's and SEQUENCE: the kind; the number of the file, and the place of the change in it,
from 0; whether the change lacks columns, if some do. Inserts of a full load have neither KIND nor SEQUENCE, until a
piece is read."""
ROWS_OF_A_PIECE = 1_000_000
"""Changes whose events are decided together, at about 500 bytes each."""
MOST_PIECES = 256
"""Each is an open file."""
_OPERATIONS = pa.array(["I", "U", "D"])
_TIME_IN_NAME = re.compile(r"(\d{8}-?\d{9,10})\.[^/]*$")


@dataclass(frozen=True, slots=True)
class KeyedEvents:
    """All events of some keys."""

    rows: pa.Table
    addresses: Sequence[str]
    """By the number of a file."""

    def ranks(self, events: Numbers) -> tuple[Numbers, Numbers]:
        """Of some events, the rank of their file by its address, and by the time in its name and then the address: the
        order of changes with the same sequence (`order_of_change`)."""
        found = [_TIME_IN_NAME.search(address) for address in self.addresses]
        times = [time[1].replace("-", "") if time else "" for time in found]
        files = np.asarray(self.rows[FILE].take(pa.array(events)), np.int64)
        return _ranks(self.addresses)[files], _ranks([*zip(times, self.addresses, strict=True)])[files]


class ReadingEvents:
    """The events of a reading. Threads may add to it."""

    def __init__(self, addresses: Sequence[str], changes: int, *, in_memory: bool = False) -> None:
        """`addresses`: of the files, by their numbers; `changes`: about how many will come; `in_memory`: whether their
        events are in this process, however many."""
        self._addresses = addresses
        self._number = min(MOST_PIECES, max(1, -(-changes // ROWS_OF_A_PIECE)))
        self._lock = Lock()
        self._held: dict[int, list[pa.Table]] = {}
        self._numbers: list[NDArray[np.int16]] = []
        """By held part and event, the number of its piece; only of several pieces, once they are asked for."""
        # Without names, so that nobody finds them, and nothing is left of them after a kill.
        number = 0 if in_memory or self.is_one else self._number
        self._files = [TemporaryFile() for _ in range(number)]  # noqa: SIM115  (they live as long as this object)
        self._writers: list[Any] = []
        self._moves: list[pa.Table] = []

    @property
    def is_one(self) -> bool:
        """Whether all events are one piece."""
        return self._number == 1

    def add(self, found: "Found", file: int = 0) -> None:
        """`file`: the number of the changes' file, which sets the order of the events."""
        if self._files:
            self._spill(_without_middle(_whole(found.events)))
        with self._lock:
            if found.partial_moves is not None:
                self._moves.append(found.partial_moves)
            if not self._files:
                self._held.setdefault(file, []).append(found.events)

    def pieces(self) -> Iterator[KeyedEvents]:
        """The events, in at least one piece."""
        for writer in self._writers:
            writer.close()
        self._writers = []
        for number in range(self._number):
            rows = self._spilled(number) if self._files else self._of_held(number)
            yield KeyedEvents(rows.combine_chunks(), self._addresses)

    @property
    def partial_moves(self) -> pa.Table | None:
        """The key and the former key of each change that moves its key and lacks columns; None without any."""
        return pa.concat_tables(self._moves) if self._moves else None

    def first_keys(self) -> pa.ChunkedArray:
        """The key's first column of all events, which are in this process."""
        first = KEY.format(place=0)
        parts = [part.select([first]) for _, every in sorted(self._held.items()) for part in every]
        return pa.concat_tables(parts)[first]

    def _spill(self, rows: pa.Table) -> None:
        if LACKS not in rows.column_names:
            rows = rows.append_column(LACKS, pa.repeat(False, rows.num_rows))
        pieces = self._pieces_of(rows)
        with self._lock:
            if not self._writers:
                self._writers = [pa.ipc.new_stream(file, rows.schema) for file in self._files]
            for piece, writer in enumerate(self._writers):
                writer.write_table(rows.filter(pa.array(pieces == piece)))

    def _spilled(self, number: int) -> pa.Table:
        self._files[number].seek(0)
        return pa.ipc.open_stream(self._files[number]).read_all()

    def _of_held(self, number: int) -> pa.Table:
        parts = [part for _, every in sorted(self._held.items()) for part in every]
        if not self.is_one:
            if not self._numbers:
                self._numbers = [self._pieces_of(part).astype(np.int16) for part in parts]
            pairs = zip(parts, self._numbers, strict=True)
            parts = [part.filter(pa.array(pieces == number)) for part, pieces in pairs]
        return pa.concat_tables(map(_whole, parts), promote_options="default")

    def _pieces_of(self, rows: pa.Table) -> Numbers:
        return (key_hashes(_keys(rows)) % np.uint64(self._number)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Found:
    """The events of some changes."""

    events: pa.Table
    partial_moves: pa.Table | None = None
    """The keys of changes that move them and lack columns, as of `ReadingEvents`."""


def events_of(usable: pa.Table, table: TableConfig, key: Sequence[str], files: Numbers | int) -> Found:
    """The events of usable changes of the table. `files`: the number of their file; by change, if they are several."""
    images = {column.name: usable[IMAGE.format(place=at)] for at, column in enumerate(table.columns)}
    keys = {KEY.format(place=place): _comparable(images[name]) for place, name in enumerate(key)}
    numbers = np.full(usable.num_rows, files, np.int32) if isinstance(files, int) else files
    places = {FILE: pa.array(numbers, pa.int32()), ROW: usable["_row"].cast(pa.uint32())}
    operations, is_load = usable[OPERATION], pc.equal(usable[SEQUENCE], "")
    lacking = _lacking(usable)
    if lacking is None and all_true(pc.and_(is_load, pc.equal(operations, INSERTED))):
        return Found(pa.table(keys | places))
    kinds = pc.index_in(operations, _OPERATIONS).cast(pa.int8())
    sequences = pc.if_else(is_load, FIRST_SEQUENCE, usable[SEQUENCE])
    own = keys | places | {KIND: kinds, SEQUENCE: sequences}
    own |= {} if lacking is None else {LACKS: lacking}
    former = _former_keys(usable, table, key, images)
    same = (_equal(former[name], keys[name]) for name in keys)
    moves = pc.and_(pc.equal(operations, UPDATED), pc.invert(reduce(pc.and_, same)))
    if not any_true(moves):
        return Found(pa.table(own))
    arrived = pa.table(own | {KIND: pc.if_else(moves, pa.scalar(ARRIVAL, pa.int8()), kinds)})
    left = pa.table(own | former | {KIND: pa.repeat(pa.scalar(DEPARTURE, pa.int8()), usable.num_rows)})
    events = pa.concat_tables([arrived, left.filter(moves)])
    return Found(events, _partial_moves(keys, former, moves, lacking))


def _partial_moves(keys: Any, former: Any, moves: Any, lacking: Any) -> pa.Table | None:
    if lacking is None:
        return None
    old = {name.replace(KEY.format(place=""), OLD_KEY.format(place="")): former[name] for name in former}
    return pa.table(keys | old).filter(pc.and_(moves, lacking))


def _former_keys(usable: pa.Table, table: TableConfig, key: Sequence[str], images: Any) -> dict[str, Any]:
    """By column of the events, the key before the change."""
    matched = enumerate(matched_columns(table))
    before = {column.name: usable[BEFORE.format(place=place)] for place, column in matched}
    old = (_comparable(pc.coalesce(before[name], images[name])) for name in key)
    return {KEY.format(place=place): values for place, values in enumerate(old)}


def _lacking(usable: pa.Table) -> pa.ChunkedArray | None:
    """Whether a change that is no delete lacks columns; None if none does."""
    if "_unsupplied" not in usable.column_names:
        return None
    lacks = pc.greater(pc.fill_null(pc.list_value_length(usable["_unsupplied"]), 0), 0)
    found = pc.and_(pc.not_equal(usable[OPERATION], "D"), lacks)
    return found if any_true(found) else None


def _comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """As Spark compares keys: 0 is -0, and one NaN is another."""
    if not pa.types.is_floating(values.type):
        return values
    nan = pa.scalar(float("nan"), values.type)
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, pa.scalar(0.0, values.type)))


def _equal(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    same = pc.equal(one, other)
    return pc.or_(same, pc.and_(pc.is_nan(one), pc.is_nan(other))) if pa.types.is_floating(one.type) else same


def _whole(events: pa.Table) -> pa.Table:
    """With a kind and a sequence: rows of a full load as inserts before every change."""
    if KIND in events.column_names:
        return events
    kinds = pa.repeat(pa.scalar(INSERT, pa.int8()), events.num_rows)
    sequences = pa.repeat(FIRST_SEQUENCE, events.num_rows)
    return events.append_column(KIND, kinds).append_column(SEQUENCE, sequences)


def _without_middle(events: pa.Table) -> pa.Table:
    """Without updates between the first and the last event of a key, which decide nothing. One row may have millions of
    them, and all events of a key are one piece."""
    codes, _ = key_codes(_keys(events))
    rows = pa.table({"code": codes, "at": events[SEQUENCE]})
    ends = rows.group_by("code").aggregate([("at", "min"), ("at", "max")]).sort_by("code")
    if 2 * ends.num_rows > events.num_rows:
        return events
    places = pa.array(np.searchsorted(np.asarray(ends["code"]), codes))
    after = pc.greater(events[SEQUENCE], ends["at_min"].take(places))
    before = pc.less(events[SEQUENCE], ends["at_max"].take(places))
    is_middle = pc.and_(pc.and_(after, before), pc.equal(events[KIND], UPDATE))
    if LACKS in events.column_names:
        is_middle = pc.and_(is_middle, pc.invert(events[LACKS]))
    return events.filter(pc.invert(is_middle))


def _keys(events: pa.Table) -> pa.Table:
    return events.select([name for name in events.column_names if name.startswith(KEY.format(place=""))])


def _ranks(values: Sequence[Any]) -> Numbers:
    ranks = {value: rank for rank, value in enumerate(sorted(values))}
    return np.array([ranks[value] for value in values], np.int64)

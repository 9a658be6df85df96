"""The keys that a batch changes in a table of current rows, the rows that come, and their numbers.

Here: both, from the last change of each key, piece by piece of the keys, and from the states of keys that were followed
row by row. Not here: the last changes (`last_changes.py`), following rows (`key_moves.py`), keys for Spark
(`edit_keys.py`), the table's edit (`current_rows.py`).
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.decode.dms_columns import KEY
from lake_assets.silver.changes.key_numbers import key_codes
from lake_assets.silver.changes.keyed_events import Marks
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.changes.row_marks import RowMarks
from lake_assets.silver.reduce.current.last_changes import LastChanges, last_changes
from lake_assets.silver.reduce.edit_keys import EditKeys
from lake_assets.silver.reduce.key_states import living
from lake_assets.silver.table.change_events import key_columns
from lake_assets.silver.table.targets import Target

Settle = Callable[[pa.Table], DataFrame]
"""The computed states of some doubtful keys, and of those that were followed with them: `_key_0`…, `_tombstone`,
`_image`. Raises TableStopped if the changes do not determine a state."""
IsNew = Callable[[tuple[int, int] | None], bool]
"""Whether the table can have none of the keys in a range of the key's first column; of any keys, if that is no whole
number."""


@dataclass(frozen=True)
class KeyedEdit:
    """The keys of a batch, and the rows that come."""

    reading: Reading
    target: Target
    marks: RowMarks
    """The rows that keys have in the end, but for those of settled keys."""
    keys: EditKeys
    rows: int
    """Keys that have a row in the end."""
    present: int
    """Keys that the table should have."""
    followed: int
    """Keys that no change names, but from which, or to which, rows of the others moved."""
    settled: DataFrame | None
    """The states of the keys that were followed row by row."""

    @property
    def frame(self) -> DataFrame:
        """The rows of the keys that have one in the end, in silver's columns."""
        rows = self.reading.images(self.marks)
        return rows if self.settled is None else rows.union(living(self.settled))

    def states(self, columns: Collection[str]) -> DataFrame:
        """The states of the keys that have a row: `_key_0`…, `_tombstone`, `_image` with these columns."""
        image = F.struct(*(F.col("_image")[name].alias(name) for name in sorted(columns))).alias("_image")
        own = self.reading.states(self.marks, columns)
        every = [own] if self.settled is None else [own, self.settled.filter("NOT _tombstone")]
        first, *others = (each.select(*key_columns(self.target.key), "_tombstone", image) for each in every)
        return first.union(others[0]) if others else first


def edit_of(
    reading: Reading,
    target: Target,
    settle: Settle,
    is_new: IsNew,
    *,
    applied_commit: str = "",
    only: pa.Table | None = None,
) -> KeyedEdit:
    """The edit of a reading, or of `only` some keys. `applied_commit`: as of `last_changes`."""
    lasts, doubtful = _Lasts(reading, target, is_new, applied_commit, only), list[pa.Table]()

    def noted() -> Iterator[LastChanges]:
        for last in lasts:
            doubtful.append(last.keys.filter(pa.array(last.doubtful)))
            yield last

    edit, unsure = _Sums(reading, target).of(noted()), pa.concat_tables(doubtful)
    if not unsure.num_rows:
        return edit
    states = settle(unsure)
    found = states.select(*key_columns(target.key), "_tombstone").toArrow()
    return _Sums(reading, target, states, found.combine_chunks()).of(lasts)


@dataclass
class _Lasts:
    """The last changes by piece. One piece is kept; several are computed again each time."""

    reading: Reading
    target: Target
    is_new: IsNew
    applied_commit: str
    only: pa.Table | None
    kept: list[LastChanges] = field(default_factory=list)

    def __iter__(self) -> Iterator[LastChanges]:
        if self.kept:
            yield from self.kept
            return
        events, key = self.reading.events, self.target.key
        for piece in events.pieces():
            last = last_changes(piece, key, applied_commit=self.applied_commit, only=self.only)
            if last.passing.any() and self.is_new(_range_of(last, self.target)):
                last = last.without_row(last.passing)
            if events.is_one:
                self.kept.append(last)
            yield last


@dataclass
class _Sums:
    """The figures, marks and keys of all pieces."""

    reading: Reading
    target: Target
    states: DataFrame | None = None
    """Those of settled keys."""
    settled: pa.Table | None = None
    """Their keys, and whether they have no row (`_tombstone`)."""
    rows: int = 0
    present: int = 0

    def of(self, lasts: Iterable[LastChanges]) -> KeyedEdit:
        marks = RowMarks(self.reading.addresses)
        keys = EditKeys(self.reading.spark, self.reading.staging, self.target)
        settled = self.settled
        is_known = np.zeros(0 if settled is None else settled.num_rows, bool)
        for last in lasts:
            alive = last.has_row
            if settled is not None:
                ours, lives, known = _among(last.keys, settled)
                last, is_known = last.without_row(ours), is_known | known
                alive = last.has_row | lives
            marks.add(*last.rows())
            self.rows += int(np.count_nonzero(last.has_row))
            self.present += int(np.count_nonzero(last.present))
            keys.add(last.keys, alive & last.starts_with_update)
        followed = 0
        if settled is not None:
            self.rows += int(pc.sum(pc.invert(settled["_tombstone"])).as_py() or 0)
            others = settled.drop_columns("_tombstone").filter(pa.array(~is_known))
            keys.add(others, np.zeros(others.num_rows, bool))
            followed = int(others.num_rows)
        keys.end()
        return KeyedEdit(
            self.reading, self.target, marks, keys, self.rows, self.present, followed, self.states
        )


def _among(keys: pa.Table, settled: pa.Table) -> tuple[Marks, Marks, Marks]:
    """Which of the keys are settled; which of those have a row; which of the settled ones are among the keys."""
    alive = settled.filter(pc.invert(settled["_tombstone"]))
    _, ours = key_codes(keys, settled)
    _, lives = key_codes(keys, alive)
    _, known = key_codes(settled.select(keys.column_names).cast(keys.schema), keys)
    return ours, lives, known


def _range_of(last: LastChanges, target: Target) -> tuple[int, int] | None:
    """The range of the passing keys."""
    if not target.has_number_key:
        return None
    ends = pc.min_max(last.keys[KEY.format(place=0)].filter(pa.array(last.passing)))
    return ends["min"].as_py(), ends["max"].as_py()

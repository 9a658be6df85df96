"""What a batch changes in its table: the rows that go, the rows that come, and what their numbers must be.

Each mode reduces a batch's changes to an edit, and only `silver/write/` knows how it is written. Here: the edit. Not
here: those of current rows (`current/current_rows.py`), of tables without a key (`full_row.py`), of logs
(`append_only_tables.py`), of tables that keep former rows (`past/history_and_soft_delete.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import DataFrame

from lake_assets.iceberg.publish import EVERY_ROW
from lake_assets.silver.reduce.edit_keys import EditKeys
from lake_assets.spark.sql import Sql


@dataclass(frozen=True, slots=True)
class EveryRow:
    """All rows of the table go."""


@dataclass(frozen=True, slots=True)
class Matching:
    """The rows `t` go that meet the condition and match one of the rows `k`."""

    rows: DataFrame | None = None
    """None if the condition alone decides."""
    matches: Sql = EVERY_ROW
    condition: Sql = EVERY_ROW


class NewRows(Protocol):
    """Rows that come."""

    @property
    def frame(self) -> DataFrame:
        """The rows, in silver's columns. This process may first write them to files for Spark."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that come, as a DataFrame."""

    frame: DataFrame


@dataclass(frozen=True, slots=True)
class Recounted:
    """Figures of an edit's rows."""

    rows: int
    """Rows that come."""
    replaced: int | None = None
    """Rows that go, by reading them; None if that was not needed."""
    images: int = 0
    """The images from which the rows were computed, the table's own included; 0 if `replaced` is None."""
    unmatched: int = 0
    """Rows that should go from a table without a key, and that it does not have."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What a batch changes. Without arguments: nothing but the table's position."""

    removed: EveryRow | EditKeys | Matching | None = None
    """The rows that go: all, those of some keys, those that match; None if none."""
    added: NewRows | None = None
    keys: int = 0
    """Distinct keys of the changes; an upper bound for a full load, the rows for a log."""
    followed: int = 0
    """Keys among `keys` that no change of the batch names, but from which, or to which, its rows moved."""
    rows: int | None = 0
    """Rows that come; None if Spark counts them while it computes them."""
    counted: Callable[[], Recounted] | None = None
    """What Spark has counted, once the rows have been computed; None if that adds nothing to `rows`."""
    present: int | None = None
    """Keys that the table should have; None if the changes do not show it."""
    updated: int = 0
    """Keys that have a row, and whose first change is an update that does not change the key, if `present` is known."""
    may_repeat: bool = False
    """Whether keys may be there twice, which a count of the written ones shows."""
    touched: Mapping[str, str] = field(default_factory=dict)
    """The summary properties that name the days and hours of old and new images in tracked columns."""
    repairs: bool = False
    """Whether it is of no files: rows that the table should not have had, or that it lacked, are set right."""

    @property
    def recounted(self) -> Recounted:
        """The figures of the rows. Blocks until they have been computed."""
        if self.counted is not None:
            return self.counted()
        assert self.rows is not None, "else they are counted"
        return Recounted(self.rows)

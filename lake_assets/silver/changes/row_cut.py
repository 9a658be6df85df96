"""On which side of the consistent cut a row is, and how many rows are on each side.

Here: rows while they are read. Not here: finding the cut (`silver/plan/cut.py`). DataFrame API only.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.silver.table.change_events import ChangeFigures
from lake_assets.spark.checkpoint import Observed

BEHIND, IN, APPLIED, WAITS = range(4)
"""Sides of a cut: rows of the batch that belong to an earlier cut, other rows of the batch; rows of an earlier batch,
rows of a later batch."""


@dataclass(frozen=True, slots=True)
class RowCut:
    """Which rows of some files a reading takes, by the commit times of their transactions."""

    upto: datetime | None = None
    reopened: frozenset[int] = frozenset()
    """Offsets of records whose rows up to `applied` were applied by an earlier batch."""
    applied: datetime | None = None

    def side(self, *, reopened: bool) -> Column:
        """The side of a row. Rows of a full load are always in; so are rows without a commit time, in their file's
        first batch only."""
        commit = F.col("_commit_ts")
        timed = F.coalesce((F.col("_sequence") != "") & commit.isNotNull(), F.lit(False))
        waits = timed & (commit > F.lit(self.upto)) if self.upto is not None else F.lit(False)
        side = F.when(waits, WAITS)
        if self.applied is not None:
            before = timed & (commit <= F.lit(self.applied))
            side = side.when(~timed | before, APPLIED) if reopened else side.when(before, BEHIND)
        return side.otherwise(IN)


ALL_ROWS = RowCut()


def observe_sides(rows: DataFrame) -> tuple[DataFrame, Observed]:
    """The rows within the cut, and the observation that counts all of them by their `_side`."""
    sides = Observed()
    counted = sides.on(
        rows,
        F.count(F.lit(1)).alias("rows"),
        F.count_if(F.col("_side") > IN).alias("passed_over"),
        F.count_if(F.col("_side") == BEHIND).alias("behind"),
        F.count_if(F.col("_side") == WAITS).alias("waiting"),
    )
    return in_cut(counted), sides


def in_cut(rows: DataFrame) -> DataFrame:
    """The rows within the cut; all rows if there is no cut."""
    return rows.filter(F.col("_side") <= IN).drop("_side") if "_side" in rows.columns else rows


def with_sides(seen: ChangeFigures, sides: Observed, read_before: int) -> ChangeFigures:
    """The figures of the rows within the cut, completed by those of the others. Blocks until they are known."""
    found = sides.get
    return replace(
        seen,
        rows=found["rows"],
        passed_over=found["passed_over"],
        waiting=found["waiting"],
        behind_cut=found["behind"],
        read_before=read_before,
    )

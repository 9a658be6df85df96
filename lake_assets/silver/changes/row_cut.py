"""On which side of the consistent cut a row is, and how many rows are on each side.

Here: decoded rows. Not here: finding the cut (`silver/plan/cut.py`). Pure.
"""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.bronze.decode.dms_columns import COMMIT_TS, SEQUENCE
from lake_assets.silver.table.change_events import ChangeFigures

_NO_OPERATION = dict.fromkeys("IUD", 0)


@dataclass(frozen=True, slots=True)
class RowCut:
    """Which rows of some files a reading takes, by the commit times of their transactions."""

    upto: datetime | None = None
    reopened: frozenset[int] = frozenset()
    """Offsets of records whose rows up to `applied` were applied by an earlier batch."""
    applied: datetime | None = None

    def taken(self, rows: pa.Table, *, reopened: bool) -> tuple[pa.Table, ChangeFigures]:
        """The rows within the cut, and the figures that only the cut has: of the others, and of the rows taken that
        belong to an earlier cut. Rows of a full load are always in; so are rows without a commit time, in their file's
        first batch only."""
        times, sequences = rows[COMMIT_TS], pc.fill_null(rows[SEQUENCE], "")
        timed = np.asarray(pc.and_(pc.not_equal(sequences, ""), pc.is_valid(times)))
        nobody = np.zeros(rows.num_rows, bool)
        waits = nobody if self.upto is None else timed & ~_upto(times, self.upto)
        applied = nobody if self.applied is None else timed & _upto(times, self.applied)
        passed, behind = waits, applied & ~waits
        if reopened and self.applied is not None:
            passed, behind = waits | ~timed | applied, nobody
        number = int(np.count_nonzero(passed))
        return rows.filter(pa.array(~passed)), ChangeFigures(
            rows=number,
            by_op=_NO_OPERATION,
            passed_over=number,
            waiting=int(np.count_nonzero(waits)),
            behind_cut=int(np.count_nonzero(behind)),
        )


ALL_ROWS = RowCut()


def _upto(times: pa.ChunkedArray, end: datetime) -> np.ndarray:
    return np.asarray(pc.fill_null(pc.less_equal(times, pa.scalar(end, times.type)), False))

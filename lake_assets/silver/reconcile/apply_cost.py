"""What comparing a table with its files may cost, as a share of what applying them costs.

Here: the seconds that the table's own commits record, how many readings of its files they allow, and a warning if they
do not allow one. Not here: the progress of a cycle (`cycle.py`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyiceberg.table import Table

from lake_assets.config import Reconcile
from lake_assets.iceberg.table_io import RESTAMP_OF, committed_at, summary
from lake_assets.iceberg.upkeep.retention import main_chain
from lake_assets.silver.reconcile.cycle import Cycle
from lake_assets.silver.table.position import BATCH, REPAIR
from lake_assets.words import many

SECONDS, STRATEGY = f"{BATCH}seconds", f"{BATCH}strategy"
SLICES = 7
"""The most slices into which a cycle divides the keys; a slice is compared when it is due. Each comparison reads all
files of the table once. So a cycle has only as many slices as `share` allows, and slices that are due together are
compared in one reading."""
SMALL = 60.0
"""A reading of at most so many seconds gives no warning: if a small table gets no batches, applying takes no time, and
the reading exceeds any share of it."""


def applied_seconds(table: Table, every: timedelta, now: datetime) -> float | None:
    """The seconds that applying takes within `every`, by the batches whose commits the table still has. None before
    there is something to measure. The real time is longer, because a batch's last write is not in its seconds."""
    found = [
        (committed_at(snapshot), float(properties[SECONDS]))
        for snapshot in main_chain(table)
        if SECONDS in (properties := summary(snapshot))
        and RESTAMP_OF not in properties
        and properties[STRATEGY] != REPAIR
    ]
    # The oldest batch only begins the time over which the others are counted.
    counted = sum(seconds for _, seconds in found[:-1])
    return counted * (every / (now - found[-1][0])) if counted else None


@dataclass(frozen=True, slots=True)
class Budget:
    """How many seconds the comparisons of a cycle may take."""

    settings: Reconcile
    applied: float | None
    """Seconds that applying takes within `settings.every`; None if that is not known yet."""

    @property
    def seconds(self) -> float | None:
        """The limit; None without one."""
        share = self.settings.share
        return None if share is None or self.applied is None else share * self.applied

    def slices(self, former: Cycle | None) -> int:
        """The number of slices of the next cycle. Each slice reads all files, so the seconds of the former cycle's
        readings limit the number."""
        reading = former.reading if former is not None else None
        if reading is None or self.seconds is None:
            return SLICES
        return max(1, min(SLICES, int(self.seconds / reading)))

    def chosen(self, cycle: Cycle, due: range) -> Iterable[int]:
        """The slices to compare in one reading: those that are due, or all that are left if a reading of each would
        cost too much."""
        reading, left = cycle.reading, cycle.number - cycle.next
        if (
            not due
            or reading is None
            or self.seconds is None
            or cycle.seconds + reading * left <= self.seconds
        ):
            return due
        return range(cycle.next, cycle.number)

    def percent(self, cycle: Cycle) -> float | None:
        """The time of the whole cycle, its later slices included, in percent of the time of applying."""
        if not self.applied or cycle.reading is None:
            return None
        expected = cycle.seconds + cycle.reading * (cycle.number - cycle.next)
        return round(100 * expected / self.applied, 3)

    def warning(self, cycle: Cycle) -> str | None:
        """Why the period and the share cannot both be kept, and what to set; None if they can."""
        reading, limit, share = cycle.reading, self.seconds, self.settings.share
        if reading is None or limit is None or share is None or reading <= max(limit, SMALL):
            return None
        assert self.applied is not None, "there is a limit"
        days, needed = self.settings.every / timedelta(days=1), reading / self.applied
        enough = many(_rounded_up(days * reading / limit), "day")
        return (
            f"A comparison takes {reading:.1f} s. Applying takes {self.applied:.1f} s in {days:g} d, "
            f"of which checks.reconcile.share allows {100 * share:g} %, {limit:.1f} s. The period is kept, at "
            f"{100 * needed:.1f} %. Set checks.reconcile.every to {enough}, or share to "
            f"{1.1 * needed:.2g} (null: no limit)."
        )


def _rounded_up(days: float) -> int:
    return int(days) + 1

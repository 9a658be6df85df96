"""Upkeep of silver tables and marts: what of each must survive it, and whose turn it is in a run that stays up.

Here: that. Not here: the steps (`iceberg/maintenance.py`), which tables a user asks for (`commands/maintain.py`).
"""

import logging
from collections.abc import Callable, Sequence

from lake_assets.config import ContinuousConfig
from lake_assets.gold.consumption import PREFIX, read_consumption
from lake_assets.gold.look import snapshot_of_rows
from lake_assets.gold.mart import Mart
from lake_assets.iceberg.maintenance import TableUpkeep, Upkeep
from lake_assets.iceberg.restamp import Bears
from lake_assets.iceberg.tables import load_table, summary
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.position import LOG_OFFSET, TOUCHED_DAYS
from lake_assets.silver.targets import Target

# The days that a batch touched, repeated over rows that somebody else has changed since, would say that no other day
# is concerned.
SILVER = Bears(LOG_OFFSET, below_changes=True, not_repeated=(TOUCHED_DAYS,))
# A mart whose rows somebody else has changed is computed anew; repeating what it had consumed would hide that.
MART = Bears(PREFIX, below_changes=False)

APART = 4
"""Rounds from one table's upkeep to another's."""

logger = logging.getLogger(__name__)


def tend_silver(
    runtime: LakeRuntime, marts: Sequence[Mart], target: Target, keep_commits: int | None = None
) -> Upkeep:
    """The upkeep of one silver table. `keep_commits`: so many that all marts have consumed stay, whatever their age;
    by default, as many as `maintenance` says."""

    def consumed() -> list[int]:
        return consumed_snapshots(runtime, marts, target.identifier)

    return _tend(runtime, target.identifier, SILVER, consumed, keep_commits)


def tend_mart(runtime: LakeRuntime, mart: Mart, keep_commits: int | None = None) -> Upkeep:
    """The upkeep of one mart; `keep_commits` as above."""
    return _tend(runtime, mart.identifier, MART, list, keep_commits)


def consumed_snapshots(runtime: LakeRuntime, marts: Sequence[Mart], identifier: str) -> list[int]:
    """The snapshots of a silver table that the marts which read it have come to."""
    found = []
    for mart in marts:
        newest = snapshot_of_rows(load_table(runtime.catalog, mart.identifier))
        if (consumed := read_consumption(summary(newest)).snapshots.get(identifier)) is not None:
            found.append(consumed)
    return found


class Turns:
    """Upkeep between the rounds of a run that stays up: one table at a time and not after each round, because a round
    waits for it, and tables that change alike are due alike."""

    def __init__(self, runtime: LakeRuntime, marts: Sequence[Mart], settings: ContinuousConfig) -> None:
        self._runtime = runtime
        self._marts = marts
        self._settings = settings
        self._rounds = 0
        """Since a table was tended."""
        self._commits: dict[str, int] = {}
        """By table, since it was tended."""
        self._upkeep: dict[str, Callable[[], Upkeep]] = {}

    def applied(self, target: Target, commits: int) -> None:
        """That a silver table got so many commits."""
        keep = self._settings.keep_commits
        self._add(target.identifier, commits, lambda: tend_silver(self._runtime, self._marts, target, keep))

    def refreshed(self, mart: Mart) -> None:
        """That a mart got a commit."""
        keep = self._settings.keep_commits
        self._add(mart.identifier, 1, lambda: tend_mart(self._runtime, mart, keep))

    def take(self) -> Upkeep | None:
        """After a round; tends the table that got the most commits, if one is due. Never raises: see the upkeep's
        `error`."""
        self._rounds += 1
        if self._rounds < APART:
            return None
        name = max(self._commits, key=lambda name: self._commits[name], default=None)
        if name is None or self._commits[name] < self._settings.tend_after:
            return None
        self._commits[name] = self._rounds = 0
        done = self._upkeep[name]()
        if done.error is not None:
            logger.warning("%s could not be tended, and is again later: %s", name, done.error)
        return done

    def _add(self, name: str, commits: int, upkeep: Callable[[], Upkeep]) -> None:
        self._commits[name] = self._commits.get(name, 0) + commits
        self._upkeep[name] = upkeep


def _tend(
    runtime: LakeRuntime,
    identifier: str,
    bears: Bears,
    consumed: Callable[[], list[int]],
    keep_commits: int | None,
) -> Upkeep:
    with runtime.sessions.isolated() as spark:
        settings = runtime.lake.maintenance
        return TableUpkeep(spark, runtime.catalog, identifier, bears, settings, consumed, keep_commits).run()

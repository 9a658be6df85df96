"""Upkeep of silver tables and marts: what of each must survive it, and whose turn it is in a run that stays up.

Here: that. Not here: the steps (`iceberg/table_maintenance.py`), which tables a user asks for
(`commands/run/maintain.py`).
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from lake_assets.config import ContinuousConfig
from lake_assets.config.secrets import hidden_error
from lake_assets.errors import LakeError
from lake_assets.gold.consumption import PREFIX, read_consumption
from lake_assets.gold.mart import Mart
from lake_assets.gold.table_snapshots import snapshot_of_rows
from lake_assets.iceberg.restamp import Bears
from lake_assets.iceberg.table_io import load_table, summary
from lake_assets.iceberg.table_maintenance import TableUpkeep, Upkeep
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.guard import refuse_foreign_commits
from lake_assets.silver.table.position import LOG_OFFSET, TOUCHED_DAYS
from lake_assets.silver.table.targets import Target
from lake_assets.spark.causes import root_cause
from lake_assets.spark.session import server_lost

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

    try:
        # A re-stamp above a commit of somebody else's would hide it.
        refuse_foreign_commits(target, load_table(runtime.catalog, target.identifier))
    except LakeError as error:
        return Upkeep(target.identifier, error=error)

    return _tend(runtime, target.identifier, SILVER, consumed, keep_commits, target.partition_by)


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

    def __init__(
        self,
        runtime: LakeRuntime,
        targets: Sequence[Target],
        marts: Sequence[Mart],
        settings: ContinuousConfig,
    ) -> None:
        """`marts`: all of the lake, because what they have consumed decides what may go."""
        self._runtime = runtime
        self._due = settings.tend_after
        self._rounds = 0
        """Since a table was tended."""
        keep = settings.keep_commits
        self._upkeep: dict[str, Callable[[], Upkeep]] = {
            target.identifier: partial(tend_silver, runtime, marts, target, keep) for target in targets
        }
        self._upkeep |= {mart.identifier: partial(tend_mart, runtime, mart, keep) for mart in marts}
        self._commits = dict.fromkeys(self._upkeep, 0)
        """By table, since it was tended."""

    def committed(self, identifier: str, commits: int = 1) -> None:
        """That a silver table or a mart got so many commits."""
        self._commits[identifier] += commits

    def take(self) -> Upkeep | None:
        """After a round; tends the table that got the most commits, if one is due. Never raises: see the upkeep's
        `error`."""
        self._rounds += 1
        if self._rounds < APART:
            return None
        name = max(self._commits, key=lambda name: self._commits[name], default=None)
        if name is None or self._commits[name] < self._due:
            return None
        self._commits[name] = self._rounds = 0
        try:
            done = self._upkeep[name]()
        except Exception as error:  # noqa: BLE001  (there is no Spark now, or the branch that it kept is locked)
            done = Upkeep(name, error=error)
        if done.error is not None:
            if server_lost(done.error):
                self._runtime.sessions.forget()
            logger.warning("%s could not be tended, and is again later: %s", name, root_cause(done.error))
        return done


def _tend(
    runtime: LakeRuntime,
    identifier: str,
    bears: Bears,
    consumed: Callable[[], list[int]],
    keep_commits: int | None,
    partition_by: Sequence[str] | None = None,
) -> Upkeep:
    with runtime.sessions.isolated() as spark:
        if runtime.branches is not None:
            # Compaction waits for the end of attempts, and expiry leaves what a branch started from.
            runtime.branches.drop(spark, runtime.lake.catalog.name, [identifier])
        settings = runtime.lake.maintenance
        done = TableUpkeep(
            spark, runtime.catalog, identifier, bears, settings, consumed, keep_commits, partition_by
        ).run()
        done.error = hidden_error(runtime.lake, done.error) if done.error is not None else None
        return done

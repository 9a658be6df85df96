"""Maintenance of silver tables and marts: the properties that must survive it, and its schedule in the continuous run.

Here: both. Not here: the steps (`iceberg/upkeep/table_maintenance.py`), the tables of a command
(`commands/run/maintain.py`).
"""

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from lake_assets.config.secrets import hidden_error
from lake_assets.gold.consumption import PREFIX, read_consumption
from lake_assets.gold.mart import Mart
from lake_assets.gold.table_snapshots import snapshot_of_rows
from lake_assets.gold.write.own_tables import OwnTable
from lake_assets.iceberg.table_io import load_table, summary
from lake_assets.iceberg.upkeep.parts_and_limits import EVERY_PART, Part
from lake_assets.iceberg.upkeep.restamp import StampRule
from lake_assets.iceberg.upkeep.table_maintenance import Maintained, TableMaintenance, timed
from lake_assets.rounds.merged_landings import merge_landed
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply.trim_history import is_trim_due, trim_history
from lake_assets.silver.batch_log.batches_table import BatchLog
from lake_assets.silver.batch_log.record_batches import record_batches
from lake_assets.silver.table.guard import refuse_foreign_commits
from lake_assets.silver.table.position import SILVER
from lake_assets.silver.table.targets import Target
from lake_assets.spark.causes import root_cause
from lake_assets.spark.connect.connect_address import server_lost

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

# A mart whose rows another writer has changed is recomputed; a re-stamp of its consumption would hide the change.
MART = StampRule(PREFIX, below_changes=False)

MAINTAIN_AFTER = 20
"""Commits after which the continuous run maintains a table between two rounds."""
BETWEEN_ROUNDS = (Part.FILES, Part.SNAPSHOTS)
"""The parts that the continuous run does, and silver's Part.HISTORY before its files; the sensor does the others."""
APART = 2
"""Rounds between one part of a table's maintenance and the next one."""

logger = logging.getLogger(__name__)


def maintain_silver(
    runtime: LakeRuntime,
    marts: Sequence[Mart],
    target: Target,
    keep_commits: int | None = None,
    parts: Collection[Part] = EVERY_PART,
) -> Maintained:
    """Maintains one silver table. `keep_commits`: keeps so many commits that all marts have consumed, of any age; by
    default, the settings of `maintenance` decide."""

    def consumed() -> list[int | None]:
        return consumed_snapshots(runtime, marts, target.identifier)

    try:
        # A re-stamp above another writer's commit would hide it.
        table, now = load_table(runtime.catalog, target.identifier), datetime.now(UTC)
        refuse_foreign_commits(target, table)
    except Exception as error:  # noqa: BLE001  (one table's failure must not stop the others)
        return Maintained(target.identifier, error=_hidden(runtime, error))

    def trim(done: Maintained) -> None:
        if Part.HISTORY in parts and is_trim_due(target, table, now):
            done.rows_removed = trim_history(runtime, target, now)

    # First, so that the files with removed rows are rewritten. A fault may be one that the other parts mend.
    trimmed = timed(target.identifier, trim)
    done = _maintain(
        runtime,
        target.identifier,
        SILVER,
        consumed,
        keep_commits,
        parts,
        target.partition_by,
        recorder(runtime),
    )
    done.rows_removed, done.error = trimmed.rows_removed, done.error or _hidden(runtime, trimmed.error)
    done.seconds += trimmed.seconds
    return done


def recorder(runtime: LakeRuntime) -> "Callable[[Table], object]":
    """Records the batches of a silver table, before its snapshots expire."""
    return lambda table: record_batches(BatchLog(runtime.catalog), [table])


def maintain_mart(
    runtime: LakeRuntime,
    mart: Mart | OwnTable,
    keep_commits: int | None = None,
    parts: Collection[Part] = EVERY_PART,
) -> Maintained:
    """Maintains one mart, or the table of an own asset; `keep_commits` as above."""
    return _maintain(runtime, mart.identifier, MART, list, keep_commits, parts)


def consumed_snapshots(runtime: LakeRuntime, marts: Sequence[Mart], identifier: str) -> list[int | None]:
    """The snapshots of a silver table that the marts which read it have consumed last; None for a mart that has never
    been computed from it."""
    readers = [mart for mart in marts if any(rule.identifier == identifier for rule in mart.rules)]
    newest = [snapshot_of_rows(load_table(runtime.catalog, mart.identifier)) for mart in readers]
    return [read_consumption(summary(snapshot)).snapshots.get(identifier) for snapshot in newest]


def files_of(source: str) -> str:
    """The name under which the maintenance of a stream's files is reported."""
    return f"files of {source}"


class MaintenanceSchedule:
    """Which table the continuous run maintains, and when. It runs one part of one table's maintenance at a time,
    between rounds and not after each round: the next round waits for it, and tables with equally many commits are due
    at the same time."""

    def __init__(
        self,
        runtime: LakeRuntime,
        targets: Sequence[Target],
        marts: Sequence[Mart],
        keep: int,
    ) -> None:
        """`marts`: all of the lake, because snapshots that they have not consumed are kept. `keep`: how many commits
        of a table are kept beside those."""
        self._runtime = runtime
        self._rounds = 0
        """Rounds since the last part."""
        self._maintenance: dict[tuple[str, Part], Callable[[], Maintained]] = {}
        for part in BETWEEN_ROUNDS:
            for target in targets:
                parts = [Part.HISTORY, part] if part is Part.FILES else [part]
                silver = partial(maintain_silver, runtime, marts, target, keep, parts)
                self._maintenance[target.identifier, part] = silver
            for mart in marts:
                self._maintenance[mart.identifier, part] = partial(maintain_mart, runtime, mart, keep, [part])
        self._files = {
            target.identifier: files_of(target.source)
            for target in targets
            if runtime.lake.sources[target.source].stream is not None
        }
        """By silver table behind a stream, the files of its source, which count the rounds with a commit."""
        self._changed = set[str]()
        """The files of sources with a commit in this round."""
        for target in targets:
            if (files := self._files.get(target.identifier)) is not None:
                merge = partial(merge_landed, runtime, target.source)
                self._maintenance[files, Part.FILES] = partial(timed, files, merge)
        self._commits = dict.fromkeys(self._maintenance, 0)
        """By table and part, commits since that part of its maintenance."""

    def committed(self, identifier: str, commits: int = 1) -> None:
        """Counts the commits of a silver table or a mart."""
        for part in BETWEEN_ROUNDS:
            self._commits[identifier, part] += commits
        if (files := self._files.get(identifier)) is not None:
            self._changed.add(files)

    def maintain_next(self, under_way: Collection[str] = ()) -> Maintained | None:
        """Called after each round. Runs the part with the most commits since it ran, if it is due. Leaves out tables
        that are `under_way`, because their batch could not be published then. Never raises: see the `error` of the
        result."""
        self._rounds += 1
        for files in self._changed:
            self._commits[files, Part.FILES] += 1
        self._changed.clear()
        if self._rounds < APART:
            return None
        free = [each for each in self._commits if each[0] not in under_way]
        chosen = max(free, key=lambda each: self._commits[each], default=None)
        if chosen is None or self._commits[chosen] < MAINTAIN_AFTER:
            return None
        self._commits[chosen] = self._rounds = 0
        name, _ = chosen
        done = self._maintenance[chosen]()
        if done.error is not None:
            if server_lost(done.error):
                self._runtime.sessions.forget()
            logger.warning(
                "%s: the maintenance failed and is tried again later: %s", name, root_cause(done.error)
            )
        return done


def _maintain(
    runtime: LakeRuntime,
    identifier: str,
    stamps: StampRule,
    consumed: Callable[[], list[int | None]],
    keep_commits: int | None,
    parts: Collection[Part],
    partition_by: Sequence[str] | None = None,
    before_expiry: "Callable[[Table], object]" = lambda table: None,
) -> Maintained:
    """Never raises: see the result's `error`."""
    settings = runtime.lake.maintenance
    try:
        with _session(runtime, parts) as spark:
            if runtime.branches is not None and Part.FILES in parts:
                # A rewrite waits while branches of attempts exist.
                runtime.branches.drop(spark, runtime.lake.catalog.name, [identifier])
            done = TableMaintenance(
                spark,
                runtime.catalog,
                identifier,
                stamps,
                settings,
                consumed,
                keep_commits,
                partition_by,
                before_expiry,
            ).run(parts)
    except Exception as error:  # noqa: BLE001  (no session can be had, or the table's kept branch is locked)
        done = Maintained(identifier, error=error)
    done.error = _hidden(runtime, done.error)
    return done


def _hidden(runtime: LakeRuntime, error: Exception | None) -> Exception | None:
    return hidden_error(runtime.lake, error) if error is not None else None


def _session(runtime: LakeRuntime, parts: Collection[Part]) -> "AbstractContextManager[SparkSession]":
    """Expiry reads lists of files, which are few rows: compiling the plan, and planning again after each of its stages,
    would take a quarter of its time."""
    if Part.FILES not in parts:
        return nullcontext(runtime.sessions.root(few_rows=True))
    return runtime.sessions.isolated()

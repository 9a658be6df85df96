"""Which silver tables have something to apply: the level that the sensor, `sync` and `status` look at.

Here: position against file log, for many tables in one read of the log. Not here: applying.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.iceberg.table_io import load_table
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.plan.cut import Cut, source_cut
from lake_assets.silver.plan.full_load_gate import next_batch
from lake_assets.silver.plan.planner import Batch, Waiting, living_files
from lake_assets.silver.table.guard import refuse_unfit
from lake_assets.silver.table.partition_edits import unapplied_partitions
from lake_assets.silver.table.position import Position, read_position
from lake_assets.silver.table.targets import Target

LOADING_THREADS = 8

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableState:
    """A silver table against the log."""

    target: Target
    position: Position
    logged: tuple[LoggedFile, ...]
    next_batch: Batch | Waiting | None
    error: Exception | None = None
    """Why the table cannot say how far it is, or must not be applied to. Its next batch then holds no files: the turn
    that it is given for it tells the error where a table's errors are told, and nobody else's turn depends on it."""
    note: str | None = None
    """What lake.yaml says of the table and no batch does: a sentence with the command that does it."""

    @property
    def pending(self) -> list[LoggedFile]:
        living = living_files(self.logged, self.target.mode, self.target.config.on_vanished)
        return [file for file in living if file.offset > self.position.log_offset]


def table_states(runtime: LakeRuntime, targets: Sequence[Target], now: datetime) -> list[TableState]:
    """The state of each target; `now` is UTC."""
    by_table: dict[tuple[str, str], list[LoggedFile]] = defaultdict(list)
    for file in runtime.file_log.files():
        by_table[file.source, file.qualified_table].append(file)
    logged = {key: tuple(files) for key, files in by_table.items()}
    cuts = {
        name: source_cut(
            runtime.lake.sources[name].consistent_cut,
            (file for (source, _), files in logged.items() if source == name for file in files),
            now,
        )
        for name in {target.source for target in targets}
    }

    def state(target: Target) -> TableState:
        files = logged.get((target.source, target.table), ())
        return _state(runtime, target, files, now, cuts[target.source])

    # A remote catalog answers in tens of milliseconds, and a sensor's tick has 60 s for a thousand tables. A file on
    # this machine answers in one, and threads would only contend for it (200 tables: 0.28 s, with threads 0.48 s).
    threads = 1 if runtime.lake.catalog.type == "sqlite" else LOADING_THREADS
    with ThreadPoolExecutor(threads, thread_name_prefix="states") as pool:
        return list(pool.map(state, targets))


def _state(
    runtime: LakeRuntime, target: Target, logged: tuple[LoggedFile, ...], now: datetime, cut: Cut
) -> TableState:
    try:
        table = load_table(runtime.catalog, target.identifier)
        refuse_unfit(target, table)
        position = read_position(table)
    except Exception as error:  # whatever is wrong with one table, the others are asked
        logger.debug("%s has no readable position", target.identifier, exc_info=True)
        upto = logged[-1].offset if logged else 0
        return TableState(target, Position(), logged, Batch("cdc", (), upto, epoch=0), error)
    batch = next_batch(runtime, target, position, logged, now, cut=cut)
    return TableState(target, position, logged, batch, note=unapplied_partitions(target, table))

"""Which silver tables have something to apply: the level that the sensor, `sync` and `status` look at.

Here: position against file log, for many tables in one read of the log. Not here: applying.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lake_assets.bronze.file_log import LoggedFile
from lake_assets.iceberg.tables import load_table
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.plan import Batch, Waiting, plan_batch
from lake_assets.silver.position import Position, read_position
from lake_assets.silver.targets import Target

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableState:
    """A silver table against the log."""

    target: Target
    position: Position
    logged: tuple[LoggedFile, ...]
    next_batch: Batch | Waiting | None
    error: Exception | None = None
    """Why the table cannot say how far it is. Its next batch then holds no files: the turn that it is given for it
    tells the error where a table's errors are told, and nobody else's turn depends on it."""

    @property
    def pending(self) -> list[LoggedFile]:
        return [file for file in self.logged if file.offset > self.position.log_offset]


def table_states(runtime: LakeRuntime, targets: Sequence[Target], now: datetime) -> list[TableState]:
    """The state of each target; `now` is UTC."""
    by_table: dict[tuple[str, str], list[LoggedFile]] = defaultdict(list)
    for file in runtime.file_log.files():
        by_table[file.source, file.qualified_table].append(file)
    return [_state(runtime, target, tuple(by_table[target.source, target.table]), now) for target in targets]


def _state(runtime: LakeRuntime, target: Target, logged: tuple[LoggedFile, ...], now: datetime) -> TableState:
    try:
        position = read_position(load_table(runtime.catalog, target.identifier))
    except Exception as error:  # whatever is wrong with one table, the others are asked
        logger.debug("%s has no readable position", target.identifier, exc_info=True)
        upto = logged[-1].offset if logged else 0
        return TableState(target, Position(), logged, Batch("cdc", (), upto, epoch=0), error)
    batch = plan_batch(
        position,
        logged,
        mode=target.mode,
        policy=target.config.full_load_complete,
        now=now,
        max_files=runtime.lake.automation.max_files_per_batch,
    )
    return TableState(target, position, logged, batch)

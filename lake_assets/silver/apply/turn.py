"""One table's turn: plans the next batch from the table's current state and applies it, until nothing is pending.

Here: planning from fresh state, and refusing batches because files are gone. Not here: the decision about the next
batch (`silver/plan/planner.py`), retrying a lost race (`planned.py`), what a batch does (`apply_batch.py`).
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pyiceberg.table import Table

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.scan.vanished import missing_files
from lake_assets.config import LOGS, Mode
from lake_assets.errors import TableStopped, UndeterminedRow
from lake_assets.iceberg.table_io import load_table
from lake_assets.runtime import LakeRuntime
from lake_assets.schema.contract import Contracts
from lake_assets.silver.apply.planned import Planned, apply_planned, known_damage, refuse_lost_files, retrying
from lake_assets.silver.batch.context import Damaged
from lake_assets.silver.batch.result import BatchResult
from lake_assets.silver.batch_log.batches_table import BatchLog
from lake_assets.silver.batch_log.record_batches import record_batches
from lake_assets.silver.changes.reading import SMALL_LOAD
from lake_assets.silver.plan.cut import Cut
from lake_assets.silver.plan.members import living_files
from lake_assets.silver.plan.plan import Batch, Plan, State, are_large
from lake_assets.silver.plan.rewritten import lost_contents
from lake_assets.silver.plan.table_state import plan_table
from lake_assets.silver.table.guard import refuse_unfit
from lake_assets.silver.table.position import Position, read_position
from lake_assets.silver.table.targets import Target
from lake_assets.words import does, many, them

logger = logging.getLogger(__name__)

Progress = Callable[[Target, str], None]
"""Called with the table and the stage's name as each stage begins, and with `done` at the end of the table's turn."""


@dataclass(slots=True)
class Turn:
    """A table's turn, up to the head of the log at its first plan."""

    runtime: LakeRuntime
    target: Target
    cut: Cut
    progress: Progress
    damaged: Damaged
    """Files on which the reader failed, in this turn or before; the turn adds to it."""
    upto: int | None = None
    """Offset of the log; None before the first plan."""
    recorded: Contracts = field(default_factory=Contracts)
    """The table's contracts, as read for the newest plan."""

    @classmethod
    def of(cls, runtime: LakeRuntime, target: Target, progress: Progress, cut: Cut) -> "Turn":
        """Begins a turn now."""
        return cls(runtime, target, cut, progress, known_damage(runtime, target))

    def apply_next(self) -> tuple[BatchResult | None, str | None]:
        """Applies the next batch. Returns its result, or why the table waits; neither when the table is up to date.
        Raises TableStopped, ApplyConflict, SparkLost and FilesUnusable."""
        return retrying(self.target, self._apply_next)

    def ends_at(self, position: Position) -> bool:
        """Whether nothing is left to do at the position, of a batch of this turn; decided by what its plan has read."""
        files = self.runtime.file_log.files(self.target.source, self.target.table, upto=self.upto)
        return self._plan(position, files).state is State.UP_TO_DATE

    def _plan(self, position: Position, files: Sequence[LoggedFile], *, in_one_batch: bool = False) -> Plan:
        now = datetime.now(UTC)
        return plan_table(
            self.runtime,
            self.target,
            position,
            files,
            self.recorded,
            now,
            in_one_batch=in_one_batch,
            cut=self.cut,
        )

    def _apply_next(self) -> tuple[BatchResult | None, str | None]:
        """Plans from the table's current state, so that a batch that another run has published meanwhile is not planned
        again."""
        target = self.target
        table = load_table(self.runtime.catalog, target.identifier)
        refuse_unfit(target, table)
        position = read_position(table)
        # Read after the table, so that they have whatever it was applied from.
        head, self.recorded = self.runtime.file_log.head(), self.runtime.contracts.of(target.identifier)
        self.upto = head if self.upto is None else self.upto
        # Another process may have brought the table further than the log was at the first plan.
        upto = max(self.upto, position.log_offset)
        files = self.runtime.file_log.files(target.source, target.table, upto=upto)
        plan = self._plan(position, files)
        if plan.stop is not None:
            raise plan.stop.error(target.table)
        if plan.batch is None:
            return None, plan.waiting
        if plan.batch.kind == "drop":
            # A commit has emptied it. All its files have vanished: it is not created again before new ones arrive.
            record_batches(BatchLog(self.runtime.catalog), [table] if table is not None else [])
            self.runtime.catalog.drop_table(target.identifier)
            return None, None
        if plan.note is not None:
            logger.warning("%s", plan.note)
        # The files that the table is computed from; they are read again when a file arrives late.
        logged = living_files(files, target.mode, target.config.on_vanished)
        if plan.batch.again:
            refuse_lost_files(self.runtime, target, plan.batch, logged, self.damaged)
            return self._apply(table, position, plan.batch, logged), None
        batch = self._without_recompute(plan.batch, position, logged)
        self._refuse_lost_rows(batch, position)
        self._refuse_lost_files(batch, position)
        if (whole := self._small_load(batch, position, files)) is not None:
            # If a change stops the table, the load is applied alone, and the next batch has the change.
            with suppress(TableStopped):
                return self._apply(table, position, whole, logged), None
        try:
            return self._apply(table, position, batch, logged), None
        except UndeterminedRow:
            everything = self._everything(batch, position, files)
            if everything is None:
                raise
            # The missing change may be in a file that is left for the next batch.
            return self._apply(table, position, everything, logged), None

    def _everything(self, batch: Batch, position: Position, files: Sequence[LoggedFile]) -> Batch | None:
        """The batch of all pending files; None if it has no more than this one."""
        everything = self._plan(position, files, in_one_batch=True).batch
        return everything if everything is not None and everything.upto > batch.upto else None

    def _small_load(self, batch: Batch, position: Position, files: Sequence[LoggedFile]) -> Batch | None:
        """A new full load with all changes since, if these are few rows: two batches would take twice as long."""
        is_new = batch.kind == "full_load" and batch.epoch > position.epoch
        if self.target.mode not in {Mode.CURRENT, *LOGS} or batch.cut is not None or not is_new:
            return None
        whole = self._everything(batch, position, files)
        if whole is None or len(whole.files) > self.runtime.lake.automation.max_files_per_batch:
            return None
        return whole if whole.rows is not None and whole.rows < SMALL_LOAD else None

    def _apply(
        self, table: Table | None, position: Position, batch: Batch, logged: Sequence[LoggedFile]
    ) -> BatchResult:
        planned = Planned(self.target, table, position, batch, logged)
        with self.runtime.large_batches if are_large(batch.files) else nullcontext():
            return apply_planned(
                self.runtime, planned, self.damaged, lambda stage: self.progress(self.target, stage)
            )

    def _refuse_lost_rows(self, batch: Batch, position: Position) -> None:
        """Raises TableStopped when rows wait for the cut in files that are gone: no other copy of the rows exists."""
        again = [file for file in batch.files if file.offset in batch.reopened]
        if again and (missing := missing_files(self.runtime.store(self.target.source), again)):
            raise TableStopped(
                self.target.table,
                f"{missing[0].key} is gone from the bucket, but {many(position.waiting, 'row')} of files that "
                f"{self.target.identifier} has read still {does(position.waiting, 'wait')} for the consistent cut, and "
                "can only be read from those files.",
                "Put it back, or have DMS reload the table.",
            )

    def _refuse_lost_files(self, batch: Batch, position: Position) -> None:
        """Raises TableStopped when the batch recomputes the table, and files that the table has applied are gone."""
        applied = [
            file
            for file in batch.files
            if file.offset <= position.log_offset and (file.key, file.version) not in self.damaged
        ]
        if batch.kind != "full_load" or not applied:
            return
        if missing := missing_files(self.runtime.store(self.target.source), applied):
            again = next((file for file in batch.files if file.offset > position.log_offset), batch.files[-1])
            gone = (
                f"{missing[0].key}, one of them, is gone from the bucket"
                if len(missing) == 1
                else f"{len(missing)} of them are gone from the bucket, the first of them {missing[0].key}"
            )
            raise TableStopped(
                self.target.table,
                f"{again.key} was written again, so that {self.target.identifier} is to be computed again from "
                f"{many(len(batch.files), 'file')}, but {gone}.",
                f"Put {them(len(missing))} back, or have DMS reload the table.",
            )

    def _without_recompute(self, batch: Batch, position: Position, logged: Sequence[LoggedFile]) -> Batch:
        """The batch; if it would recompute the table because a CDC file was written again, but files that the table has
        applied cannot be read any more, a batch of only the pending files."""
        pending = tuple(file for file in batch.files if file.offset > position.log_offset)
        remade = (
            batch.kind == "full_load" and batch.epoch == position.epoch and position.snapshot_id is not None
        )
        if not remade or position.waiting or any(file.kind is FileKind.LOAD for file in pending):
            return batch
        needed = [file for file in batch.files if (file.key, file.version) not in self.damaged]
        cannot = (
            (self.target.mode is Mode.SOFT_DELETE and position.epoch > 1)
            or lost_contents(batch.files, logged, self.damaged)
            or missing_files(self.runtime.store(self.target.source), needed)
        )
        return replace(batch, kind="cdc", files=pending) if cannot else batch

"""The state of a silver table against the file log: its next batch, or why it has none.

Here: the state that the sensors, `sync` and `status` read, for many tables in one read of the log, and calling the
planner with the lake's settings. Not here: the decision itself (`planner.py`), applying.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.created_tables import are_announced
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.config import LakeConfig, TableName
from lake_assets.errors import Remedy
from lake_assets.iceberg.catalog import loading_threads
from lake_assets.iceberg.table_io import load_table, tables_in
from lake_assets.runtime import LakeRuntime
from lake_assets.schema.contract import Contracts
from lake_assets.silver.plan.ambiguous_parts import Stamps
from lake_assets.silver.plan.cut import NO_CUT, Cut, source_cut
from lake_assets.silver.plan.load_evidence import gate_of
from lake_assets.silver.plan.members import living_files
from lake_assets.silver.plan.plan import UP_TO_DATE, Batch, Plan, State, Stop
from lake_assets.silver.plan.planner import plan_batch
from lake_assets.silver.table.folders import (
    KEEPING_THE_PAST,
    FolderChange,
    folder_change,
    lacking_rows,
    other_folders,
)
from lake_assets.silver.table.guard import refuse_unfit
from lake_assets.silver.table.log_mark import why_other_log
from lake_assets.silver.table.masks import lost_masks, other_masks
from lake_assets.silver.table.partition_edits import unapplied_partitions
from lake_assets.silver.table.pause import waiting_sentence
from lake_assets.silver.table.position import Position, read_position
from lake_assets.silver.table.targets import Target

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableState:
    """A silver table against the log."""

    target: Target
    position: Position
    logged: tuple[LoggedFile, ...]
    plan: Plan = UP_TO_DATE
    error: Exception | None = None
    """Why the position cannot be read, or why nothing may be applied to the table."""
    no_files: str = ""
    """For a table without files, the clause that says where they are expected."""
    note: str | None = None
    """A sentence about a change of lake.yaml: that the next batch applies it, or which command does."""

    @property
    def state(self) -> State:
        """Any state but `failing`: the fault of a file shows only when the file is read."""
        if self.error is not None or self.plan.stop is not None:
            return State.STOPPED
        return self.plan.state if self.logged else State.NO_FILES

    @property
    def batch(self) -> Batch | None:
        return self.plan.batch

    @property
    def stop(self) -> Exception | None:
        """The error of a table that is stopped."""
        if self.error is None and self.plan.stop is not None:
            return self.plan.stop.error(self.target.table)
        return self.error

    @property
    def waits_for(self) -> str | None:
        """Why a table that is not stopped has no batch; None when it has one, or is up to date."""
        return self.no_files if self.state is State.NO_FILES else self.plan.waiting

    @property
    def due(self) -> bool:
        """Whether the table gets a turn. A stopped table does, too: its turn reports the error in Dagster."""
        return self.state in (State.PENDING, State.STOPPED)

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

    recorded = runtime.contracts.every()
    unknown = _without_table(runtime, [t for t in targets if (t.source, t.table) not in logged])

    def state(target: Target) -> TableState:
        if target.identifier in unknown:
            return TableState(target, Position(), (), no_files=_expected(runtime.lake, target))
        files = logged.get((target.source, target.table), ())
        contracts = recorded.get(target.identifier, Contracts())
        return _state(runtime, target, files, contracts, now, cuts[target.source])

    with ThreadPoolExecutor(loading_threads(runtime.lake.catalog), thread_name_prefix="states") as pool:
        return list(pool.map(state, targets))


def _without_table(runtime: LakeRuntime, targets: Sequence[Target]) -> frozenset[str]:
    """The silver tables of the targets that do not exist: one request for each namespace. To load a thousand tables
    that do not exist would take a thousand."""
    namespaces = {target.namespace for target in targets}
    there = frozenset(name for each in namespaces for name in tables_in(runtime.catalog, each))
    return frozenset(target.identifier for target in targets) - there


def _state(
    runtime: LakeRuntime,
    target: Target,
    logged: tuple[LoggedFile, ...],
    recorded: Contracts,
    now: datetime,
    cut: Cut,
) -> TableState:
    try:
        table = load_table(runtime.catalog, target.identifier)
        refuse_unfit(target, table)
        position = read_position(table)
    except Exception as error:  # a fault of one table must not stop the others
        logger.debug("%s has no readable position", target.identifier, exc_info=True)
        return TableState(target, Position(), logged, error=error)
    plan = plan_table(runtime, target, position, logged, recorded, now, cut=cut)
    no_files = "" if logged else _expected(runtime.lake, target)
    note = plan.note or unapplied_partitions(target, table)
    return TableState(target, position, logged, plan, no_files=no_files, note=note)


def _expected(lake: LakeConfig, target: Target) -> str:
    source = lake.sources[target.source]
    location, folder = source.location.rstrip("/"), TableName.parse(target.table).prefix
    cdc_path = (source.dms.cdc_path or "").strip("/") if source.dms.preserve_transactions else ""
    nor = f", nor a row of it under {location}/{cdc_path}/" if cdc_path else ""
    return (
        f"no DMS files under {location}/{folder} yet{nor}; if DMS has written some, compare that folder with the "
        "table's name in lake.yaml"
    )


def plan_table(
    runtime: LakeRuntime,
    target: Target,
    position: Position,
    logged: Sequence[LoggedFile],
    recorded: Contracts,
    now: datetime,
    *,
    in_one_batch: bool = False,
    cut: Cut = NO_CUT,
) -> Plan:
    """The plan of a table; `logged` are all its files in the log, `recorded` its contracts, `now` is UTC.
    `in_one_batch`: all pending files in one batch, however many."""
    if position.contract_version > len(recorded.versions):
        # Recorded since they were read, by this process or another one.
        recorded = runtime.contracts.of(target.identifier)
    change = changed_folders(runtime, target, position)
    passed = logged if change is None else change.passed
    if (reason := _why_lost(runtime, target, position, passed, recorded)) is not None:
        return Plan(stop=Stop(f"{target.identifier}: {reason}", "Run `lake-assets recover`.", Remedy.RECOVER))
    lacks = None
    if change is not None and change.lacking and not change.left and target.mode not in KEEPING_THE_PAST:
        lacks = lacking_rows(target, change.lacking)
    stops = (
        None if lacks is not None else other_folders(target, position, change),
        lost_masks(target, position),
        other_masks(target, position, recorded),
    )
    for stopped in stops:
        if stopped is not None:
            return Plan(stop=Stop(stopped.reason, stopped.next_step, stopped.remedy))
    plan = plan_batch(
        position if change is None else replace(position, log_offset=change.upto),
        logged,
        mode=target.mode,
        policy=target.config.full_load_complete,
        now=now,
        max_files=None if in_one_batch else runtime.lake.automation.max_files_per_batch,
        on_vanished=target.config.on_vanished,
        gate=gate_of(runtime, target, logged),
        cut=cut,
        stamps=stamps_of(runtime, target, logged),
        lacks=lacks,
    )
    if plan.batch is not None and position.pause:
        return Plan(waiting=waiting_sentence(target, position.pause))
    return plan


def stamps_of(runtime: LakeRuntime, target: Target, logged: Sequence[LoggedFile]) -> Stamps:
    """What the stamps of the table's full-load rows are."""
    if runtime.lake.sources[target.source].stream is not None:
        created = runtime.file_log.created(target.source).get(target.table, ())
        if are_announced((file for file in logged if file.kind is FileKind.LOAD), created):
            return Stamps.ANNOUNCED
    at_start = target.dms.use_task_start_time_for_full_load_timestamp
    return Stamps.TASK_START if at_start else Stamps.TRANSFER


def changed_folders(runtime: LakeRuntime, target: Target, position: Position) -> FolderChange | None:
    """What a change of `folders` or `ignore_case` since the position's commit means for the table's rows; None if
    neither has changed."""
    if not position.log_offset or position.folders == target.folder_rule.text:
        return None
    return folder_change(target, position, runtime.file_log.records(target.source))


def _why_lost(
    runtime: LakeRuntime,
    target: Target,
    position: Position,
    logged: Sequence[LoggedFile],
    recorded: Contracts,
) -> str | None:
    """Why the log or the contracts that the table was applied with are not those of `lake_ops`; None if they are."""
    log = runtime.file_log
    if why_other_log(position.log_offset, position.mark, log.identity(), logged) is not None:
        # Another process may have logged files and applied them since the log was read.
        newer = log.files(target.source, target.table)
        if other := why_other_log(position.log_offset, position.mark, log.identity(), newer):
            return other
    if position.contract_version > len(recorded.versions):
        return (
            f"it has rows of contract {position.contract_version}, and lake_ops.contracts does not have that contract: "
            "the table was dropped, rolled back or restored."
        )
    return None

"""One planned batch: its contracts and columns, its Spark session, and the cause of its failure.

Here: preparing a batch, retries, errors. Not here: planning it (`turn.py`, `rebuild.py`), applying it
(`apply_batch.py`).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from pyiceberg.table import Table
from pyspark.sql import SparkSession
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from lake_assets.bronze.files.content import FilesUnusable, UnreadableFile
from lake_assets.bronze.layouts.headerless import UnknownWidth, refuse_lost_columns
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.quarantine.damage import unreadable_files
from lake_assets.bronze.quarantine.quarantine_log import State
from lake_assets.bronze.reader.staging import Staging
from lake_assets.bronze.scan.vanished import missing_files
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.config.secrets import hidden_in
from lake_assets.errors import ApplyConflict, ContractChanged, LakeError, SparkLost, TableStopped
from lake_assets.iceberg.partitioning import too_long_for_a_path
from lake_assets.iceberg.publish import lost_race
from lake_assets.logs import log_fields
from lake_assets.runtime import LakeRuntime
from lake_assets.schema.contract import Contracts
from lake_assets.silver.apply.apply_batch import BeforePublish, apply_batch
from lake_assets.silver.apply.evolve_table import batch_contracts, evolved
from lake_assets.silver.batch.ask_source import explain_width
from lake_assets.silver.batch.context import BatchContext, Damaged
from lake_assets.silver.batch.result import BatchResult
from lake_assets.silver.plan.plan import Batch
from lake_assets.silver.plan.rewritten import lost_contents
from lake_assets.silver.table.position import Position
from lake_assets.silver.table.shape import has_other_shape, reshaped
from lake_assets.silver.table.targets import Target
from lake_assets.spark.causes import full_traceback, root_cause
from lake_assets.spark.connect.connect_address import server_lost
from lake_assets.spark.preflight import PreflightError
from lake_assets.spark.session import FEW_ROWS
from lake_assets.storage.object_store import ObjectGone, ObjectStore, StoreError
from lake_assets.words import many, them

logger = logging.getLogger(__name__)

ATTEMPTS = 5
PENDING = "Its files are pending; the next turn applies them."
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Planned:
    """A batch of a table, and the state from which it was planned."""

    target: Target
    table: Table | None
    position: Position
    batch: Batch
    logged: Sequence[LoggedFile]
    """All files of the table in the log at the time of the plan."""
    by_today: bool = False
    """Whether all files are read by the newest contract, rather than each by its own."""
    reshape: bool = False
    """Whether the batch changes the table's shape or masks: none of the table's rows is read, all are replaced."""


def retrying(target: Target, call: Callable[[], T]) -> T:
    """Calls `call`, which plans and applies, again a few times if it lost a race, met files that cannot be used, or
    recorded a contract that fits its files.
    Raises ApplyConflict, with advice, when every attempt has lost."""
    policy = Retrying(
        retry=retry_if_exception_type((ApplyConflict, ContractChanged, FilesUnusable, SparkLost)),
        stop=stop_after_attempt(ATTEMPTS),
        wait=_pause,
        reraise=True,
    )
    try:
        return policy(call)
    except ApplyConflict as error:
        raise ApplyConflict(
            f"{target.identifier}: other processes committed to it first, {ATTEMPTS} times in a row ({error}). Nothing "
            "was applied twice or lost: its files are pending, and the next run applies them. If this repeats, "
            "find who else writes to the table, or run maintenance when fewer batches arrive."
        ) from error


def _pause(attempt: RetryCallState) -> float:
    error = attempt.outcome.exception() if attempt.outcome is not None else None
    if isinstance(error, SparkLost):
        # A restarted server answers after some seconds.
        return min(2.0**attempt.attempt_number, 8.0)
    return wait_random_exponential(multiplier=0.2, max=5)(attempt)


def known_damage(runtime: LakeRuntime, target: Target) -> Damaged:
    """The files that are quarantined whole, on which a reader would fail again."""
    return {
        (held.key, held.version): UnreadableFile(held.key, held.reason)
        for held in runtime.quarantine.all(target.identifier)
        if held.row is None and held.state in (State.HELD, State.DISCARDED)
    }


def apply_planned(
    runtime: LakeRuntime,
    planned: Planned,
    damaged: Damaged,
    stage: Callable[[str], None],
    before_publish: BeforePublish = lambda context, current: None,
) -> BatchResult:
    """Applies and publishes the batch. If `before_publish` raises, nothing is published. Raises as `in_context`."""
    return in_context(runtime, planned, damaged, stage, lambda context: _applied(context, before_publish))


def in_context(
    runtime: LakeRuntime,
    planned: Planned,
    damaged: Damaged,
    stage: Callable[[str], None],
    work: Callable[[BatchContext], T],
) -> T:
    """The result of the work with the batch's context, in a Spark session of its own. Raises LakeError of every kind;
    FilesUnusable when the batch may be tried again without some of its files, which are then in `damaged`."""
    target, batch = planned.target, planned.batch
    with ExitStack() as held:
        spark = _session(runtime, planned, held)
        contracts = _contracts(runtime, planned)
        staging = Staging(runtime.catalog, runtime.lake.catalog.name)
        held.callback(staging.clear)
        context = BatchContext(
            runtime,
            spark,
            target.under(contracts),
            planned.position,
            batch,
            planned.logged,
            contracts,
            staging,
            planned.table,
            stage,
            damaged,
            reshape=planned.reshape,
        )
        held.enter_context(_logged(context))
        try:
            _refuse_lost_columns(context)
            return work(context)
        except FilesUnusable as unusable:
            _exclude(unusable, batch, damaged)
            raise
        except SparkLost as lost:
            raise SparkLost(f"{target.identifier}: {lost} {PENDING}") from lost
        except UnknownWidth as unknown:
            explain_width(context, unknown)
            raise
        except UnreadableFile as error:
            if _exclude(broken := FilesUnusable([error]), batch, damaged):
                raise broken from error
            raise
        except ObjectGone:
            _refuse_gone(context)
            raise
        except LakeError:
            raise
        except Exception as error:
            cause, unreadable = _diagnosed(context, error)
            if unreadable and _exclude(broken := FilesUnusable(unreadable), batch, damaged):
                raise broken from error
            raise _as_lake_error(runtime, target, batch, cause) from cause


@contextmanager
def _logged(context: BatchContext) -> Iterator[None]:
    """Logs that the batch begins, and if it ends with an error; each line meanwhile has the batch's fields."""
    name, batch, runtime = context.target.identifier, context.batch, context.runtime
    with log_fields(table=name, batch_id=context.id, run_id=runtime.run_id):
        figures = {
            "kind": batch.kind,
            "files": len(batch.files),
            "bytes": sum(file.size for file in batch.files),
        }
        logger.info("%s: a batch begins", name, extra=figures)
        try:
            yield
        except Exception as error:
            logger.info(
                "%s: the batch is not published: %s", name, hidden_in(runtime.lake, root_cause(error))
            )
            raise


def _contracts(runtime: LakeRuntime, planned: Planned) -> Contracts:
    """The contracts by which the files of the batch are read."""
    target, position, batch = planned.target, planned.position, planned.batch
    record = partial(runtime.contracts.add, target.identifier)
    recorded = runtime.contracts.of(target.identifier)
    contracts = batch_contracts(
        runtime, target, recorded, position.log_offset, planned.logged, batch.files, record
    )
    contracts = contracts.upto(max(batch.upto, position.log_offset + 1))
    if planned.by_today:
        return Contracts((replace(contracts.versions[-1], from_offset=0),))
    return contracts


def _refuse_lost_columns(context: BatchContext) -> None:
    """Raises UnknownWidth as `refuse_lost_columns`, for the batch's new files."""

    def at(file: LoggedFile) -> tuple[TableConfig, DmsSettings]:
        contract = context.contracts.at(file.offset).contract
        return contract.table(context.target.config), contract.dms

    new = [file for file in context.batch.files if file.offset > context.position.log_offset]
    refuse_lost_columns(context.target.table, new, context.logged, at)


def _applied(context: BatchContext, before_publish: BeforePublish) -> BatchResult:
    """Changes the table's columns as the batch needs, and applies the batch."""
    with ExitStack() as around:
        if context.table is not None and has_other_shape(context.target, context.table):
            catalog = context.runtime.lake.catalog.name
            around.enter_context(reshaped(context.spark, catalog, context.target, context.table))
        position, changes = around.enter_context(evolved(context))
        result = apply_batch(replace(context, position=position), before_publish)
    logger.info(
        "%s: a batch is published",
        context.target.identifier,
        extra={
            "rows_read": result.rows_read,
            "rows": result.rows,
            "rows_quarantined": result.rows_quarantined,
            "position": result.position.log_offset,
            "seconds": round(sum(result.seconds.values()), 3),
            # The run may have begun after the batch.
            **({"run_id": result.run_id} if result.run_id else {}),
        },
    )
    return replace(result, schema_changes=changes, vanished=context.batch.vanished)


def _diagnosed(context: BatchContext, error: Exception) -> tuple[Exception, list[UnreadableFile]]:
    """Why a batch failed, and which of its files made it fail, if any. Raises TableStopped when files of the batch are
    gone from the bucket, and StoreError when the bucket cannot be read for another reason."""
    if server_lost(error) or lost_race(error):
        return error, []
    files, contracts = context.batch.files, context.contracts
    try:
        return error, unreadable_files(
            context.spark, context.store, files, lambda file: contracts.at(file.offset).contract.dms
        )
    except StoreError:
        _refuse_gone(context)
        raise
    except Exception as again:  # noqa: BLE001  (not a fault of the files; this is the cause)
        return again, []


def _refuse_gone(context: BatchContext) -> None:
    """As `refuse_gone`, of the batch's files."""
    target = context.target
    which = f"the next batch of {target.identifier} needs"
    refuse_gone(target, context.store, context.batch.files, which)


def refuse_gone(target: Target, store: ObjectStore, files: Sequence[LoggedFile], which: str) -> None:
    """Raises TableStopped when some of the files are gone from the bucket; `which`: a clause that says which files they
    are, such as `the next batch needs`."""
    if missing := missing_files(store, files):
        raise TableStopped(
            target.table,
            f"{missing[0].key}, which {which}, is gone from the bucket."
            if len(missing) == 1
            else f"{len(missing)} of the {many(len(files), 'file')} that {which} are gone from the bucket, the first "
            f"of them {missing[0].key}.",
            f"Put {them(len(missing))} back, or have DMS reload the table.",
        )


def refuse_lost_files(
    runtime: LakeRuntime, target: Target, batch: Batch, logged: Sequence[LoggedFile], damaged: Damaged
) -> None:
    """Raises TableStopped when files from which the table was computed cannot be read any more."""
    needed = [file for file in batch.files if (file.key, file.version) not in damaged]
    refuse_gone(target, runtime.store(target.source), needed, f"{target.identifier} is computed from")
    if lost := lost_contents(batch.files, logged, damaged):
        raise TableStopped(
            target.table,
            f"{lost[0].key} was written again after its rows had been applied to {target.identifier}, and is "
            "quarantined: its former rows are only in that table now.",
            "Retry it (lake-assets quarantine retry) to have the table follow the file as it is, and then rebuild.",
        )


def _as_lake_error(runtime: LakeRuntime, target: Target, batch: Batch, error: Exception) -> LakeError:
    """The error for a user from the error of a batch; without secrets."""
    too_long = too_long_for_a_path(full_traceback(error), target.partition_by)
    if too_long is not None:
        named = f"--source {target.source} --table {target.argument}"
        reason = f"{too_long}, and run `lake-assets maintain {named}`."
    else:
        reason = hidden_in(runtime.lake, root_cause(error))
    if (lost := runtime.sessions.lost("a batch", error)) is not None:
        return SparkLost(f"{target.identifier}: {lost} {PENDING}")
    if lost_race(error):
        return ApplyConflict(f"{target.identifier}: another run committed first")
    files = f"{batch.files[0].key} to {batch.files[-1].key}" if batch.files else "no file"
    return LakeError(f"{target.identifier}: the batch of {files} failed: {reason}")


def _session(runtime: LakeRuntime, planned: Planned, held: ExitStack) -> SparkSession:
    """A session for the batch, until the end of `held`."""
    target = planned.target
    try:
        return held.enter_context(runtime.sessions.isolated(few_rows=_reads_few_rows(planned)))
    except PreflightError as error:
        if (lost := runtime.sessions.lost("the start of a batch", error)) is None:
            raise
        raise SparkLost(f"{target.identifier}: {lost}") from error


def _reads_few_rows(planned: Planned) -> bool:
    """Whether the batch and its table have few rows together."""
    rows = planned.batch.rows
    return rows is not None and planned.position.rows + rows <= FEW_ROWS


def _exclude(unusable: FilesUnusable, batch: Batch, damaged: Damaged) -> bool:
    """Leaves these files out of the next attempt; returns whether some of them are new."""
    versions = {file.key: file.version for file in batch.files}
    new = {(file.key, versions[file.key]): file for file in unusable.files}
    known = damaged.keys() >= new.keys()
    damaged.update(new)
    return not known

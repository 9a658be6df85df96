"""Keeping silver tables up with the file log: batch after batch, table beside table.

Here: planning against fresh state, retrying a lost race, one thread per table, one table's failure kept to itself. Not
here: what a batch does (`apply.py`), Dagster (`assets.py`).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lake_assets.bronze.damage import unreadable_files
from lake_assets.bronze.file_log import LoggedFile
from lake_assets.bronze.inspect import UnreadableFile
from lake_assets.bronze.keys import FileKind
from lake_assets.bronze.quarantine import State
from lake_assets.config import Mode
from lake_assets.errors import ApplyConflict, LakeError, TableStopped
from lake_assets.iceberg.tables import load_table
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply import apply_batch
from lake_assets.silver.batch import BatchResult, TableResult
from lake_assets.silver.evolution import batch_contracts, evolved
from lake_assets.silver.plan import Waiting, plan_batch
from lake_assets.silver.position import read_position
from lake_assets.silver.shape import refuse_other_shape
from lake_assets.silver.targets import Target
from lake_assets.silver.work import Damaged, Work

ATTEMPTS = 5


class FilesDamaged(LakeError):
    """Files of a batch look whole and are not; the batch is tried again without them."""


LOST_RACE = "CommitFailedException"
T = TypeVar("T")
Progress = Callable[[Target, str], None]
"""Told the table and the stage as each stage begins, and `done` at the end of the table's turn."""

logger = logging.getLogger(__name__)


def apply_tables(
    runtime: LakeRuntime, targets: Sequence[Target], *, progress: Progress = lambda target, stage: None
) -> Iterator[TableResult]:
    """Brings every target up to the file log and yields each result as it is there, in no particular order.

    An error of one table is in its result; the others go on.
    """
    pool = ThreadPoolExecutor(runtime.lake.automation.apply_threads, thread_name_prefix="apply")
    try:
        futures = {pool.submit(apply_table, runtime, target, progress): target for target in targets}
        for future in as_completed(futures):
            yield future.result()
    finally:
        # A run that is terminated waits for the tables that are being applied, not for those that wait their turn.
        pool.shutdown(cancel_futures=True)


def apply_table(runtime: LakeRuntime, target: Target, progress: Progress) -> TableResult:
    """Brings one table up to what the log holds now. Never raises for a fault of the table: see its `error`."""
    result = TableResult(target)
    damaged: Damaged = {}
    try:
        # A reader would fail on these again.
        damaged |= {
            (held.key, held.version): UnreadableFile(held.key, held.reason)
            for held in runtime.quarantine.open(target.identifier)
            if held.row is None and held.state is State.HELD
        }
        upto = runtime.file_log.head()
        while True:
            outcome = _retrying(lambda: _next_batch(runtime, target, upto, progress, damaged))
            if not isinstance(outcome, BatchResult):
                result.waiting = outcome.reason if isinstance(outcome, Waiting) else None
                break
            result.batches.append(outcome)
    except Exception as error:  # one table's failure, whatever it is, must not stop the others
        logger.debug("%s could not be applied", target.identifier, exc_info=True)
        result.error = error
    try:
        result.position = read_position(load_table(runtime.catalog, target.identifier))
    except Exception as error:  # nor that it cannot say how far it is
        logger.debug("%s has no readable position", target.identifier, exc_info=True)
        result.error = result.error or error
    progress(target, "done")
    return result


def _retrying(call: Callable[[], T]) -> T:
    policy = Retrying(
        retry=retry_if_exception_type((ApplyConflict, FilesDamaged)),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        reraise=True,
    )
    return policy(call)


def _next_batch(
    runtime: LakeRuntime, target: Target, upto: int, progress: Progress, damaged: Damaged
) -> BatchResult | Waiting | None:
    """Plans from the table as it is now, so that a batch another run has published meanwhile is not planned again."""
    table = load_table(runtime.catalog, target.identifier)
    refuse_other_shape(target, table)
    position = read_position(table)
    logged = runtime.file_log.files(target.source, target.table, upto=upto)
    batch = plan_batch(
        position,
        logged,
        mode=target.mode,
        policy=target.config.full_load_complete,
        now=datetime.now(UTC),
        max_files=runtime.lake.automation.max_files_per_batch,
    )
    if batch is None or isinstance(batch, Waiting):
        return batch
    if target.mode is Mode.CHANGE_LOG:
        _refuse_rewritten(target, logged, position.log_offset)
    with runtime.sessions.isolated() as spark:
        record = partial(runtime.contracts.add, target.identifier)
        contracts = batch_contracts(runtime, target, position, logged, batch.files, record)
        contracts = contracts.upto(max(batch.upto, position.log_offset + 1))
        now = target.under(contracts)
        try:
            work = Work(
                runtime,
                spark,
                now,
                position,
                batch,
                logged,
                contracts,
                lambda s: progress(target, s),
                damaged,
            )
            with evolved(work, table) as changes:
                result = apply_batch(work)
            return replace(result, schema_changes=changes)
        except LakeError:
            raise
        except Exception as error:
            if LOST_RACE in str(error):
                raise ApplyConflict(f"{target.identifier}: another run committed first") from error
            store = runtime.store(target.source)
            found = unreadable_files(spark, store, batch.files, lambda f: contracts.at(f.offset).contract.dms)
            versions = {file.key: file.version for file in batch.files}
            new = {(broken.key, versions[broken.key]): broken for broken in found}
            if not damaged.keys() >= new.keys():
                damaged.update(new)
                raise FilesDamaged(f"{target.identifier}: {found[0]}") from error
            files = f"{batch.files[0].key} to {batch.files[-1].key}" if batch.files else "no file"
            raise LakeError(
                f"{target.identifier}: the batch of {files} failed: {_first_line(error)}"
            ) from error


def _refuse_rewritten(target: Target, logged: Sequence[LoggedFile], applied: int) -> None:
    """A change log cannot take back the rows of a CDC file that was applied and then written anew under its key:
    building it anew may need files of earlier epochs that are gone."""
    seen = {file.key for file in logged if file.offset <= applied and file.kind is FileKind.CDC}
    for file in logged:
        if file.offset > applied and file.key in seen and not file.retry:
            raise TableStopped(
                target.table,
                f"{file.key} was rewritten after its rows had been appended to {target.identifier}.",
                "Drop that table to have it built anew from the files as they are.",
            )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:500] if str(error).strip() else type(error).__name__

"""The asset checks of a silver table: their names, specs and evaluations.

Here: the result of each check in Dagster. Not here: the figures (`silver/table/row_count.py`, `freshness_check.py`).

`applied` and `row_count` block: a mart is not computed from a table whose last turn failed. The writer logs them from
its own figures; no query is needed afterwards.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import dagster as dg

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.quarantine.quarantine_log import Quarantined
from lake_assets.errors import LakeError, RowCountMismatch
from lake_assets.orchestration.checks.check_history import CheckExecution
from lake_assets.orchestration.checks.freshness_check import FreshnessState, freshness
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.plan.table_state import TableState
from lake_assets.silver.table.masks import shown
from lake_assets.silver.table.position import Position
from lake_assets.silver.table.row_count import LiveRows, live_rows_problem
from lake_assets.silver.table.targets import Target
from lake_assets.silver.table.unknown_rows import unknown_rows_sentence

APPLIED = "applied"
ROW_COUNT = "row_count"
FRESHNESS = "freshness"
QUARANTINE = "quarantine"
KNOWN_ROWS = "known_rows"
BLOCKING = (APPLIED, ROW_COUNT)


def check_specs(target: Target) -> list[dg.AssetCheckSpec]:
    """The checks that a silver table has in Dagster."""
    key = dg.AssetKey(target.asset_key)
    return [
        dg.AssetCheckSpec(
            APPLIED,
            asset=key,
            blocking=True,
            description="The table has not stopped; a failure says why it has. Waiting files do not fail the check.",
        ),
        dg.AssetCheckSpec(
            ROW_COUNT,
            asset=key,
            blocking=True,
            description=(
                "Rows before + added - removed = rows after, and rows read = rows counted in the files. Evaluated "
                "before a batch is published; a batch that fails it is not published. Executed alone, it compares "
                "the table's rows with those after its newest batch."
            ),
        ),
        dg.AssetCheckSpec(
            QUARANTINE,
            asset=key,
            description="No row and no file of the table is quarantined; `lake-assets quarantine list` names them.",
        ),
        dg.AssetCheckSpec(
            KNOWN_ROWS,
            asset=key,
            description=(
                "No change since the full load is of a row that the table never had. For a table without a full load, "
                "no delete is, unless the table is cdc_only."
            ),
        ),
        dg.AssetCheckSpec(
            FRESHNESS,
            asset=key,
            description=(
                f"No file waits longer than {target.freshness.max_pending_age} to be applied"
                + (
                    f", and the newest applied commit is no older than {target.freshness.max_source_lag}."
                    if target.freshness.max_source_lag is not None
                    else "."
                )
            ),
        ),
    ]


def turn_evaluations(
    result: TableResult, logged: Sequence[LoggedFile], held: Sequence[Quarantined], now: datetime
) -> Iterator[dg.AssetCheckEvaluation]:
    """All checks of a table after a turn. `logged`: all files of the table; `held`: its quarantined rows and files."""
    yield applied_evaluation(result)
    yield row_count_evaluation(result)
    yield quarantine_evaluation(result.target, held)
    yield known_rows_evaluation(result.target, result.position)
    yield freshness_evaluation(freshness(result.target, result.position, logged, now))


def applied_evaluation(result: TableResult) -> dg.AssetCheckEvaluation:
    """`applied`: fails with the error that stopped the table."""
    metadata: dict[str, Any] = {"position": result.position.log_offset}
    if result.error is not None:
        metadata = {"error": dg.MetadataValue.text(str(result.error)), "kind": type(result.error).__name__}
    if result.waiting is not None:
        metadata["waiting"] = result.waiting
    return _evaluation(result.target, APPLIED, result.error is None, metadata, blocking=True)


def state_evaluation(state: TableState, last: CheckExecution | None) -> dg.AssetCheckEvaluation:
    """`applied`, evaluated without a turn: fails while the table is stopped. Files that wait to be applied do not stop
    it. `last`: the newest evaluation of the check; a failure still counts while the batch that failed may be
    pending."""
    error = state.stop
    if error is None and (failed := _unresolved(state, last)) is not None:
        error = LakeError(failed.problem or "The last turn failed; its run says why.")
    result = TableResult(state.target, waiting=state.plan.waiting, error=error, position=state.position)
    return applied_evaluation(result)


def _unresolved(state: TableState, last: CheckExecution | None) -> CheckExecution | None:
    """The last evaluation if it failed and the files that it failed on may still be pending."""
    return last if last is not None and last.passed is False and state.due else None


def live_row_count_evaluation(
    state: TableState, rows: LiveRows, last: CheckExecution | None
) -> dg.AssetCheckEvaluation:
    """`row_count`, evaluated without a turn: of the table's current rows. `last`: as in `state_evaluation`."""
    others = state.target.config.foreign_commits == "tolerate"
    problem = live_rows_problem(rows, others_may_write=others)
    if problem is None and (failed := _unresolved(state, last)) is not None:
        problem = failed.problem or "The rows of the last batch did not add up; its run says how."
    metadata: dict[str, Any] = {"rows": rows.by_summary, "rows_in_files": rows.by_files}
    if problem is not None:
        metadata["problem"] = problem
    return _evaluation(state.target, ROW_COUNT, problem is None, metadata, blocking=True)


def row_count_evaluation(result: TableResult) -> dg.AssetCheckEvaluation:
    """`row_count` of the turn's batches. A turn without a batch passes: its rows were counted when they were published,
    and `applied` reports a failure. Always evaluated: if the run fails, even because of another table, the UI shows a
    check without an evaluation as failed."""
    if isinstance(result.error, RowCountMismatch):
        return _evaluation(result.target, ROW_COUNT, False, {"problem": str(result.error)}, blocking=True)
    if not result.batches:
        return published_row_count(result.target)
    first, last = result.batches[0], result.batches[-1]
    metadata = {
        "rows_before": first.rows_before,
        "rows_added": sum(batch.rows_written for batch in result.batches),
        "rows_removed": sum(batch.rows_removed for batch in result.batches),
        "rows_after": last.rows,
        "rows_counted_in_files": sum(batch.rows_counted for batch in result.batches),
        "rows_read": sum(batch.rows_read for batch in result.batches),
    }
    return _evaluation(result.target, ROW_COUNT, True, metadata, blocking=True)


def published_row_count(target: Target) -> dg.AssetCheckEvaluation:
    """`row_count` of rows that were published earlier: rows are counted before they are published."""
    return _evaluation(target, ROW_COUNT, True, {"counted": "before each publish"}, blocking=True)


def quarantine_evaluation(target: Target, held: Sequence[Quarantined]) -> dg.AssetCheckEvaluation:
    """`quarantine`: a warning; the other rows are right."""
    metadata: dict[str, Any] = {
        "rows": sum(row.row is not None for row in held),
        "files": sum(row.row is None for row in held),
    }
    if held:
        (newest,) = shown(held[-1:], [target])
        metadata["newest"] = f"{newest.id}: {newest.reason}"
        metadata["next_step"] = f"lake-assets quarantine list --table {target.argument}"
    return _evaluation(target, QUARANTINE, not held, metadata, severity=dg.AssetCheckSeverity.WARN)


def known_rows_evaluation(target: Target, position: Position) -> dg.AssetCheckEvaluation:
    """`known_rows`: a warning; the files are applied, but earlier ones may be missing."""
    sentence = unknown_rows_sentence(target, position)
    metadata: dict[str, Any] = {"unknown_rows": position.unknown_rows}
    if sentence is not None:
        metadata["reason"] = sentence
    return _evaluation(target, KNOWN_ROWS, sentence is None, metadata, severity=dg.AssetCheckSeverity.WARN)


def freshness_evaluation(state: FreshnessState) -> dg.AssetCheckEvaluation:
    """`freshness`: a warning, since an old table is still right."""
    metadata: dict[str, Any] = {"pending_files": state.pending_files, "state": state.sentence}
    if state.pending_age is not None:
        metadata["oldest_pending_seconds"] = round(state.pending_age.total_seconds(), 3)
    if state.source_lag is not None:
        metadata["lag_seconds"] = round(state.source_lag.total_seconds(), 3)
    return _evaluation(state.target, FRESHNESS, state.fresh, metadata, severity=dg.AssetCheckSeverity.WARN)


def _evaluation(
    target: Target,
    name: str,
    passed: bool,
    metadata: dict[str, Any],
    *,
    blocking: bool = False,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(target.asset_key),
        check_name=name,
        passed=passed,
        metadata=metadata,
        severity=severity,
        blocking=blocking,
    )

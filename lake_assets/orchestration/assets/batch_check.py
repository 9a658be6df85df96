"""The check that fails a run when one of its tables failed, after all the others had their turn.

Here: the check of a batch asset. Not here: the turn, and the checks of each table (`silver_assets.py`,
`orchestration/checks/`).
"""

from collections.abc import Mapping, Sequence

import dagster as dg

from lake_assets.orchestration.checks.check_history import latest_evaluation, latest_evaluations
from lake_assets.words import many

FAILED_TABLES = "failed_tables"
"""Metadata of a batch asset's materialization: by table, why it failed."""
BATCH_CHECK = "every_table_applied"
NEXT_STEP = "materialize the tables, or wait for their next run."


def batch_check(batch: dg.AssetKey, tables: Mapping[str, dg.AssetCheckKey]) -> dg.AssetChecksDefinition:
    """The check of one batch asset. `tables`: by silver table of the batch, its check `applied`."""

    @dg.asset_check(
        asset=batch,
        name=BATCH_CHECK,
        # Blocking, because a run succeeds despite a failed check that does not block.
        blocking=True,
        description="Fails the run, after every table had its turn, when a table failed.",
    )
    def every_table_applied(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        failed, is_of_run = _failed_tables(context.instance, context.run.run_id, batch)
        if not is_of_run:
            # "Re-execute from failure" executes only this check, perhaps long after the tables have been applied.
            failed = _still_failed(context.instance, failed, tables)
        if not failed:
            return dg.AssetCheckResult(passed=True)
        metadata = {table: dg.MetadataValue.text(message) for table, message in failed.items()}
        others = f"{many(len(failed), 'table')} failed; the others were applied."
        if not is_of_run:
            others = f"{many(len(failed), 'table')} failed in an earlier run, and this one applies nothing: {NEXT_STEP}"
        # The evaluation is logged, and the step fails with the tables' own errors. If the check were returned, Dagster
        # would say only that a blocking check failed, and the reader would have to find the check to learn why.
        evaluation = dg.AssetCheckEvaluation(
            asset_key=batch,
            check_name=BATCH_CHECK,
            passed=False,
            metadata=metadata,
            description=others,
            blocking=True,
        )
        context.op_execution_context.log_event(evaluation)  # type: ignore[arg-type]  # it takes checks, too
        raise dg.Failure("\n".join([*failed.values(), others]), metadata=metadata, allow_retries=False)

    return every_table_applied


def recovered_batch_check(
    instance: dg.DagsterInstance, batch: dg.AssetKey, tables: Sequence[dg.AssetCheckKey]
) -> dg.AssetCheckEvaluation | None:
    """The check's evaluation if it had failed and none of the tables fails any more; otherwise None. Beside a
    continuous run, no run of the batch follows that would evaluate it. `tables`: the check `applied` of its tables."""
    key = dg.AssetCheckKey(batch, BATCH_CHECK)
    last = latest_evaluation(instance, key)
    if last is None or last.passed:
        return None
    if any(not table.passed for table in latest_evaluations(instance, tables).values()):
        return None
    return dg.AssetCheckEvaluation(
        asset_key=batch,
        check_name=BATCH_CHECK,
        passed=True,
        metadata={},
        description="The tables that had failed have been applied since.",
        blocking=True,
    )


def _failed_tables(
    instance: dg.DagsterInstance, run_id: str, batch: dg.AssetKey
) -> tuple[dict[str, str], bool]:
    """By table, why it failed in this run: another run may have ended later. If the check is executed without its
    asset, the newest run counts, and the second value is False."""
    own = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    entries = [record.event_log_entry for record in own.records if record.asset_key == batch]
    entry = entries[-1] if entries else instance.get_latest_materialization_event(batch)
    event = entry.asset_materialization if entry is not None else None
    value = event.metadata[FAILED_TABLES].value if event is not None else {}
    failed = {str(table): str(error) for table, error in value.items()} if isinstance(value, dict) else {}
    return failed, bool(entries)


def _still_failed(
    instance: dg.DagsterInstance, failed: Mapping[str, str], tables: Mapping[str, dg.AssetCheckKey]
) -> dict[str, str]:
    """The failed tables without those that have been applied since."""
    newest = latest_evaluations(instance, [tables[name] for name in failed if name in tables])
    return {
        name: error
        for name, error in failed.items()
        if name in tables and (last := newest.get(tables[name])) is not None and not last.passed
    }

"""The check that fails a run when one of its tables failed, after all the others had their turn.

Here: the check of a batch asset. Not here: the turn, and the checks of each table (`silver_assets.py`,
`orchestration/checks/`).
"""

import dagster as dg

FAILED_TABLES = "failed_tables"
"""Metadata of a batch asset's materialization: by table, why it failed."""
BATCH_CHECK = "no_table_failed"


def batch_check(batch: dg.AssetKey) -> dg.AssetChecksDefinition:
    """The check of one batch asset."""

    @dg.asset_check(
        asset=batch,
        name=BATCH_CHECK,
        # Blocking, because a run succeeds despite a failed check that does not block.
        blocking=True,
        description="Fails the run, after every table had its turn, when a table failed.",
    )
    def no_table_failed(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        failed = _failed_tables(context.instance, context.run.run_id, batch)
        return dg.AssetCheckResult(
            passed=not failed,
            description=f"{len(failed)} of the tables failed; the others were applied." if failed else None,
            metadata={table: dg.MetadataValue.text(message) for table, message in failed.items()},
        )

    return no_table_failed


def _failed_tables(instance: dg.DagsterInstance, run_id: str, batch: dg.AssetKey) -> dict[str, str]:
    """The failures of this run, since another run may have ended later. When the check is executed without its asset,
    those of the newest run."""
    own = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    entries = [record.event_log_entry for record in own.records if record.asset_key == batch]
    entry = entries[-1] if entries else instance.get_latest_materialization_event(batch)
    event = entry.asset_materialization if entry is not None else None
    value = event.metadata[FAILED_TABLES].value if event is not None else {}
    return {str(table): str(message) for table, message in value.items()} if isinstance(value, dict) else {}

"""The steps of silver and of a mart that a job does.

Here: what a step asks of its job, and the answer in the form that the step has of its own work. Not here: starting the
job (`job_client.py`), Dagster's events of a table's turn (`orchestration/assets/silver_report.py`).
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import dagster as dg

from lake_assets.bronze.files.keys import FileKind
from lake_assets.config.aws.jobs import JobKind
from lake_assets.gold.compute_mart import mart_store
from lake_assets.gold.mart import Mart
from lake_assets.orchestration.assets.mart_lineage import LINEAGE, Lineage
from lake_assets.orchestration.assets.mart_output import MartOutput, Partitions, periods_of
from lake_assets.orchestration.io_managers.iceberg_io_manager import Stored
from lake_assets.orchestration.jobs.job_client import run_job
from lake_assets.orchestration.jobs.job_messages import STORED, JobRequest, read_result
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply.failures import note_turn
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.plan.table_state import table_states
from lake_assets.silver.table.targets import Target


def apply_by_job(
    runtime: LakeRuntime, targets: Sequence[Target], *, as_of: datetime | None = None
) -> Iterator[TableResult]:
    """As `apply_tables`, by a job, from within a step. Raises JobFailed: what such a job had published is found in the
    lake, as after a run that was killed."""
    jobs = runtime.lake.jobs
    assert jobs is not None, "only with jobs"
    states = table_states(runtime, targets, datetime.now(UTC))
    due = {}
    for state in states:
        target = state.target
        # At a consistent cut, each round tags all tables.
        if state.batch is not None or runtime.lake.sources[target.source].consistent_cut is not None:
            due[target.identifier] = target
            continue
        # A job would take a minute to find out as much.
        result = TableResult(target, [], state.waits_for, state.stop, state.position)
        note_turn(runtime, result)
        yield result
    if not due:
        return
    loads = any(file.kind is FileKind.LOAD for state in states for file in state.pending)
    request = JobRequest(tables=tuple(due), as_of=as_of, run_id=runtime.run_id)
    kind = JobKind.FULL_LOAD if loads else JobKind.CHANGES
    for message in run_job(dg.AssetExecutionContext.get(), runtime, jobs, kind, request):
        yield read_result(message["result"], due)


def output_by_job(
    context: dg.AssetExecutionContext,
    runtime: LakeRuntime,
    mart: Mart,
    partitions: Partitions | None,
    known: Lineage,
) -> MartOutput:
    """As `planned_output`, with rows that a job has stored."""
    jobs = runtime.lake.jobs
    assert jobs is not None, "only with jobs"
    request = JobRequest(mart=mart.name, partitions=partitions, run_id=context.run.run_id, lineage=not known)
    [message] = run_job(context, runtime, jobs, JobKind.MART, request)
    stored = STORED.validate_python(message["stored"])
    periods = periods_of(mart, partitions)
    rows = Stored(
        mart_store(mart, [periods] if periods else []),
        {column.name: column.type for column in mart.columns},
        stored.done,
    )
    lineage = known
    if stored.lineage is not None:
        columns = {
            column: [dg.TableColumnDep(dg.AssetKey(path), name) for path, name in sources]
            for column, sources in stored.lineage.items()
        }
        lineage = {LINEAGE: dg.TableColumnLineage(columns)}
    return MartOutput(rows, stored.figures, stored.source_now, stored.outside, lineage)

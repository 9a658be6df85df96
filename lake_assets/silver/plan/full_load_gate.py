"""The full-load gate: whether all parts of a full load are in the log, by DMS's report and by the bucket.

Here: both checks for one table. Not here: planning (`planner.py`), fetching the report and listing the bucket
(`storage/dms_tasks.py`, `bronze/scan/discovery.py`).
"""

from collections.abc import Sequence
from functools import partial

from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.scan.discovery import unlogged_parts
from lake_assets.config import DmsTask
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.plan.planner import Gate
from lake_assets.silver.table.targets import Target
from lake_assets.storage.dms_tasks import DmsUnavailable, TableLoad, TaskReport
from lake_assets.storage.object_store import StoreError
from lake_assets.words import does, many

LOADED = "table completed"
"""DMS's state of a table whose full load has ended, in lower case."""


def gate_of(runtime: LakeRuntime, target: Target, logged: Sequence[LoggedFile]) -> Gate | None:
    """The gate of a table, by its `full_load_complete`; None if it needs none."""
    policy, source = target.config.full_load_complete.when, runtime.lake.sources[target.source]
    if policy == "dms" and (task := source.task(target.table)) is not None:
        return partial(_dms_gate, runtime, target, logged, task)
    return partial(_bucket_gate, runtime, target, logged) if policy == "first_cdc" else None


def _dms_gate(
    runtime: LakeRuntime,
    target: Target,
    logged: Sequence[LoggedFile],
    task: DmsTask,
    parts: Sequence[LoggedFile],
) -> str | None:
    try:
        # A report from before the newest part may be about an earlier load.
        report = runtime.dms_tasks.report(task, newer_than=max(part.logged_at for part in parts))
    except DmsUnavailable as error:
        return f"full load of {many(len(parts), 'file')}: {error}"
    if (problem := load_problem(report, target.table, parts)) is not None:
        return f"full load of {many(len(parts), 'file')}: {problem}"
    # Only now are all parts in the bucket; the last scan may have been too early to log them.
    return _bucket_gate(runtime, target, logged, parts)


def load_problem(report: TaskReport, table: str, parts: Sequence[LoggedFile]) -> str | None:
    """Why, by DMS's report, these may not be all parts of the table's full load; None if they are."""
    own = _table_load(report, table)
    if own is not None:
        return _table_problem(own, table, parts)
    if report.tables:
        return f"the DMS task has no table {table}"
    if report.errored:
        which = "and only dms:DescribeTableStatistics would show which"
        return (
            f"{many(report.errored, 'table')} of the DMS task {does(report.errored, 'have')} failed, {which}"
        )
    if report.percent != 100 or report.loading:
        loading = f", {many(report.loading, 'table', 'are')} loading or queued" if report.loading else ""
        return f"DMS has done {report.percent or 0} % of its task's full load{loading}"
    return None


def _table_problem(own: TableLoad, table: str, parts: Sequence[LoggedFile]) -> str | None:
    if own.state.lower() != LOADED:
        return f"DMS reports {table} as: {own.state}"
    begun = max(min(part.first_commit_ts or part.last_modified, part.last_modified) for part in parts)
    if own.ended is not None and own.ended < begun:
        return f"the load of {table} that DMS reports as ended at {own.ended:%Y-%m-%d %H:%M:%S} was before these files"
    older = [p for p in parts if own.started is not None and p.last_modified < own.started]
    if older:
        return (
            f"{older[0].key} is older than the load of {table}, which DMS began at {own.started:%Y-%m-%d %H:%M:%S}: "
            "remove what an earlier load has left"
        )
    return None


def _table_load(report: TaskReport, table: str) -> TableLoad | None:
    """The table's entry in the report; a mapping may have changed the case of its name."""
    exact = report.tables.get((table.partition(".")[0], table.partition(".")[2]))
    alike = [load for name, load in report.tables.items() if ".".join(name).casefold() == table.casefold()]
    return exact or (alike[0] if len(alike) == 1 else None)


def _bucket_gate(
    runtime: LakeRuntime, target: Target, logged: Sequence[LoggedFile], parts: Sequence[LoggedFile]
) -> str | None:
    source, store = runtime.lake.sources[target.source], runtime.store(target.source)
    try:
        found = unlogged_parts(source, store, parts, logged)
    except StoreError as error:
        return f"full load of {many(len(parts), 'file')}: {error}"
    return f"full load of {many(len(parts), 'file')}: {found[0]} is yet to be logged" if found else None

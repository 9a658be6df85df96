"""The full-load gate: whether all parts of a full load have arrived, so that it may be applied. Pure.

Here: the decision, by the log and by DMS's report. Not here: fetching the report and listing the bucket
(`load_evidence.py`), parts that may belong to another load (`ambiguous_parts.py`).
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import FullLoadComplete, TableName, table_text
from lake_assets.words import does, many

if TYPE_CHECKING:
    from lake_assets.storage.dms_tasks import TableLoad, TaskReport

Gate = Callable[[Sequence[LoggedFile]], str | None]
"""Called with a full load's parts. Asks DMS or the bucket, and returns why the parts cannot be applied yet; None if
they can."""
LOADED = "table completed"
"""DMS's state of a table whose full load has ended, in lower case."""


def why_incomplete(
    parts: Sequence[LoggedFile],
    end: datetime | None,
    policy: FullLoadComplete,
    now: datetime,
    gate: Gate | None,
) -> str | None:
    """Why the full load of these parts may be incomplete: a sentence for the user; None when it may be applied. `end`:
    when the load ended, by its table's changes; `now` is UTC. DMS and the bucket are asked last."""
    return _incomplete_by_log(parts, end, policy, now) or (gate(parts) if gate is not None else None)


def _incomplete_by_log(
    parts: Sequence[LoggedFile], end: datetime | None, policy: FullLoadComplete, now: datetime
) -> str | None:
    """Why the full load is incomplete by the log alone; None if nothing in the log shows that."""
    if policy.when in ("immediately", "dms") or (policy.when == "first_cdc" and end is not None):
        return None
    quiet = now - max(part.last_modified for part in parts)
    if quiet >= policy.quiet:
        return None
    until = "the first CDC file or " if policy.when == "first_cdc" else ""
    left = int((policy.quiet - quiet).total_seconds())
    return (
        f"full load of {many(len(parts), 'file')}: waiting for {until}{many(left, 'more second')} without a new LOAD "
        "file"
    )


def load_problem(report: "TaskReport", table: str, parts: Sequence[LoggedFile]) -> str | None:
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


def _table_problem(own: "TableLoad", table: str, parts: Sequence[LoggedFile]) -> str | None:
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


def _table_load(report: "TaskReport", table: str) -> "TableLoad | None":
    """The table's entry in the report; a mapping may have changed the case of its name."""
    exact = report.tables.get(TableName.parse(table))
    alike = [load for name, load in report.tables.items() if table_text(*name).casefold() == table.casefold()]
    return exact or (alike[0] if len(alike) == 1 else None)

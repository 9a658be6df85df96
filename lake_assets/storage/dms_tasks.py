"""The state of a DMS replication task: the progress of its full load, as a whole and by table.

Here: calling the API, and caching an answer for some seconds. Not here: the effect of an answer on a table
(`silver/plan/full_load_gate.py`). Needs dms:DescribeReplicationTasks, and dms:DescribeTableStatistics so that a table
need not wait for the others of its task.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from lake_assets.config import DmsTask
from lake_assets.errors import LakeError
from lake_assets.storage.aws_client import Aws
from lake_assets.storage.aws_faults import aws_errors, explained

ANSWER_SECONDS = 10.0
"""How long an answer is cached: a sensor scans twice a second, and the API is throttled."""
ERROR_SECONDS = 60.0
"""How long an error is cached: each call may take ten seconds."""
PAGE = 500
"""Tables per answer, the maximum of DescribeTableStatistics."""
_ADVICE = {
    "AccessDeniedException": "grant dms:DescribeReplicationTasks and dms:DescribeTableStatistics",
    "ResourceNotFoundFault": "correct dms_task.arn",
    "UnrecognizedClientException": "renew the credentials",
    "ExpiredTokenException": "renew the credentials",
}


class DmsUnavailable(LakeError):
    """DMS did not report the state. The message is one sentence: which task, what is wrong, what to do."""


@dataclass(frozen=True, slots=True)
class TableLoad:
    """A table's own full load. Times are UTC, on DMS's clock."""

    state: str
    """DMS's term, such as `Full load`, `Table is being reloaded`, `Table completed`, `Table error`."""
    started: datetime | None
    ended: datetime | None


@dataclass(frozen=True, slots=True)
class TaskReport:
    """One answer of DMS."""

    asked_at: datetime
    """The time before the request was sent."""
    status: str
    percent: int | None
    """FullLoadProgressPercent."""
    loading: int
    """Tables that are being loaded or queued."""
    errored: int
    tables: Mapping[tuple[str, str], TableLoad] = field(default_factory=dict)
    """By schema and table in the source's spelling; empty if the table statistics are not available."""


class TaskReports:
    """Caches the answers for all tables. May be shared between threads: they wait for one answer instead of calling the
    API each."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, aws: Aws | None = None) -> None:
        self._clock = clock
        self._aws = aws or Aws()
        self._locks: dict[DmsTask, Lock] = {}
        self._answers: dict[DmsTask, tuple[float, TaskReport | DmsUnavailable]] = {}
        self._guard = Lock()

    def report(self, task: DmsTask, newer_than: datetime) -> TaskReport:
        """The state of the task, requested after `newer_than`. Raises DmsUnavailable, for ERROR_SECONDS without a new
        call."""
        with self._guard:
            lock = self._locks.setdefault(task, Lock())
        with lock:
            at, answer = self._answers.get(task, (float("-inf"), None))
            lasts = ERROR_SECONDS if isinstance(answer, DmsUnavailable) else ANSWER_SECONDS
            fresh = self._clock() - at < lasts
            if (
                answer is None
                or not fresh
                or (isinstance(answer, TaskReport) and answer.asked_at <= newer_than)
            ):
                try:
                    answer = ask(task, self._aws)
                except DmsUnavailable as error:
                    answer = error
                self._answers[task] = self._clock(), answer
        if isinstance(answer, DmsUnavailable):
            raise answer
        return answer


def descriptions(task: DmsTask, aws: Aws) -> dict[str, str]:
    """The JSON documents of the task and its endpoints, by the call that returns them. Needs
    dms:DescribeReplicationTasks and dms:DescribeEndpoints. Raises DmsUnavailable."""
    dms = _client(task, aws)
    found = _found(dms, task)
    arns = [found["SourceEndpointArn"], found["TargetEndpointArn"]]
    with _errors(task):
        endpoints = dms.describe_endpoints(Filters=[{"Name": "endpoint-arn", "Values": arns}])["Endpoints"]
    return {
        "describe-replication-tasks": json.dumps({"ReplicationTasks": [found]}, default=str),
        "describe-endpoints": json.dumps({"Endpoints": endpoints}, default=str),
    }


def ask(task: DmsTask, aws: Aws | None = None) -> TaskReport:
    """Raises DmsUnavailable."""
    dms, asked_at = _client(task, aws or Aws()), datetime.now(UTC)
    found = _found(dms, task, without_settings=True)
    stats = found.get("ReplicationTaskStats", {})
    return TaskReport(
        asked_at,
        status=found.get("Status", "unknown"),
        percent=stats.get("FullLoadProgressPercent"),
        loading=stats.get("TablesLoading", 0) + stats.get("TablesQueued", 0),
        errored=stats.get("TablesErrored", 0),
        tables=_tables(dms, task),
    )


def _found(dms: Any, task: DmsTask, *, without_settings: bool = False) -> dict[str, Any]:
    """What DMS says of the task. Raises DmsUnavailable."""
    with _errors(task):
        answer = dms.describe_replication_tasks(
            Filters=[{"Name": "replication-task-arn", "Values": [task.arn]}], WithoutSettings=without_settings
        )
    for entry in answer["ReplicationTasks"]:
        if entry["ReplicationTaskArn"] == task.arn:
            return dict(entry)
    raise DmsUnavailable(f"DMS has no task {task.arn}: correct dms_task.arn, or its region.")


def _tables(dms: Any, task: DmsTask) -> dict[tuple[str, str], TableLoad]:
    pages = dms.get_paginator("describe_table_statistics").paginate(
        ReplicationTaskArn=task.arn, MaxRecords=PAGE
    )
    try:
        with _errors(task):
            entries = [entry for page in pages for entry in page.get("TableStatistics", ())]
    except DmsUnavailable:
        # Not permitted or not available: the state of the whole task is the stricter condition.
        return {}
    return {
        (entry["SchemaName"], entry["TableName"]): TableLoad(
            entry.get("TableState", ""),
            _utc(entry.get("FullLoadStartTime")),
            _utc(entry.get("FullLoadEndTime")),
        )
        for entry in entries
    }


def _utc(moment: datetime | None) -> datetime | None:
    return moment.astimezone(UTC) if moment is not None else None


@contextmanager
def _errors(task: DmsTask) -> Iterator[None]:
    try:
        yield
    except aws_errors() as error:
        message = explained(error, "DMS", task.arn, f"{task.arn}: DMS", _ADVICE, "dms_task.endpoint")
        raise DmsUnavailable(message) from error


def _client(task: DmsTask, aws: Aws) -> Any:
    retries = {"mode": "standard", "max_attempts": 2}
    return aws.client(
        "dms", task, region=task.effective_region, retries=retries, connect_timeout=5, read_timeout=20
    )

"""What AWS DMS says of a replication task: how far its full load is, as a whole and table by table.

Here: asking, with the only import of boto3 for DMS, and remembering an answer for some seconds. Not here: what an
answer means for a table's parts (`silver/full_load.py`). Needs dms:DescribeReplicationTasks, and
dms:DescribeTableStatistics so that a table need not wait for the others of its task.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from lake_assets.config import DmsTask
from lake_assets.errors import LakeError

REMEMBERED_SECONDS = 10.0
"""A sensor looks twice a second, and the API is throttled."""
SILENT_SECONDS = 60.0
"""A service that does not answer is asked again after so long: each question may take ten."""
PAGE = 500
"""Tables an answer, the most that DescribeTableStatistics gives."""
_ADVICE = {
    "AccessDeniedException": "grant dms:DescribeReplicationTasks and dms:DescribeTableStatistics",
    "ResourceNotFoundFault": "correct dms_task.arn",
    "UnrecognizedClientException": "renew the credentials",
    "ExpiredTokenException": "renew the credentials",
}


class DmsUnavailable(LakeError):
    """DMS did not say. The message is one sentence: which task, what is wrong, what to do."""


@dataclass(frozen=True, slots=True)
class TableLoad:
    """A table's own full load. Times are UTC, on DMS's clock."""

    state: str
    """DMS's word, such as `Full load`, `Table is being reloaded`, `Table completed`, `Table error`."""
    started: datetime | None
    ended: datetime | None


@dataclass(frozen=True, slots=True)
class TaskReport:
    """One answer of DMS."""

    asked_at: datetime
    """Before the question was sent."""
    status: str
    percent: int | None
    """FullLoadProgressPercent."""
    loading: int
    """Tables that are being loaded, or wait to be."""
    errored: int
    tables: Mapping[tuple[str, str], TableLoad] = field(default_factory=dict)
    """By schema and table as the source spells them; empty where DMS does not say."""


class TaskReports:
    """Asks for many tables at once. May be shared between threads: they wait for one answer instead of asking again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._locks: dict[DmsTask, Lock] = {}
        self._answers: dict[DmsTask, tuple[float, TaskReport | DmsUnavailable]] = {}
        self._guard = Lock()

    def report(self, task: DmsTask, newer_than: datetime) -> TaskReport:
        """What DMS says of the task, asked after `newer_than`. Raises DmsUnavailable, for some seconds without asking
        again."""
        with self._guard:
            lock = self._locks.setdefault(task, Lock())
        with lock:
            at, answer = self._answers.get(task, (float("-inf"), None))
            lasts = SILENT_SECONDS if isinstance(answer, DmsUnavailable) else REMEMBERED_SECONDS
            fresh = self._clock() - at < lasts
            if (
                answer is None
                or not fresh
                or (isinstance(answer, TaskReport) and answer.asked_at <= newer_than)
            ):
                try:
                    answer = ask(task)
                except DmsUnavailable as error:
                    answer = error
                self._answers[task] = self._clock(), answer
        if isinstance(answer, DmsUnavailable):
            raise answer
        return answer


def ask(task: DmsTask) -> TaskReport:
    """Raises DmsUnavailable."""
    client, asked_at = _client(task), datetime.now(UTC)
    with _errors(task):
        answer = client.describe_replication_tasks(
            Filters=[{"Name": "replication-task-arn", "Values": [task.arn]}], WithoutSettings=True
        )
    found = [entry for entry in answer["ReplicationTasks"] if entry["ReplicationTaskArn"] == task.arn]
    if not found:
        raise DmsUnavailable(f"DMS knows no task {task.arn}: correct dms_task.arn, or its region.")
    stats = found[0].get("ReplicationTaskStats", {})
    return TaskReport(
        asked_at,
        status=found[0].get("Status", "unknown"),
        percent=stats.get("FullLoadProgressPercent"),
        loading=stats.get("TablesLoading", 0) + stats.get("TablesQueued", 0),
        errored=stats.get("TablesErrored", 0),
        tables=_tables(client, task),
    )


def _tables(client: Any, task: DmsTask) -> dict[tuple[str, str], TableLoad]:
    found, page = {}, {"ReplicationTaskArn": task.arn, "MaxRecords": PAGE}
    try:
        with _errors(task):
            while True:
                answer = client.describe_table_statistics(**page)
                for entry in answer.get("TableStatistics", ()):
                    found[entry["SchemaName"], entry["TableName"]] = TableLoad(
                        entry.get("TableState", ""),
                        _utc(entry.get("FullLoadStartTime")),
                        _utc(entry.get("FullLoadEndTime")),
                    )
                if not (marker := answer.get("Marker")):
                    return found
                page |= {"Marker": marker}
    except DmsUnavailable:
        # Not permitted, or not to be had: what the task says as a whole is stricter.
        return {}


def _utc(moment: datetime | None) -> datetime | None:
    return moment.astimezone(UTC) if moment is not None else None


@contextmanager
def _errors(task: DmsTask) -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        # The server's own message may repeat an access key: only its code is passed on.
        code = str(error.response.get("Error", {}).get("Code", "Unknown"))
        advice = _ADVICE.get(code, "look the code up in the DMS API reference if it stays")
        raise DmsUnavailable(f"{task.arn}: DMS answered {code}; {advice}.") from error
    except BotoCoreError as error:
        advice = "check the network, dms_task.endpoint and the credentials"
        raise DmsUnavailable(
            f"{task.arn}: DMS cannot be reached ({type(error).__name__}): {advice}."
        ) from error


def _client(task: DmsTask) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.session.Session().client(
        "dms",
        region_name=task.its_region,
        endpoint_url=task.endpoint,
        aws_access_key_id=task.access_key_id.get_secret_value() if task.access_key_id else None,
        aws_secret_access_key=task.secret_access_key.get_secret_value() if task.secret_access_key else None,
        config=Config(retries={"mode": "standard", "max_attempts": 2}, connect_timeout=5, read_timeout=20),
    )

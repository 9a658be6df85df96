"""A DMS replication task on moto's server, and its answers.

moto (5.2) always reports that 100 % are loaded, and lacks DescribeTableStatistics. Both are set in its backend here, so
that boto3 and HTTP are real and the test chooses the figures.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from moto.core.exceptions import JsonRESTError
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dms.models import dms_backends
from moto.dms.responses import DatabaseMigrationServiceResponse

from lake_assets.config import DmsTask, S3Config
from lake_assets_tests.helpers.servers.s3 import ACCESS, client


class Dms:
    """A replication task in moto, with its answers."""

    def __init__(self, task: DmsTask) -> None:
        self.task = task
        self.stats: dict[str, Any] = {}
        self.tables: list[dict[str, Any]] | None = None
        self.asked: list[str] = []


@contextmanager
def replication_task(s3: S3Config, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dms]:
    """A task of its own on the server."""
    dms = client("dms", s3.endpoint)
    arn = dms.create_replication_task(
        ReplicationTaskIdentifier=f"loading-{uuid4().hex[:8]}",
        SourceEndpointArn="arn:aws:dms:us-east-1:123456789012:endpoint:SOURCE",
        TargetEndpointArn="arn:aws:dms:us-east-1:123456789012:endpoint:TARGET",
        ReplicationInstanceArn="arn:aws:dms:us-east-1:123456789012:rep:INSTANCE",
        MigrationType="full-load-and-cdc",
        TableMappings="{}",
    )["ReplicationTask"]["ReplicationTaskArn"]
    keys = {name: ACCESS[name] for name in ("access_key_id", "secret_access_key")}
    found = Dms(DmsTask(arn=arn, endpoint=s3.endpoint, **keys))
    fake = dms_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].replication_tasks[arn]
    whole = fake.to_dict

    def told() -> dict[str, Any]:
        found.asked.append("task")
        answer = whole()
        answer["ReplicationTaskStats"] |= found.stats
        return answer

    def answer_of(response: DatabaseMigrationServiceResponse) -> str:
        found.asked.append("tables")
        if found.tables is None:
            raise JsonRESTError("AccessDeniedException", "not permitted")
        start = int(response._get_param("Marker") or 0)
        page = {"ReplicationTaskArn": arn, "TableStatistics": found.tables[start : start + 2]}
        return json.dumps(page | ({"Marker": str(start + 2)} if start + 2 < len(found.tables) else {}))

    monkeypatch.setattr(fake, "to_dict", told)
    monkeypatch.setattr(
        DatabaseMigrationServiceResponse, "describe_table_statistics", answer_of, raising=False
    )
    yield found
    dms.delete_replication_task(ReplicationTaskArn=arn)


def statistics(table: str, state: str, **more: Any) -> dict[str, Any]:
    """An entry of DescribeTableStatistics."""
    schema, _, name = table.partition(".")
    return {"SchemaName": schema, "TableName": name, "TableState": state, **more}

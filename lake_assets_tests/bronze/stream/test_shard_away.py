"""A shard that Kinesis refuses for an hour: what the user sees, and what silver has, until it is back and after.

Here: one lake, by the commands of a user. Not here: one request that is refused (`test_kinesis.py`,
`test_kinesis_backlog.py`).
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import dagster as dg
import pytest
from botocore.exceptions import ClientError
from moto.kinesis import models
from moto.kinesis.utils import decompose_shard_iterator
from pyspark.sql import SparkSession

from lake_assets import runtime as runtime_module
from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.stream.clients import kinesis as kinesis_module
from lake_assets.config.config_file import load_lake
from lake_assets.lake import open_lake
from lake_assets.orchestration.checks.stream_check import stream_evaluation
from lake_assets.storage.aws_client import Aws
from lake_assets_tests.helpers.files.dms_messages import message
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake, rows_of
from lake_assets_tests.helpers.servers.s3 import ACCESS
from lake_assets_tests.helpers.servers.streams.kinesis import kinesis_client, kinesis_server, split

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]
AWAY = "shardId-000000000000"
Row = dict[str, Any]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with kinesis_server() as address:
        yield address


class Refused:
    """A client of Kinesis whose requests for the records of some shards are refused."""

    def __init__(self, client: Any, away: set[str]) -> None:
        self._client, self._away = client, away

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_records(self, **request: Any) -> Any:
        _, shard, _ = decompose_shard_iterator(request["ShardIterator"])
        if shard in self._away:
            error = {"Code": "ProvisionedThroughputExceededException", "Message": "Rate exceeded for shard"}
            raise ClientError({"Error": error}, "GetRecords")
        return self._client.get_records(**request)


class Shop:
    """A source whose rows with an even id are in the first half of the stream's shards, and a lake behind it."""

    def __init__(self, server: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.aws, self.name, self.ago = kinesis_client(server), folder.name, timedelta(minutes=75)
        self.away: set[str] = set()
        self.rows: dict[int, str] = {}
        self.seen: dict[int, str] = {}
        """The rows as they would be if only the odd shards' messages existed since the load."""
        self._random, self._transaction = Random(1), 0
        self.aws.create_stream(StreamName=self.name, ShardCount=2)
        self.folder = command_lake(folder, sources={"shop": self._source(server)})
        monkeypatch.setattr(models, "utcnow", lambda: self.now().replace(tzinfo=None))
        monkeypatch.setattr(runtime_module, "FileLog", partial(FileLog, clock=self.now))
        real = Aws.client
        monkeypatch.setattr(
            Aws, "client", lambda aws, *given, **named: Refused(real(aws, *given, **named), self.away)
        )

    def _source(self, server: str) -> dict[str, Any]:
        kinesis = {"name": self.name, "endpoint": server, **ACCESS}
        table = {
            "columns": {"id": "long not null", "v": "string"},
            "primary_key": ["id"],
            "full_load_complete": "immediately",
        }
        return {
            "location": "landed",
            "stream": {"kinesis": kinesis, "engine": "mysql", "interval": "100ms"},
            "dms": {
                "include_transaction_details": True,
                "include_null_and_empty": True,
                "before_image_settings": {"enable_before_image": True},
            },
            "tables": {"public.items": table},
        }

    def now(self) -> datetime:
        return datetime.now(UTC) - self.ago

    def load(self, count: int) -> None:
        self.rows = dict.fromkeys(range(count), "loaded")
        self.seen = dict(self.rows)
        for number, text in self.rows.items():
            self._put("load", {"id": number, "v": text})

    def change(self, count: int) -> None:
        """Changes of the source, each a transaction of its own."""
        for _ in range(count):
            self._transaction += 1
            old, text = self._random.choice([*self.rows]), f"changed {self._transaction}"
            match self._random.choice(["insert", "update", "move", "delete"]):
                case "insert":
                    self._change("insert", {"id": 100 + self._transaction, "v": text}, None)
                case "update":
                    self._change("update", {"id": old, "v": text}, old)
                case "move":
                    self._change("update", {"id": 100 + self._transaction, "v": text}, old)
                case _:
                    self._change("delete", {"id": old, "v": self.rows[old]}, old)

    def _change(self, operation: str, row: Row, old: int | None) -> None:
        before = {"id": old} if operation == "update" and old != row["id"] else None
        self._put(operation, row, before=before, transaction=self._transaction)
        for rows in (self.rows, self.seen) if row["id"] % 2 else (self.rows,):
            rows.pop(row["id"] if old is None else old, None)
            if operation != "delete":
                rows[row["id"]] = row["v"]

    def _put(self, operation: str, row: Row, **more: Any) -> None:
        if operation == "update" and more["before"] is None:
            more["before"] = {}
        self.aws.put_record(
            StreamName=self.name,
            Data=message(operation, row, at=self.now(), **more),
            PartitionKey=str(row["id"]),
            ExplicitHashKey=str((row["id"] % 2 << 127) + (1 << 126)),
        )

    def silver(self) -> dict[int, str]:
        found = rows_of(load_lake(self.folder / "lake.yaml"), "silver_shop.items")
        return {row["id"]: row["v"] for row in found}

    def check(self) -> dg.AssetCheckEvaluation:
        lake = open_lake(load_lake(self.folder / "lake.yaml"))
        return stream_evaluation(lake.runtime, "shop", dg.AssetKey("batch"))


@pytest.fixture
def shop(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    for name, seconds in (("PAUSE", 0.0), ("THROTTLED", 0.1), ("RESHARD", 0.1), ("SILENT", 0.3)):
        monkeypatch.setattr(kinesis_module, f"{name}_SECONDS", seconds)
    return Shop(server, tmp_path, monkeypatch)


@pytest.mark.parametrize("split_too", [False, True])
def test_a_shard_that_was_away_for_an_hour(
    spark: SparkSession,
    shop: Shop,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    split_too: bool,
) -> None:
    def said(command: str, code: int) -> str:
        capsys.readouterr()
        assert call(shop.folder, command) == code
        return " ".join(capsys.readouterr().err.split())

    shop.load(20)
    said("sync", 0)
    assert shop.silver() == shop.rows
    shop.away.add(AWAY)
    for minutes in (60, 40, 20):
        shop.ago = timedelta(minutes=minutes)
        shop.change(15)
        if split_too and minutes == 40:
            split(shop.aws, shop.name, 0)
        caplog.clear()
        said("sync", 0)
        assert f"/{AWAY} is not answered for, and its messages land when it is again." in caplog.text
        assert shop.silver() == shop.seen, "it goes on with the other shard, and with no child of this one"
    shop.ago = timedelta(0)
    shards = 4 if split_too else 2
    told = said("status", 1)
    assert f"1 of {shards} shards does not answer, and nothing of " in told
    assert f"/{AWAY} has landed for 1 h 15 min; " in told
    rest = f"1 of {shards} shards has messages that have not landed, the oldest since "
    assert (rest if split_too else "; everything else has landed") in told
    check = shop.check()
    assert not check.passed
    waiting: Any = check.metadata["waiting"]
    assert waiting.records[0].data["shard"].endswith(AWAY)
    since = datetime.now(UTC) - timedelta(minutes=75)
    assert (
        f"no answer; nothing has landed since {since:%Y-%m-%d}" in waiting.records[0].data["oldest message"]
    )
    shop.away.clear()
    told = said("status", 1)
    assert f"{1 + split_too} of {shards} shards " in told
    assert "messages that have not landed, the oldest since 1 h" in told
    assert f"/{AWAY}; it expires in 22 h 59 min" in told
    said("sync", 0)
    assert shop.silver() == shop.rows
    assert f"shop: everything has landed, of {shards - split_too} shards" in said("status", 0)
    assert shop.check().passed

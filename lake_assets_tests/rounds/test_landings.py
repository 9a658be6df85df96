"""The landings of a process of their own: when they happen, what stops them, and who sees what they land."""

import base64
import gzip
import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from lake_assets.bronze.quarantine.quarantine_log import State
from lake_assets.bronze.scan.discovery import Discovery
from lake_assets.bronze.stream.clients import Polled, StreamFault, StreamLost
from lake_assets.commands.board.board import content
from lake_assets.commands.mend.quarantine_commands import chosen, discard, retry
from lake_assets.commands.mend.recover import recover
from lake_assets.commands.mend.relog import log_again
from lake_assets.commands.show.status import status, stream_lines
from lake_assets.config import LakeConfig
from lake_assets.errors import LakeError
from lake_assets.lake import Lake, open_lake
from lake_assets.orchestration.checks.check_history import latest_evaluation
from lake_assets.orchestration.checks.stream_check import STREAM_LAG, stream_evaluation
from lake_assets.orchestration.lake_definitions import build_definitions
from lake_assets.orchestration.runs.landing_job import landing_job, landing_sensor
from lake_assets.rounds import stream_arrivals
from lake_assets.rounds.arrivals import opened_input
from lake_assets.rounds.landings import Unapplied, is_large, land_until, pause_between
from lake_assets.silver.table.log_mark import LogMark
from lake_assets.silver.table.position import Position
from lake_assets_tests.helpers.files.dms_messages import MemoryClient, MemoryStream, message
from lake_assets_tests.helpers.files.records import logged


class Client(MemoryClient):
    """A reader that meets these errors first, and then ends the landings once it has read everything."""

    errors: list[Exception]
    ended: threading.Event

    def poll(self, seconds: float, most: int) -> Polled:
        if self.errors:
            raise self.errors.pop(0)
        found = super().poll(seconds, most)
        if not found.messages:
            self.ended.set()
        return found


class Shop:
    """A lake whose source has a stream in memory."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stream, self.ended = MemoryStream(), threading.Event()
        self.errors: list[Exception] = []
        kafka = {"bootstrap_servers": "unused", "topic": "unused"}
        source = {
            "location": str(folder / "landed"),
            "stream": {"kafka": kafka, "engine": "mysql", "interval": "50ms"},
            "dms": {
                "include_transaction_details": True,
                "include_null_and_empty": True,
                "before_image_settings": {"enable_before_image": True},
            },
            "tables": {
                "public.items": {
                    "columns": {"id": "long not null", "v": "string"},
                    "primary_key": ["id"],
                }
            },
        }
        catalog = {"uri": str(folder / "catalog.db"), "warehouse": str(folder / "warehouse")}
        self.lake: Lake = open_lake(
            LakeConfig.model_validate({"catalog": catalog, "sources": {"shop": source}})
        )
        monkeypatch.setattr(stream_arrivals, "opened_client", self._opened)
        monkeypatch.setattr("lake_assets.runtime.opened_client", self._opened)

    def _opened(self, *_: Any) -> Client:
        client = Client(self.stream, 1000)
        client.errors, client.ended = self.errors, self.ended
        return client

    def rows(self) -> int:
        """The rows of all files in the log."""
        return sum(file.rows or 0 for file in self.lake.runtime.file_log.files("shop"))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(tmp_path, monkeypatch)


def sent(number: int) -> bytes:
    return message("insert", {"id": number, "v": "x"}, transaction=number + 1)


def test_errors_pass_and_every_message_lands(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.rounds.landings.LONGEST_PAUSE", 0.01)
    shop.stream.put("0", sent(1), sent(2))
    shop.errors += [StreamFault("It is throttled."), StreamFault("It is away.")]
    warnings: list[str] = []
    landed: list[tuple[int, int]] = []
    count = land_until(
        shop.ended,
        shop.lake.runtime,
        "shop",
        warnings.append,
        lambda messages, files: landed.append((messages, files)),
    )
    assert count == 2
    assert landed == [(2, 1)]
    assert shop.rows() == 2
    assert [warning.split(" The next attempt")[0] for warning in warnings] == [
        "It is throttled.",
        "It is away.",
    ]


def test_messages_that_are_gone_end_the_landings(shop: Shop) -> None:
    shop.errors.append(StreamLost("Its retention has passed."))
    with pytest.raises(StreamLost, match="retention"):
        land_until(threading.Event(), shop.lake.runtime, "shop", lambda warning: None)


@pytest.mark.parametrize(
    ("behind", "pause"), [(0.0, 1.0), (9.0, 1.0), (30.0, 3.0), (90.0, 9.0), (3600.0, 10.0)]
)
def test_landings_become_rare_while_silver_is_behind(behind: float, pause: float) -> None:
    assert pause_between(1.0, behind) == pytest.approx(pause)


def test_a_long_backlog_lands_without_pauses(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.rounds.landings.LARGE_MESSAGES", 100)
    monkeypatch.setattr("lake_assets.rounds.landings.pause_between", lambda *_: pytest.fail("it pauses"))
    shop.stream.put("0", *map(sent, range(2000)))
    assert land_until(shop.ended, shop.lake.runtime, "shop", pytest.fail) == 2000


def test_many_large_messages_that_cannot_be_read(shop: Shop) -> None:
    wrong = message("insert", {"id": 1, "v": "x" * 5000}, transaction=1).replace(b"insert", b"truncate")
    shop.stream.put("0", *[wrong] * 150, sent(1))
    land_until(shop.ended, shop.lake.runtime, "shop", lambda warning: None)
    held = shop.lake.runtime.quarantine.open("silver_shop.items")
    assert len(held) == shop.lake.config.sources["shop"].tables["public.items"].quarantine.max_rows == 100
    assert {len(one.raw or "") for one in held} == {4096 + len("… (the whole message is in _stream/)")}
    carriers = (Path(shop.lake.config.sources["shop"].location) / "_stream").glob("*.json.gz")
    kept = [json.loads(line) for file in carriers for line in gzip.decompress(file.read_bytes()).splitlines()]
    assert [base64.b64decode(one["base64"]) for one in kept] == [wrong] * 150
    assert shop.rows() == 1


def test_large_messages_need_no_pause() -> None:
    few = Discovery([], [], {}, 0, 3)
    assert not is_large(few)
    assert is_large(replace(few, listed=10_000))
    assert is_large(replace(few, logged=[logged(1, "a/b/c.csv", size=1 << 20)]))


def test_how_long_silver_is_behind(shop: Shop) -> None:
    runtime, now = shop.lake.runtime, [100.0]
    unapplied = Unapplied(runtime, "shop", clock=lambda: now[0])
    assert unapplied.seconds() == 0
    shop.stream.put("0", sent(1))
    land_until(shop.ended, runtime, "shop", lambda warning: None)
    files = list(runtime.file_log.files("shop"))
    unapplied.add(files)
    now[0] += 20
    assert unapplied.seconds() == 20, "silver has no table"
    runtime.catalog.create_namespace("silver_shop")
    rows = pa.table({"id": [1]})
    table = runtime.catalog.create_table("silver_shop.items", rows.schema)
    table.append(rows, snapshot_properties=Position(files[-1].offset - 1).properties())
    assert unapplied.seconds() == 20
    table.append(rows, snapshot_properties=Position(files[-1].offset).properties())
    assert unapplied.seconds() == 0


def test_who_applies_sees_what_another_process_lands(shop: Shop) -> None:
    news = opened_input(shop.lake.runtime, "shop")
    began = time.monotonic()
    news.scan(0.2)
    assert time.monotonic() - began >= 0.2, "it waits"
    shop.stream.put("0", sent(1))
    other = open_lake(shop.lake.config)
    lands = threading.Timer(0.3, land_until, (shop.ended, other.runtime, "shop", lambda warning: None))
    lands.start()
    began = time.monotonic()
    news.scan(30)
    assert time.monotonic() - began < 20
    lands.join()
    assert shop.rows() == 1


def test_a_run_of_dagster_lands(shop: Shop) -> None:
    shop.stream.put("0", sent(1), sent(2))
    job = landing_job(shop.lake.runtime, "shop", hand_over=0.5)
    with dg.DagsterInstance.ephemeral() as instance:
        assert job.execute_in_process(instance=instance).success
        assert shop.rows() == 2
        sensor = landing_sensor(shop.lake.runtime, "shop", job)
        context = dg.build_sensor_context(instance=instance)
        assert isinstance(sensor(context), dg.RunRequest)
        instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
        stands_by = sensor(context)
        assert isinstance(stands_by, dg.SkipReason)
        assert "lands the messages of shop" in str(stands_by.skip_message)


def test_a_source_with_a_stream_has_the_job_and_its_sensor(shop: Shop) -> None:
    definitions = build_definitions(shop.lake)
    assert definitions.resolve_job_def("shop_landing").name == "shop_landing"
    assert "shop_keeps_landing" in [sensor.name for sensor in definitions.sensors or ()]
    files = definitions.resolve_sensor_def("shop_files")
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance=instance, repository_def=definitions.get_repository_def())
        found: Callable[[dg.SensorEvaluationContext], Any] = files
        assert "another run lands the messages" in found(context).skip_reason.skip_message


def test_what_does_not_land_fails_a_check_and_is_in_the_status(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lake_assets.bronze.stream.backlog.ASK_SECONDS", 0.0)
    batch = dg.AssetKey(["lake_ops", "shop_batch"])
    runtime = shop.lake.runtime
    shop.stream.put("0", sent(1))
    failed = stream_evaluation(runtime, "shop", batch)
    assert not failed.passed, "it came months ago"
    assert "1 of 1 shard has messages that have not landed" in str(failed.metadata["state"].value)
    (line,) = status(shop.lake)
    assert (line.stream_is_late, str(line.stream)[:14]) == (True, "1 of 1 shard h")
    assert "1 of 1 shard has" in content(shop.lake)
    land_until(shop.ended, runtime, "shop", lambda warning: None)
    assert stream_evaluation(runtime, "shop", batch).passed
    assert list(stream_lines(status(shop.lake))) == ["shop: everything has landed, of 1 shard"]
    definitions, check = build_definitions(shop.lake), dg.AssetCheckKey(batch, STREAM_LAG)
    assert check in definitions.get_repository_def().asset_graph.asset_check_keys
    with dg.DagsterInstance.ephemeral() as instance:
        freshness: Any = definitions.resolve_sensor_def("freshness")
        freshness(dg.build_sensor_context(instance=instance, repository_def=definitions.get_repository_def()))
        newest = latest_evaluation(instance, check)
    assert newest is not None, "the sensor evaluates it while nothing runs"
    assert newest.passed


def test_a_log_that_is_lost_had_the_positions(shop: Shop) -> None:
    """It is not made again from files with the lake's own names, nor from messages that may have expired in part."""
    shop.stream.put("0", sent(1))
    land_until(shop.ended, shop.lake.runtime, "shop", lambda warning: None)
    shop.lake.runtime.catalog.drop_table("lake_ops.bronze_files")
    fresh = open_lake(shop.lake.config)
    told = list(log_again(fresh, fresh.runtime, []))
    assert any("only the file log had the positions up to which its stream was read" in line for line in told)
    assert fresh.runtime.file_log.files() == []


def test_a_log_with_the_positions_of_a_stream_is_not_made_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that was restored by hand names the file of another log."""
    shop.stream.put("0", sent(1))
    land_until(shop.ended, shop.lake.runtime, "shop", lambda warning: None)
    files = shop.lake.runtime.file_log.files()
    position = Position(
        log_offset=7, mark=LogMark("another", "LOAD1.csv", "v1", files[0].logged_at, None, "")
    )
    monkeypatch.setattr(
        "lake_assets.commands.mend.recover._positions", lambda *_: [(shop.lake.targets[0], position)]
    )
    with pytest.raises(LakeError, match=r"silver_shop\.items: their .* the stream of shop was read"):
        list(recover(shop.lake))
    assert open_lake(shop.lake.config).runtime.file_log.files() == files


def test_a_message_that_cannot_be_read_is_not_read_again(shop: Shop) -> None:
    """It is in no file. The user discards it."""
    shop.stream.put("0", sent(1).replace(b'"operation": "insert"', b'"operation": "upsert"'))
    runtime = shop.lake.runtime
    land_until(shop.ended, runtime, "shop", lambda warning: None)
    held = chosen(runtime, "public.items", ())
    assert ["its operation 'upsert'" in one.reason for one in held] == [True]
    assert retry(runtime, held) == []
    assert [one.state for one in chosen(runtime, "public.items", ())] == [State.HELD]
    discard(runtime, held)
    assert chosen(runtime, "public.items", ()) == []

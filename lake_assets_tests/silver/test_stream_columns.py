"""DMS's control records change the contract, whenever they land.

Not here: what a change of columns does in each format (`schema/`), the records themselves
(`bronze/stream/test_table_definitions.py`).
"""

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.rounds import stream_arrivals
from lake_assets_tests.helpers.files.dms_messages import NOON, MemoryStream, control, message
from lake_assets_tests.helpers.lakes.bench import Bench

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TABLE = "public.items"
TYPES = {"id": {"type": "INT64"}, "v": {"type": "WSTRING", "length": 20}}


class Shop:
    """A lake whose table has two declared columns, and a stream in memory."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, columns: Mapping[str, str]) -> None:
        self.stream = MemoryStream()
        monkeypatch.setattr(stream_arrivals, "opened_client", lambda config, aws: self.stream.client())
        kafka = {"bootstrap_servers": "unused", "topic": "unused"}
        source = {
            "stream": {"kafka": kafka, "engine": "mysql", "interval": "0s"},
            "dms": {
                "include_transaction_details": True,
                "include_null_and_empty": True,
                "before_image_settings": {"enable_before_image": True},
            },
        }
        table = {"columns": dict(columns), "primary_key": ["id"], "full_load_complete": "immediately"}
        self.bench = Bench(folder, {TABLE: table}, source=source)
        self.transaction = 0

    def create(self, types: Mapping[str, Any], at: datetime = NOON) -> None:
        self.control("create-table", {"table-def": {"columns": dict(types), "primary-key": ["id"]}}, at)

    def control(self, operation: str, details: Any, at: datetime) -> None:
        self.stream.put("controls", control(operation, details, at=at))

    def insert(self, at: datetime = NOON, **row: Any) -> None:
        self.transaction += 1
        self.stream.put("rows", message("insert", row, transaction=self.transaction, at=at))

    def rows(self) -> list[dict[str, Any]]:
        self.bench.apply()
        return sorted(self.bench.stored(), key=lambda row: int(row["id"]))

    def logged(self) -> list[LoggedFile]:
        return self.bench.lake.runtime.file_log.files("shop", TABLE)


Opened = Callable[..., Shop]


@pytest.fixture
def opened(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    return lambda **columns: Shop(tmp_path, monkeypatch, columns or {"id": "long not null", "v": "string"})


def visible(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("_")}


LATER = NOON + timedelta(minutes=1)


@pytest.mark.parametrize(
    "first",
    ["the record", "the row", "neither", pytest.param("nothing before", marks=pytest.mark.long)],
)
def test_a_column_that_is_added(opened: Opened, first: str) -> None:
    """Its type is that of the record, which may come after the first row that has the column."""
    shop = opened()
    shop.create(TYPES)
    shop.insert(id=1, v="a")
    if first != "nothing before":
        shop.rows()
    added = {"columns": {"born": {"type": "DATETIME"}, "raw": {"type": "BYTES"}}}
    if first in ("the record", "neither"):
        shop.control("add-column", added, LATER)
    if first == "the record":
        shop.rows()
    shop.insert(LATER, id=2, v="b", born="2026-03-01T10:00:00.5Z", raw="0x01AB")
    if first in ("the row", "nothing before"):
        later = threading.Timer(0.3, shop.control, ("add-column", added, LATER))
        later.start()
    assert [visible(row) for row in shop.rows()] == [
        {"id": 1, "v": "a", "born": None, "raw": None},
        {"id": 2, "v": "b", "born": datetime.fromisoformat("2026-03-01 10:00:00.5"), "raw": b"\x01\xab"},
    ]


def test_a_row_with_a_column_whose_record_never_comes(opened: Opened) -> None:
    shop = opened()
    shop.create(TYPES | {"n": {"type": "INT32"}})
    shop.insert(id=1, v="a", n=1, extra="x")
    error = str(shop.bench.turn()["items"].error)
    assert "has the column extra, and a text file does not state its type" in error
    assert "column n" not in error


def test_a_column_becomes_wider_and_another_is_dropped(opened: Opened) -> None:
    shop = opened(id="int not null", v="string not null", n="int")
    shop.create({"id": {"type": "INT32"}, "v": {"type": "WSTRING"}, "n": {"type": "INT32"}})
    shop.insert(id=1, v="a", n=1)
    shop.rows()
    shop.control("column-type-change", {"columns": {"n": {"type": "INT64"}}}, LATER)
    shop.control("drop-column", {"columns": {"v": {"type": "WSTRING"}}}, LATER + timedelta(seconds=1))
    shop.insert(LATER + timedelta(seconds=2), id=2, n=2**40)
    assert [visible(row) for row in shop.rows()] == [
        {"id": 1, "v": "a", "n": 1},
        {"id": 2, "v": None, "n": 2**40},
    ]


def test_a_task_that_starts_again_changes_nothing(opened: Opened) -> None:
    """Nor does a record that comes twice, or late."""
    shop = opened()
    shop.create(TYPES)
    shop.insert(id=1, v="a")
    shop.rows()
    known = len(shop.logged())
    shop.create(TYPES, LATER)
    shop.create({"id": {"type": "INT64"}}, NOON - timedelta(minutes=1))
    shop.insert(LATER, id=2, v="b")
    assert [row["v"] for row in shop.rows()] == ["a", "b"]
    files = shop.logged()[known:]
    assert [file.format for file in files] == ["csv"]


def test_a_record_that_says_nothing_known(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    shop = opened()
    shop.create(TYPES)
    shop.control("rename-column", {"from": "v", "to": "w"}, LATER)
    shop.insert(id=1, v="a")
    with caplog.at_level(logging.WARNING, "lake_assets"):
        assert [row["v"] for row in shop.rows()] == ["a"]
    assert "DMS reports rename-column of public.items, and not which columns" in caplog.text

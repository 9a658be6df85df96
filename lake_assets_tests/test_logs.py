"""Log lines of batches as JSON: each has its table, its run and the id that the batch log has, too."""

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.logs import LOG_FORMAT, json_formatter, log_fields
from lake_assets.silver.batch_log.batches_table import BatchLog
from lake_assets.silver.batch_log.record_batches import record_batches
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake, write_items
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS_HEADER, sequence, write_file

logger = logging.getLogger("lake_assets.of_a_test")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Undoes what a command sets for its whole process."""
    own = logging.getLogger("lake_assets")
    before = own.propagate, own.level, [*own.handlers]
    yield
    own.propagate, own.handlers = before[0], before[2]
    own.setLevel(before[1])


@pytest.fixture
def printed() -> StringIO:
    """What a handler with the formatter prints."""
    found = StringIO()
    handler = logging.StreamHandler(found)
    handler.setFormatter(json_formatter())
    own = logging.getLogger("lake_assets")
    own.addHandler(handler)
    own.setLevel(logging.INFO)
    return found


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_a_line_has_the_fields_of_its_thread(printed: StringIO) -> None:
    together = Barrier(2)

    def work(name: str) -> None:
        with log_fields(table=name, run_id=""), log_fields(batch_id=f"of {name}"):
            together.wait()
            logger.info("%s is written", name, extra={"rows": 3})
        logger.info("after %s", name)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, ("a", "b")))
    lines = {line["event"]: line for line in lines_of(printed.getvalue())}
    for name in "ab":
        line = lines[f"{name} is written"]
        assert datetime.now(UTC) - datetime.fromisoformat(line.pop("timestamp")) < timedelta(minutes=1)
        assert line == {
            "level": "info",
            "logger": logger.name,
            "event": f"{name} is written",
            "table": name,
            "batch_id": f"of {name}",
            "rows": 3,
        }
        assert lines[f"after {name}"].keys() == {"level", "logger", "event", "timestamp"}


def test_a_handler_that_came_first_adds_no_fields() -> None:
    record = logging.LogRecord("lake_assets.test", logging.INFO, "", 1, "%s is written", ("a",), None)
    logging.Formatter("%(asctime)s %(message)s").format(record)
    assert json.loads(json_formatter().format(record)).keys() == {"level", "logger", "event", "timestamp"}


def test_an_error_is_in_its_line(printed: StringIO) -> None:
    try:
        raise ValueError("of a file\nwith two lines")
    except ValueError:
        logger.warning("failed", exc_info=True)
    (line,) = lines_of(printed.getvalue())
    assert "ValueError: of a file\nwith two lines" in line["exception"]
    assert printed.getvalue().count("\n") == 1


@pytest.mark.spark
def test_the_lines_of_a_sync(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(LOG_FORMAT, "json")
    folder = command_lake(tmp_path)
    write_items(folder)
    write_items(folder, "others")
    assert call(folder, "sync") == 0
    row = f"U,2026-03-01 12:30:00.000000,2,bad,no price,2026-03-01 11:00:00.000000,{sequence(9)},"
    write_file(folder, "public/others/20260301-130000000.csv", [ITEMS_HEADER, row])
    assert call(folder, "sync") == 1
    of_batches = [line for line in lines_of(capsys.readouterr().err) if "batch_id" in line]
    catalog = open_catalog(load_lake(folder / "lake.yaml").catalog)
    record_batches(
        BatchLog(catalog), [catalog.load_table(f"silver_shop.{name}") for name in ("items", "others")]
    )
    logged = {row.batch_id: row for row in BatchLog(catalog).after(0)}
    by_id: dict[str, list[dict[str, Any]]] = {}
    for line in of_batches:
        by_id.setdefault(line["batch_id"], []).append(line)
    assert len(logged) == 2
    assert len(by_id) == 3
    for batch_id, lines in by_id.items():
        assert len({line["table"] for line in lines}) == 1
        events = [line["event"].partition(": ")[2] for line in lines]
        assert events[0] == "a batch begins"
        if batch_id in logged:
            found = logged[batch_id]
            assert (lines[-1]["table"], lines[-1].get("run_id", "")) == (found.table, found.run_id)
            assert (lines[-1]["rows_read"], lines[-1]["rows"]) == (found.rows_read, found.rows)
            assert events[-1] == "a batch is published"
        else:
            assert lines[0]["table"] == "silver_shop.others"
            assert events[-1].startswith("the batch is not published: ")


@pytest.mark.spark
def test_no_json_unless_it_is_asked_for(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = command_lake(tmp_path)
    write_items(folder)
    assert call(folder, "sync", "--table", "public.items") == 0
    assert lines_of(capsys.readouterr().err) == []

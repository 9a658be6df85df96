"""Single cases of tables behind a stream. Not here: random histories (`soak/stream/`)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.rounds import stream_arrivals
from lake_assets_tests.helpers.files.dms_messages import NOON, ODD, MemoryStream, control, message
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.oracles.random_history import COLUMNS, TABLE

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SETTINGS = {
    "include_transaction_details": True,
    "include_null_and_empty": True,
    "before_image_settings": {"enable_before_image": True},
}


@pytest.fixture
def stream(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> MemoryStream:
    """The stream that every lake reads."""
    found = MemoryStream()
    monkeypatch.setattr(stream_arrivals, "opened_client", lambda config, aws: found.client())
    monkeypatch.setattr("lake_assets.bronze.stream.landing.MOST_MESSAGES", 25)
    return found


def stream_bench(folder: Path, engine: str, key: Sequence[str], **settings: Any) -> Bench:
    table = {"columns": COLUMNS, "primary_key": list(key)} | settings
    kafka = {"bootstrap_servers": "unused", "topic": "unused"}
    stream = {"kafka": kafka, "engine": engine, "interval": "0s"}
    return Bench(folder, {TABLE: table}, source={"stream": stream, "dms": SETTINGS})


def test_odd_texts(stream: MemoryStream, tmp_path: Path) -> None:
    """In inserts, and in updates that leave everything else as it is."""
    bench = stream_bench(tmp_path, "mysql", ["id"])
    rows = [{"v": text, "id": number, "part": text, "n": number} for number, text in enumerate(ODD)]
    changed = [{"id": row["id"], "v": "before" + str(row["v"])} for row in rows]
    inserts = [message("insert", row, table=TABLE, transaction=n) for n, row in enumerate(rows, start=1)]
    updates = [
        message("update", row, before={}, table=TABLE, transaction=n)
        for n, row in enumerate(changed, start=100)
    ]
    stream.put("a", *inserts)
    bench.apply()
    assert bench.rows() == bench.as_silver(TABLE, rows)
    stream.put("a", *updates)
    bench.apply()
    expected = [row | change for row, change in zip(rows, changed, strict=True)]
    assert bench.rows() == bench.as_silver(TABLE, expected)


def rows(*numbers: int, text: str) -> list[dict[str, Any]]:
    return [{"v": text, "id": number, "part": "x", "n": number} for number in numbers]


BEFORE, AFTER = rows(1, 2, 3, text="first"), rows(2, 3, text="second")
SOON = NOON + timedelta(seconds=5)


def loaded(found: Sequence[dict[str, Any]], at: datetime) -> list[bytes]:
    """DMS's messages of a full load: first that it creates the table, then the rows. The helper's rows are built a
    second after `at`."""
    created = [control("drop-table", {}, table=TABLE, at=at), control("create-table", {}, table=TABLE, at=at)]
    return [*created, *(message("load", row, table=TABLE, at=at) for row in found)]


RELOADS = {
    "in one landing": [[*loaded(BEFORE, NOON), *loaded(AFTER, SOON)]],
    "without a change in between": [loaded(BEFORE, NOON), loaded(AFTER, SOON)],
    "its rows land before it": [loaded(BEFORE, NOON), loaded(AFTER, SOON)[2:], loaded(AFTER, SOON)[:2]],
    "a row lands before it": [loaded(BEFORE, NOON), loaded(AFTER, SOON)[3:], loaded(AFTER, SOON)[:3]],
    "a row of the first load lands last": [
        loaded(BEFORE, NOON)[:-1],
        loaded(AFTER, SOON),
        loaded(BEFORE, NOON)[-1:],
    ],
    "everything twice": [
        loaded(BEFORE, NOON),
        loaded(AFTER, SOON),
        loaded(BEFORE, NOON),
        loaded(AFTER, SOON),
    ],
}
SELDOM = ("without a change in between", "its rows land before it", "a row of the first load lands last")
"""Landings."""


@pytest.mark.parametrize(
    "landings",
    [
        pytest.param(landings, id=name, marks=pytest.mark.long if name in SELDOM else ())
        for name, landings in RELOADS.items()
    ],
)
def test_a_reload(stream: MemoryStream, tmp_path: Path, landings: Sequence[Sequence[bytes]]) -> None:
    """What the second load does not have is gone."""
    bench = stream_bench(tmp_path, "postgresql", ["id"])
    for landing in landings:
        stream.put("a", *landing)
        bench.apply()
    assert bench.rows() == bench.as_silver(TABLE, AFTER)
    stream.put("b", message("delete", {"id": 3}, table=TABLE, at=SOON + timedelta(minutes=2)))
    bench.apply()
    assert bench.rows() == bench.as_silver(TABLE, AFTER[:1])


def test_a_task_that_starts_again_is_no_reload(stream: MemoryStream, tmp_path: Path) -> None:
    bench = stream_bench(tmp_path, "postgresql", ["id"])
    stream.put("a", *loaded(BEFORE, NOON))
    bench.apply()
    later = NOON + timedelta(minutes=10)
    stream.put("a", control("create-table", {}, table=TABLE, at=later))
    stream.put("a", message("delete", {"id": 3}, table=TABLE, at=later + timedelta(seconds=1)))
    bench.apply()
    assert bench.rows() == bench.as_silver(TABLE, BEFORE[:2])


def test_a_reload_that_no_message_announces(stream: MemoryStream, tmp_path: Path) -> None:
    """A change in between shows it, as it does in files."""
    bench = stream_bench(tmp_path, "postgresql", ["id"])
    stream.put("a", *(message("load", row, table=TABLE) for row in BEFORE))
    changed = rows(2, text="changed")[0]
    later = NOON + timedelta(minutes=10)
    stream.put("a", message("update", changed, before={}, table=TABLE, at=later))
    bench.apply()
    again = NOON + timedelta(hours=1)
    stream.put("a", *(message("load", row, table=TABLE, at=again) for row in AFTER))
    bench.apply()
    assert bench.rows() == bench.as_silver(TABLE, AFTER)


def test_a_change_twice_in_one_landing_is_once_in_the_log(stream: MemoryStream, tmp_path: Path) -> None:
    """What was stored although the answer was an error comes twice."""
    bench = stream_bench(tmp_path, "mysql", ["id"], also=["change_log"])
    row = {"v": "x", "id": 1, "part": "x", "n": 1}
    stream.put("a", *[message("insert", row, table=TABLE, transaction=1)] * 2)
    bench.apply()
    assert len(bench.rows("items_changes")) == 1


def test_a_message_that_cannot_be_read_stays_in_the_quarantine(stream: MemoryStream, tmp_path: Path) -> None:
    """Whatever the table does meanwhile: nothing else has what it said."""
    bench = stream_bench(tmp_path, "mysql", ["id"])
    row = {"v": "x", "id": 1, "part": "x", "n": 1}
    stream.put("a", message("insert", row, table=TABLE, transaction=0, timestamp="soon"))
    for number in (1, 2):
        stream.put("a", message("insert", row | {"id": number}, table=TABLE, transaction=number))
        bench.apply()
    held = bench.lake.runtime.quarantine.open()
    assert [one.key for one in held] == ["message 0 of a"]


@pytest.mark.parametrize("engine", ["mysql", pytest.param("postgresql", marks=pytest.mark.long)])
def test_a_row_that_moves_long_after_the_load(stream: MemoryStream, tmp_path: Path, engine: str) -> None:
    """It takes the values that its message lacks with it, and not those that the load has read under its new key. The
    sequences of MySQL have no time that says how long after it is."""
    bench = stream_bench(tmp_path, engine, ["id"])
    before = [{"v": "same", "id": 1, "part": "one", "n": 1}, {"v": "same", "id": 2, "part": "two", "n": 2}]
    stream.put("a", *loaded(before, NOON))
    bench.apply()
    later = NOON + timedelta(hours=3)
    stream.put("a", message("delete", {"id": 2}, table=TABLE, transaction=1, at=later))
    moved = {"v": "same", "id": 2}
    at = later + timedelta(seconds=1)
    stream.put("a", message("update", moved, before={"id": 1}, table=TABLE, transaction=2, at=at))
    bench.apply()
    assert bench.rows() == bench.as_silver(TABLE, [{"v": "same", "id": 2, "part": "one", "n": 1}])


def test_a_late_update_of_a_row_that_has_moved_on(stream: MemoryStream, tmp_path: Path) -> None:
    """It reaches each key to which the row has moved since, and has not all columns."""
    bench = stream_bench(tmp_path, "mysql", ["id"])
    stream.put("a", message("insert", rows(1, text="x")[0], table=TABLE, transaction=1))
    for number in range(1, 5):
        moved = message(
            "update", {"id": number + 1}, before={"id": number}, table=TABLE, transaction=10 * number
        )
        stream.put("a", moved)
    bench.apply()
    assert bench.rows() == bench.as_silver(TABLE, [{"v": "x", "id": 5, "part": "x", "n": 1}])
    stream.put("b", message("update", {"id": 1, "n": 7}, before={}, table=TABLE, transaction=5))
    bench.apply()
    assert bench.rows() == bench.as_silver(TABLE, [{"v": "x", "id": 5, "part": "x", "n": 7}])

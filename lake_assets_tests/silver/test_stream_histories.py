"""Histories by chance that arrive in a stream: whatever the order of arrival, repetitions and readers, silver is the
source."""

import os
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.rounds import stream_arrivals
from lake_assets_tests.helpers.files.dms_messages import NOON, ODD, MemoryStream, control, message
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.oracles.random_history import COLUMNS, TABLE, RandomSource

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FIRST, COUNT = (int(number) for number in os.environ.get("LAKE_STREAMS", "0:8").split(":"))
SEEDS = [FIRST, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(FIRST + 1, FIRST + COUNT))]
SETTINGS = {
    "include_transaction_details": True,
    "include_null_and_empty": True,
    "before_image_settings": {"enable_before_image": True},
}


def stream_bench(folder: Path, engine: str, key: Sequence[str]) -> Bench:
    table = {"columns": COLUMNS, "primary_key": list(key)}
    kafka = {"bootstrap_servers": "unused", "topic": "unused"}
    stream = {"kafka": kafka, "engine": engine, "interval": "0s", "most_messages": 25}
    return Bench(folder, {TABLE: table}, source={"stream": stream, "dms": SETTINGS})


def messages_of(changes: Sequence[dict[str, Any]], key: Sequence[str], first: int) -> list[bytes]:
    """The changes as messages; `first`: the number of the first transaction."""
    found = []
    transactions = groupby(changes, key=lambda change: change["commit_ts"])
    for number, (at, own) in enumerate(transactions, start=first):
        for record, change in enumerate(own, start=1):
            operation = {"I": "insert", "U": "update", "D": "delete"}[change["Op"]]
            data = {name: change[name] for name in COLUMNS}
            if operation == "delete":
                data = {name: change[name] for name in key}
            before = {name: change[f"BI_{name}"] for name in key if f"BI_{name}" in change}
            given = {"transaction": number * 1000, "record": record, "at": at}
            found.append(message(operation, data, before=before, table=TABLE, **given))
    return found


def disordered(random: Random, messages: Sequence[bytes]) -> list[bytes]:
    """The messages in another order, some of them twice."""
    places = {n: n + random.choice([0, 0, 0, 1, 3, 10]) for n in range(len(messages))}
    again = [random.randrange(len(messages)) for _ in range(len(messages) // 8)]
    order = sorted([*places, *again], key=lambda n: places[n] + random.random())
    return [messages[n] for n in order]


@pytest.mark.parametrize("seed", SEEDS)
def test_silver_is_the_source(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random, engine = Random(seed), ("mysql", "postgresql")[seed // 2 % 2]
    source = RandomSource(random, ["id", "part"] if seed % 2 else ["id"], always_before=seed % 3 == 0)
    stream = MemoryStream()
    opened: Callable[..., Any] = lambda config, aws: stream.client(random.randint(1, 20))  # noqa: E731
    monkeypatch.setattr(stream_arrivals, "opened_client", opened)
    bench = stream_bench(tmp_path, engine, source.key)
    for _ in range(12):
        source.transaction()
    began = len(source.changes)
    for _ in range(4):
        source.transaction()
    loads = [message("load", row, table=TABLE, at=source.clock.now) for row in source.rows.values()]
    for _ in range(40):
        source.transaction()
    changes = disordered(random, messages_of(source.changes[began:], source.key, first=100))
    everything = [*loads, *changes]
    while everything:
        taken, everything = everything[:30], everything[30:]
        for value in taken:
            stream.put(random.choice("abc"), value)
        if random.random() < 0.7:
            bench.apply()
    bench.apply()
    rows = [{name: row[name] for name in COLUMNS} for row in source.rows.values()]
    assert bench.rows() == bench.as_silver(TABLE, rows)


def test_odd_texts(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In inserts, and in updates that leave everything else as it is."""
    stream = MemoryStream()
    monkeypatch.setattr(stream_arrivals, "opened_client", lambda config, aws: stream.client())
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
"""Landings."""


@pytest.mark.parametrize("landings", RELOADS.values(), ids=RELOADS)
def test_a_reload(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, landings: Sequence[Sequence[bytes]]
) -> None:
    """What the second load does not have is gone."""
    stream = MemoryStream()
    monkeypatch.setattr(stream_arrivals, "opened_client", lambda config, aws: stream.client())
    bench = stream_bench(tmp_path, "postgresql", ["id"])
    for landing in landings:
        stream.put("a", *landing)
        bench.apply()
    assert bench.rows() == bench.as_silver(TABLE, AFTER)
    stream.put("b", message("delete", {"id": 3}, table=TABLE, at=SOON + timedelta(minutes=2)))
    bench.apply()
    assert bench.rows() == bench.as_silver(TABLE, AFTER[:1])


def test_a_task_that_starts_again_is_no_reload(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = MemoryStream()
    monkeypatch.setattr(stream_arrivals, "opened_client", lambda config, aws: stream.client())
    bench = stream_bench(tmp_path, "postgresql", ["id"])
    stream.put("a", *loaded(BEFORE, NOON))
    bench.apply()
    later = NOON + timedelta(minutes=10)
    stream.put("a", control("create-table", {}, table=TABLE, at=later))
    stream.put("a", message("delete", {"id": 3}, table=TABLE, at=later + timedelta(seconds=1)))
    bench.apply()
    assert bench.rows() == bench.as_silver(TABLE, BEFORE[:2])


def test_a_reload_that_no_message_announces(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change in between shows it, as it does in files."""
    stream = MemoryStream()
    monkeypatch.setattr(stream_arrivals, "opened_client", lambda config, aws: stream.client())
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

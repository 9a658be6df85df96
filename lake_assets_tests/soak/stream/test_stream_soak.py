"""Some of the random histories of streams, chosen so that they have every feature; and one history both ways.

Here: a fixed set of seeds, one of them in `make test` and more in `make test-long`. Not here: thousands of them
(`make soak OPTIONS=--stream`).
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from lake_assets.orchestration.lake_definitions import Lake
from lake_assets.rounds import stream_arrivals
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.silver.apply.engine import apply_tables
from lake_assets_tests.helpers.files.dms_files import DmsFile, folder_of
from lake_assets_tests.helpers.servers.streams.kinesalite import kinesalite_server
from lake_assets_tests.soak import bucket as storage
from lake_assets_tests.soak.plan import KINDS
from lake_assets_tests.soak.run import rows_of
from lake_assets_tests.soak.stream import feeds
from lake_assets_tests.soak.stream.run import StreamHistory, history, lake, run
from lake_assets_tests.soak.writer import ITEMS, Object, changes

FEATURES = {
    *KINDS,
    *("server memory", "server kinesis", "server kafka"),
    *("engine mysql", "engine postgresql", "engine oracle", "engine sqlserver"),
    *("shard by key", "shard by table", "shard by nothing", "two readers", "resharded", "noise"),
    *("own order", "no details", "NULL left out", "whole before image"),
    *("late", "replayed", "stored twice", "reloads", "overlap", "kills", "log too", "small batches"),
    *("moves", "chains", "swaps", "shifts", "churn", "pairs", "partial", "toasted", "emptied"),
}
SEEDS = [*range(2, 42), 2032]
SHAPES = ["change_log", "history"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.long) for seed in SEEDS[1:])]
)
def test_silver_is_the_source(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    outcome = run(seed, (), tmp_path)
    assert outcome.failure is None, outcome.failure
    assert outcome.compared


@pytest.fixture(scope="module")
def kinesalite() -> Iterator[str]:
    """The address of a server."""
    with kinesalite_server() as address:
        yield address


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", [3, 23, 43, 63])
def test_another_kinesis_gives_the_same(
    spark: SparkSession, tmp_path: Path, kinesalite: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Moto's server is patched where it closes shards; this one is not."""
    assert history(seed).how.server == "kinesis"
    monkeypatch.setattr(feeds, "kinesis_address", lambda: kinesalite)
    outcome = run(seed, (), tmp_path)
    assert outcome.failure is None, outcome.failure


def test_every_feature_is_among_the_seeds() -> None:
    found = [history(seed) for seed in SEEDS]
    assert set().union(*(one.seen | {one.plan.kind} for one in found)) >= FEATURES


def test_a_seed_is_one_history() -> None:
    one, other = history(8), history(8)
    assert (one.how, one.turns) == (other.how, other.turns)


@pytest.mark.parametrize("seed", range(0, 300, 7))
def test_a_history_is_sent_whole(seed: int) -> None:
    """Each row and each change is in a message, in the order in which DMS builds them."""
    found = history(seed)
    sent = [one for turn in found.turns for look in turn.looks for one in look]
    start = found.written.loads[0].cut if found.written.loads else 0
    assert {one.said.number for one in sent if one.said.what == "change"} == set(
        range(start, len(found.written.source.changes))
    )
    rows = [one.at for one in sent if one.said.what == "load"]
    assert {*rows} == {part.written for load in found.written.loads for part in load.parts}
    times: dict[int, list[str]] = {}
    for one in sorted(sent, key=lambda one: one.at):
        if one.landed is not None and one.said.what == "change":
            times.setdefault(one.said.number, []).append(one.landed[1])
    assert [own[0] for own in times.values()] == sorted(own[0] for own in times.values())


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, pytest.param(2, marks=pytest.mark.long), pytest.param(4, marks=pytest.mark.long)]
)
def test_files_and_a_stream_give_equal_tables(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """The current rows, their history, and the log of the changes of one source."""
    without = ("partial", "toasted", "reloads", "kills")
    found = history(
        next(n for n in range(seed * 100, seed * 100 + 99) if _fits(history(n, without))), without
    )
    by_files = _by_files(found, tmp_path / "files")
    by_stream = _by_stream(found, tmp_path / "stream")
    for name in ("items", "items_changes", "items_history"):
        assert (rows := rows_of(by_files, name))
        assert rows_of(by_stream, name) == rows


def _fits(found: StreamHistory) -> bool:
    return found.plan.keyed and bool(found.written.loads) and found.plan.policy == "immediately"


def _by_stream(found: StreamHistory, folder: Path) -> Lake:
    feed = feeds.Memory(Random(found.plan.seed))
    used = lake(found.plan, found.how, feed.settings, folder, SHAPES)
    for turn in found.turns:
        for look in turn.looks:
            feed.put(look)
    with patch.object(stream_arrivals, "opened_client", lambda *_: feed.client()):
        log_arrivals(used.runtime, "shop")
    return _applied(used)


def _by_files(found: StreamHistory, folder: Path) -> Lake:
    plan = replace(found.plan, repeated=False)
    used = storage.lake(plan, folder, also=SHAPES)
    source, loads = found.written.source, found.written.loads
    rows = [dict(row) | {"Op": "I", "change_seq": None} for part in loads[0].parts for row in part.file.rows]
    load = DmsFile(f"{folder_of(ITEMS)}/LOAD00000001.csv", tuple(rows))
    storage.put_objects(plan, folder, [Object(load, loads[0].began, load=0)])
    storage.put_objects(plan, folder, changes(plan, Random(0), source, loads, set()))
    log_arrivals(used.runtime, "shop")
    return _applied(used)


def _applied(used: Lake) -> Lake:
    for result in apply_tables(used.runtime, used.targets):
        if result.error is not None:
            raise result.error
    return used

"""The turns of a `sync` begin before Dagster's run asks for their results, and each step gets those of its tables."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lake_assets.lake import Lake
from lake_assets.rounds.begun_turns import BegunTurns
from lake_assets.rounds.pending_work import Progress
from lake_assets.silver.apply import engine
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.table.targets import Target
from lake_assets.storage.object_store import StoreError
from lake_assets_tests.helpers.lakes.small_lakes import small_lake

TABLE = {"columns": {"id": "long not null"}, "primary_key": ["id"]}


class Bar(Progress):
    """What was shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def begin(self, task: str, steps: int) -> None:
        self.shown.append(f"{task}: {steps}")

    def done(self, task: str) -> None:
        self.shown.append("done")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return small_lake(tmp_path, {f"public.{name}": TABLE for name in ("a", "b", "c")})


def test_each_step_gets_the_results_of_its_tables(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, free = threading.Barrier(3, timeout=20), threading.Event()

    def turn(runtime: Any, target: Target, progress: Any, *_: Any) -> TableResult:
        begun.wait()
        assert free.wait(20)
        progress(target, "done")
        return TableResult(target)

    monkeypatch.setattr(engine, "apply_table", turn)
    bar, targets = Bar(), lake.targets
    turns = BegunTurns(lake, targets, bar)
    assert bar.shown == ["silver: 3"]
    free.set()  # all have begun by themselves, or the barrier is broken
    for step in (targets[1:2], targets[:1], targets[2:]):
        assert [result.target for result in turns.results(lake.runtime, step)] == list(step)
    turns.close()
    assert bar.shown == ["silver: 3", *["done"] * 3]


def test_nothing_is_shown_without_a_table(lake: Lake) -> None:
    bar = Bar()
    turns = BegunTurns(lake, [], bar)
    assert list(turns.results(lake.runtime, [])) == []
    turns.close()
    assert bar.shown == []


def test_closing_ends_turns_that_nobody_asked_for(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Barrier(4, timeout=20), list[str]()

    def turn(runtime: Any, target: Target, progress: Any, cut: Any, closing: threading.Event) -> TableResult:
        begun.wait()
        assert closing.wait(20)
        ended.append(target.identifier)
        return TableResult(target)

    monkeypatch.setattr(engine, "apply_table", turn)
    turns = BegunTurns(lake, lake.targets, Progress())
    begun.wait()
    turns.close()
    assert sorted(ended) == sorted(target.identifier for target in lake.targets)


def test_a_source_whose_turns_cannot_begin(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own step fails, and those of the others go on."""

    def begin(self: Any, targets: Any, **_: Any) -> None:
        raise StoreError("the bucket is busy")

    monkeypatch.setattr(engine.Turns, "begin", begin)
    turns = BegunTurns(lake, lake.targets, Progress())
    with pytest.raises(StoreError, match="the bucket is busy"):
        list(turns.results(lake.runtime, lake.targets[:1]))
    other = replace(lake.targets[0], source="other")
    assert list(turns.results(lake.runtime, [other])) == []
    turns.close()

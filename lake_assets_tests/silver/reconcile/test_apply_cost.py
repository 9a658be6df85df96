"""The cost of a cycle beside that of applying, from the figures that a table's commits record."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from lake_assets.silver.reconcile import apply_cost
from lake_assets.silver.reconcile.apply_cost import percent_of_apply
from lake_assets.silver.reconcile.cycle import Cycle

NOW = datetime(2026, 3, 8, tzinfo=UTC)


def commit(hours_ago: float, seconds: float, **others: str) -> Any:
    properties = {"lake.batch.seconds": str(seconds), "lake.batch.strategy": "append", **others}
    at = int((NOW - timedelta(hours=hours_ago)).timestamp() * 1000)
    return SimpleNamespace(timestamp_ms=at, summary=SimpleNamespace(additional_properties=properties))


def test_the_share_of_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds of applying an hour are 1,680 in a week; three of seven slices took 9 s, so that a cycle takes 21."""
    commits = [
        commit(1, 7),
        commit(1, 50, **{"lake.restamp-of": "1"}),
        commit(2, 50, **{"lake.batch.strategy": "repair"}),
        commit(3, 33),
        commit(4, 1000),
    ]
    monkeypatch.setattr(apply_cost, "main_chain", lambda table: commits)
    table: Any = None
    cycle = Cycle(7, NOW, next=3, seconds=9.0)
    assert percent_of_apply(table, cycle, timedelta(days=7), NOW) == 1.25
    assert percent_of_apply(table, Cycle(7, NOW), timedelta(days=7), NOW) is None
    monkeypatch.setattr(apply_cost, "main_chain", lambda table: commits[-1:])
    assert percent_of_apply(table, cycle, timedelta(days=7), NOW) is None

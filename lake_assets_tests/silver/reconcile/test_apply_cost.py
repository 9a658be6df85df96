"""The cost of a cycle beside that of applying: slices, readings and a warning by measured seconds.

Here: the decisions. Not here: the seconds of real comparisons (`test_compare_slices.py`).
"""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from lake_assets.config import Reconcile
from lake_assets.silver.reconcile import apply_cost
from lake_assets.silver.reconcile.apply_cost import Budget, applied_seconds
from lake_assets.silver.reconcile.cycle import Cycle

NOW = datetime(2026, 3, 8, tzinfo=UTC)
WEEK = timedelta(days=7)


def commit(hours_ago: float, seconds: float, **others: str) -> Any:
    properties = {"lake.batch.seconds": str(seconds), "lake.batch.strategy": "append", **others}
    at = int((NOW - timedelta(hours=hours_ago)).timestamp() * 1000)
    return SimpleNamespace(timestamp_ms=at, summary=SimpleNamespace(additional_properties=properties))


def test_the_seconds_of_applying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds of applying an hour are 1,680 in a week."""
    commits = [
        commit(1, 7),
        commit(1, 50, **{"lake.restamp-of": "1"}),
        commit(2, 50, **{"lake.batch.strategy": "repair"}),
        commit(3, 33),
        commit(4, 1000),
    ]
    monkeypatch.setattr(apply_cost, "main_chain", lambda table: commits)
    table: Any = None
    assert applied_seconds(table, WEEK, NOW) == 1680
    monkeypatch.setattr(apply_cost, "main_chain", lambda table: commits[-1:])
    assert applied_seconds(table, WEEK, NOW) is None


def test_the_percent_of_a_cycle() -> None:
    """Three of seven slices took 9 s, so that the cycle takes 21; a slice that differed was read again for 3 s."""
    budget = Budget(Reconcile(), 1680)
    assert budget.percent(Cycle(7, NOW, next=3, seconds=9.0, readings=3)) == 1.25
    assert budget.percent(Cycle(7, NOW, next=3, seconds=12.0, readings=4)) == round(100 * 24 / 1680, 3)
    assert budget.percent(Cycle(7, NOW, next=7, seconds=9.0, readings=3)) == round(100 * 9 / 1680, 3)
    assert budget.percent(Cycle(7, NOW)) is None
    assert Budget(Reconcile(), None).percent(Cycle(7, NOW, next=3, seconds=9.0, readings=3)) is None


@pytest.mark.parametrize(
    ("reading", "applied", "slices"),
    [(10, 2400, 7), (10, 2000, 6), (10, 700, 2), (10, 10, 1), (10, None, 7), (None, 2000, 7)],
)
def test_a_cycle_has_as_many_slices_as_the_share_allows(
    reading: float | None, applied: float | None, slices: int
) -> None:
    """3 % of 2,000 s are six readings of 10 s."""
    former = Cycle(2, NOW, next=2, seconds=2 * reading, readings=2) if reading else None
    assert Budget(Reconcile(), applied).slices(former) == slices
    assert Budget(Reconcile(share=None), applied).slices(former) == 7


def test_slices_that_cost_too_much_are_read_together() -> None:
    cycle = Cycle(7, NOW, next=1, seconds=10, readings=1)
    assert [*Budget(Reconcile(), 2400).chosen(cycle, range(1, 2))] == [1]
    assert [*Budget(Reconcile(), 2000).chosen(cycle, range(1, 2))] == [1, 2, 3, 4, 5, 6]
    assert [*Budget(Reconcile(), 2000).chosen(cycle, range(1, 1))] == [], "none is due"
    assert [*Budget(Reconcile(), 1).chosen(Cycle(7, NOW), range(1))] == [0], "nothing is measured yet"
    assert [*Budget(Reconcile(share=None), 2000).chosen(cycle, range(1, 2))] == [1]


def test_a_reading_that_costs_too_much_is_a_warning() -> None:
    """It has both figures, and each of the two settings that it names is enough."""
    cycle = Cycle(1, NOW, next=1, seconds=90, readings=1)
    said = Budget(Reconcile(), 1200).warning(cycle)
    assert said == (
        "A comparison takes 90.0 s. Applying takes 1200.0 s in 7 d, of which checks.reconcile.share "
        "allows 3 %, 36.0 s. The period is kept, at 7.5 %. Set checks.reconcile.every to 18 days, or share to 0.083 "
        "(null: no limit)."
    )
    assert Budget(Reconcile(share=0.083), 1200).warning(cycle) is None
    longer = Reconcile(every=timedelta(days=18))
    assert Budget(longer, 1200 * 18 / 7).warning(cycle) is None
    assert Budget(Reconcile(share=None), 1200).warning(cycle) is None
    assert Budget(Reconcile(), 3001).warning(cycle) is None
    small = Cycle(1, NOW, next=1, seconds=59, readings=1)
    assert Budget(Reconcile(), 1).warning(small) is None, "nobody is warned of a minute"

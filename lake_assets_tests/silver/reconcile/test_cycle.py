"""The progress of a cycle, slice by slice: what is kept of those that differ, and when a cycle is complete.

Here: the decisions. Not here: the cost (`test_apply_cost.py`), real comparisons (`test_compare_slices.py`).
"""

from datetime import UTC, datetime, timedelta

import pytest

from lake_assets.silver.reconcile.cycle import Cycle

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_a_slice_that_differs_is_kept_until_it_is_compared_again() -> None:
    cycle = Cycle(4, NOON).after([0, 1, 3], {0: "one row", 3: "two rows"}, 10, 1.5, NOON)
    assert (cycle.next, cycle.completed) == (2, None)
    cycle = cycle.after([2], {}, 10, 1.5, NOON)
    assert (cycle.next, cycle.different) == (3, {0: "one row", 3: "two rows"})
    cycle = cycle.after([0, 3], {3: "one row"}, 10, 1.5, NOON + HOUR)
    assert (cycle.over, cycle.different) == (True, {3: "one row"})
    assert Cycle.from_json(cycle.as_json()) == cycle


def test_a_cycle_is_complete_once() -> None:
    """Not again when a slice of it is compared again."""
    over = Cycle(1, NOON).after([0], {0: "one row"}, 10, 1.5, NOON + HOUR)
    assert over.completed == NOON + HOUR
    assert over.after([0], {}, 10, 1.5, NOON + 2 * HOUR).completed == NOON + HOUR


def test_a_slice_is_due_half_a_step_early() -> None:
    """A schedule is not exact to the second."""
    cycle, every = Cycle(2, NOON, next=1), 2 * HOUR
    second = timedelta(seconds=1)
    assert [*cycle.due(NOON + HOUR / 2 - second, every)] == []
    assert [*cycle.due(NOON + HOUR / 2, every)] == [1]
    assert not cycle.is_outdated(NOON + 9 * HOUR, every)


@pytest.mark.parametrize(("slices", "early"), [(1, 1), (7, 1), (14, 0.5)])
def test_a_cycle_begins_once_in_a_period(slices: int, early: float) -> None:
    """Up to half a day of a week early, if the check is evaluated daily."""
    over, day, second = Cycle(slices, NOON, next=slices), 24 * HOUR, timedelta(seconds=1)
    begin = NOON + 7 * day - early * day / 2
    assert [over.is_outdated(when, 7 * day) for when in (begin - second, begin)] == [False, True]

"""How long to wait before what failed is tried again: the rule, and the memory of one process."""

from datetime import timedelta

import pytest

from lake_assets.rounds.backoff import Failures, delay


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 0), (1, 15), (2, 30), (3, 60), (6, 480), (7, 900), (12, 900), (100, 900)],
)
def test_delay(failures: int, seconds: int) -> None:
    assert delay(failures) == timedelta(seconds=seconds)


def test_failures_wait_each_at_its_own_pace() -> None:
    now = [100.0]
    failures = Failures(lambda: now[0])
    assert failures.seconds_left("items") == 0
    assert [failures.add("items"), failures.add("items")] == [1, 2]
    assert failures.add("lines") == 1
    now[0] += 20
    assert (failures.seconds_left("items"), failures.seconds_left("lines")) == (10, 0)
    assert "lines" in failures
    failures.clear("items")
    assert failures.seconds_left("items") == 0
    assert "items" not in failures

"""Exponential back-off before the next attempt: the rule. Pure.

Here: how long to wait, and the failures that a continuous run remembers. Not here: failures that Dagster stores
(`orchestration/runs/retry_wait.py`).
"""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta

FIRST_WAIT = timedelta(seconds=15)
"""The wait after one failure; it doubles with each further failure in a row."""
LONGEST_WAIT = timedelta(minutes=15)
MOST_DOUBLINGS = 20


def delay(failures: int) -> timedelta:
    """How long to wait after that many failures in a row."""
    if failures == 0:
        return timedelta(0)
    return min(FIRST_WAIT * (1 << min(failures - 1, MOST_DOUBLINGS)), LONGEST_WAIT)


def seconds_left(failed: Sequence[float], now: float) -> float:
    """Seconds left to wait at `now`, after failures in a row at these times, the newest first."""
    if not failed:
        return 0.0
    return max(0.0, failed[0] + delay(len(failed)).total_seconds() - now)


class Failures:
    """Tables and marts that have failed in this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: dict[str, list[float]] = {}
        """By name, the times of its failures in a row, the newest first."""

    def __contains__(self, name: str) -> bool:
        return name in self._failed

    def add(self, name: str) -> int:
        """Records a failure; returns the number of failures in a row."""
        failed = self._failed.setdefault(name, [])
        failed.insert(0, self._clock())
        return len(failed)

    def clear(self, name: str) -> None:
        """Records a success."""
        self._failed.pop(name, None)

    def seconds_left(self, name: str) -> float:
        """Seconds until the next attempt; 0 when it may be now."""
        return seconds_left(self._failed.get(name, ()), self._clock())

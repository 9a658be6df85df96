"""Waiting longer and longer before what failed is tried again: the rule. Pure.

Here: how long, and the memory of a run that stays up. Not here: failures that Dagster remembers
(`orchestration.runs.retry_wait.py`).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from lake_assets.config import AutomationConfig

MOST_DOUBLINGS = 20


@dataclass(frozen=True, slots=True)
class Backoff:
    """After failures in a row: base, twice base, four times base … at most `most`."""

    base: timedelta
    most: timedelta

    @classmethod
    def of(cls, automation: AutomationConfig) -> "Backoff":
        """As lake.yaml says."""
        return cls(automation.backoff_base, automation.backoff_max)

    def delay(self, failures: int) -> timedelta:
        """How long to wait after that many failures in a row."""
        if failures == 0:
            return timedelta(0)
        return min(self.base * (1 << min(failures - 1, MOST_DOUBLINGS)), self.most)

    def left(self, failed: Sequence[float], now: float) -> float:
        """Seconds that are left to wait at `now`, after failures in a row at these times, the newest first."""
        if not failed:
            return 0.0
        return max(0.0, failed[0] + self.delay(len(failed)).total_seconds() - now)


class Failures:
    """Tables and marts that have failed in this process."""

    def __init__(self, backoff: Backoff, clock: Callable[[], float] = time.monotonic) -> None:
        self._backoff = backoff
        self._clock = clock
        self._failed: dict[str, list[float]] = {}
        """By name, when it has failed in a row, the newest first."""

    def __contains__(self, name: str) -> bool:
        return name in self._failed

    def add(self, name: str) -> int:
        """One more failure; the number of them in a row."""
        failed = self._failed.setdefault(name, [])
        failed.insert(0, self._clock())
        return len(failed)

    def clear(self, name: str) -> None:
        """It succeeded."""
        self._failed.pop(name, None)

    def seconds_left(self, name: str) -> float:
        """Until it may be tried again; 0 when it may be tried now."""
        return self._backoff.left(self._failed.get(name, ()), self._clock())

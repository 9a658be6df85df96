"""Not computing marts from tables that are just being applied.

Here: how long a stale mart waits for the runs that were applying its inputs when it became stale. Not here: whether it
is stale (`orchestration/assets/mart_runs.py`).

A run commits its tables one after the other. A mart that is requested at the first commit starts a second Spark beside
the run's, and has to be computed again for the commits that follow. It waits for the runs of that moment only, and not
for long: under a feed that never pauses there is always a run under way.
"""

import time
from collections.abc import Callable, Collection

PATIENCE = 30.0
"""Seconds. A full load may take an hour; a mart of other tables should not."""


class Hold:
    """Remembers since when each mart is stale. Only a delay is lost with it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stale: dict[str, tuple[float, frozenset[str]]] = {}

    def waits_for(self, mart: str, applying: Collection[str]) -> list[str]:
        """The runs for which the stale `mart` still waits; `applying` are those that compute its inputs now."""
        since, runs = self._stale.setdefault(mart, (self._clock(), frozenset(applying)))
        return sorted(runs & set(applying)) if self._clock() - since < PATIENCE else []

    def forget(self, marts: Collection[str]) -> None:
        """These are requested, or stale no more."""
        for mart in marts:
            self._stale.pop(mart, None)

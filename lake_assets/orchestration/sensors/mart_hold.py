"""Delays marts whose inputs are being applied.

Here: how long a stale mart waits for the runs that were applying its inputs when it became stale. Not here: whether it
is stale (`gold/view.py`).

A run commits its tables one after the other. A mart that is requested at the first commit starts a second Spark beside
the run's, and must be computed again after the later commits. It waits only for the runs of that moment, and only for
PATIENCE seconds: under a continuous feed a run is always under way.
"""

import time
from collections.abc import Callable, Collection

PATIENCE = 30.0
"""Seconds. A full load may take an hour; a mart of other tables should not."""


class Hold:
    """Remembers since when each mart is stale. If it is lost, only a delay is lost."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stale: dict[str, tuple[float, frozenset[str]]] = {}

    def waits_for(self, mart: str, applying: Collection[str]) -> list[str]:
        """The runs that the stale `mart` still waits for; `applying` are the runs that compute its inputs now."""
        since, runs = self._stale.setdefault(mart, (self._clock(), frozenset(applying)))
        return sorted(runs & set(applying)) if self._clock() - since < PATIENCE else []

    def forget(self, marts: Collection[str]) -> None:
        """Forgets marts that are requested or no longer stale."""
        for mart in marts:
            self._stale.pop(mart, None)

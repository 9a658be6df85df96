"""Looking again and again within one sensor tick, because the daemon's own loop is 5 s.

Here: the pace. Not here: what is looked at (`file_sensor.py`, `mart_sensor.py`).
"""

import time
from collections.abc import Callable

import dagster as dg

from lake_assets.config import AutomationConfig

REST = 4
"""A look is followed by a pause of this many times its own length, so that an idle lake of a thousand tables, whose
looks take seconds, leaves most of the machine to the runs."""


def poll(
    look: Callable[[], dg.SensorResult],
    automation: AutomationConfig,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dg.SensorResult:
    """The first result with something to do in it, or the last one when the tick's window is over."""
    end = clock() + automation.poll_window.total_seconds()
    while True:
        began = clock()
        result = look()
        pause = max(automation.poll_interval.total_seconds(), REST * (clock() - began))
        if result.run_requests or result.asset_events or clock() + pause > end:
            return result
        sleep(pause)


def sentence(reasons: list[str], otherwise: str, most: int = 5) -> str:
    """The reasons in one skip message, of which the UI shows the beginning."""
    shown = reasons[:most] + ([f"and {len(reasons) - most} more"] if len(reasons) > most else [])
    return "; ".join(shown) or otherwise

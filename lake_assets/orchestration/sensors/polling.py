"""Evaluates a sensor repeatedly within one tick, because the daemon's own loop takes 5 s.

Here: the pace. Not here: what is evaluated (`file_sensor.py`, `mart_sensor.py`).
"""

import time
from collections.abc import Callable

import dagster as dg

from lake_assets.config import AutomationConfig

WINDOW_SECONDS = 4.0
"""How long one sensor tick waits for something new; below the daemon's 5 s loop, so that no tick is late."""
PAUSE_FACTOR = 4
"""The pause after an evaluation is this many times its duration. So an idle lake of a thousand tables, whose
evaluations take seconds, leaves most of the machine to the runs."""


def poll(
    evaluate: Callable[[], dg.SensorResult],
    automation: AutomationConfig,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dg.SensorResult:
    """The first result with a run request or an event, or else the last one when the tick's window is over."""
    end = clock() + WINDOW_SECONDS
    while True:
        began = clock()
        result = evaluate()
        pause = max(automation.poll_interval.total_seconds(), PAUSE_FACTOR * (clock() - began))
        if result.run_requests or result.asset_events or clock() + pause > end:
            return result
        sleep(pause)


def sentence(reasons: list[str], otherwise: str, most: int = 5) -> str:
    """The first reasons in one skip message: the UI shows only its beginning."""
    shown = reasons[:most] + ([f"and {len(reasons) - most} more"] if len(reasons) > most else [])
    return "; ".join(shown) or otherwise

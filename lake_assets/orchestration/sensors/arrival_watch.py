"""One look at a time at a source's bucket, however long it takes.

Here: a look that goes on while sensor ticks come and go. Not here: the look itself (`rounds/arrivals.py`).

The first look at a bucket of a hundred thousand files inspects them all, which takes longer than the 60 s that Dagster
gives a tick. A tick that is cut off does not stop its look, and the next tick would begin a second one.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait

from lake_assets.bronze.scan.discovery import Discovery


class ArrivalWatch:
    """Runs `look` in a thread of its own."""

    def __init__(self, look: Callable[[], Discovery]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._under_way: Future[Discovery] | None = None
        self._began = 0.0

    def poll(self, patience: float) -> Discovery | None:
        """What a look found that began now, or before and is still under way; None if it takes longer than `patience`
        seconds. Raises what the look raised."""
        with self._lock:
            if self._under_way is None:
                self._under_way, self._began = self._start(), time.monotonic()
            look = self._under_way
        wait([look], timeout=patience)
        if not look.done():
            return None
        with self._lock:
            if self._under_way is look:
                self._under_way = None
        return look.result()

    @property
    def seconds(self) -> float:
        """How long the look that is under way has taken so far."""
        return time.monotonic() - self._began

    def _start(self) -> Future[Discovery]:
        future: Future[Discovery] = Future()

        def run() -> None:
            try:
                found = self._look()
            except BaseException as error:  # noqa: BLE001  (handed to whoever asks for the outcome)
                future.set_exception(error)
            else:
                future.set_result(found)

        # A daemon, unlike an executor's thread: a long look does not hold up the end of the process. What it has found
        # enters the log in one commit, or not at all.
        threading.Thread(target=run, name="arrivals", daemon=True).start()
        return future

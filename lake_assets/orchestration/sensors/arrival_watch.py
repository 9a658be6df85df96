"""Scans a source's bucket, one scan at a time, however long it takes.

Here: a scan that continues from one sensor tick to the next. Not here: the scan itself (`rounds/arrivals.py`).

The first scan of a bucket of a hundred thousand files inspects them all, which takes longer than the 60 s that Dagster
gives a tick. Dagster's timeout of a tick does not stop its scan, and the next tick would start a second one.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait

from lake_assets.bronze.scan.discovery import Discovery


class ArrivalWatch:
    """Runs `scan` in a separate thread."""

    def __init__(self, scan: Callable[[], Discovery]) -> None:
        self._scan = scan
        self._lock = threading.Lock()
        self._under_way: Future[Discovery] | None = None
        self._began = 0.0

    def poll(self, patience: float) -> Discovery | None:
        """The result of the scan that is under way, or of a new one; None if it takes longer than `patience` seconds.
        Raises what the scan raised."""
        with self._lock:
            if self._under_way is None:
                self._under_way, self._began = self._start(), time.monotonic()
            scan = self._under_way
        wait([scan], timeout=patience)
        if not scan.done():
            return None
        with self._lock:
            if self._under_way is scan:
                self._under_way = None
        return scan.result()

    @property
    def seconds(self) -> float:
        """How long the scan that is under way has taken so far."""
        return time.monotonic() - self._began

    def _start(self) -> Future[Discovery]:
        future: Future[Discovery] = Future()

        def run() -> None:
            try:
                found = self._scan()
            except BaseException as error:  # noqa: BLE001  (`poll` raises it)
                future.set_exception(error)
            else:
                future.set_result(found)

        # A daemon thread, unlike an executor's: a long scan does not delay the end of the process. Its files enter the
        # log in one commit, or not at all.
        threading.Thread(target=run, name="arrivals", daemon=True).start()
        return future

"""A run's heartbeat.

When a run's machine dies, Dagster leaves the run STARTED for ever, and a sensor would wait for it for ever. The run
writes the time to its own tags; a sensor that finds an old time declares the run failed
(`orchestration/runs/in_flight.py`).
"""

import logging
import threading
import time
from types import TracebackType

import dagster as dg

from lake_assets.orchestration.shared.run_tags import HIDDEN

HEARTBEAT = f"{HIDDEN}heartbeat"
BEAT_SECONDS = 5.0
"""How often a run writes its heartbeat."""
SILENT_SECONDS = 60.0
"""A run without a heartbeat for this time is considered dead."""

logger = logging.getLogger(__name__)


class Heartbeat:
    """Context manager: beats from a thread every few seconds while the block runs."""

    def __init__(self, instance: dg.DagsterInstance, run_id: str) -> None:
        self._instance = instance
        self._run_id = run_id
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> "Heartbeat":
        # Nobody else sees an instance in memory, and its SQLite refuses to be used by two threads at once.
        if not self._instance.is_ephemeral:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=BEAT_SECONDS)

    def _beat(self) -> None:
        while True:
            try:
                self._instance.add_run_tags(self._run_id, {HEARTBEAT: f"{time.time():.3f}"})
            except Exception:  # the next beat makes up for a missed one
                logger.warning("heartbeat of run %s could not be written", self._run_id, exc_info=True)
            if self._stop.wait(BEAT_SECONDS):
                return

"""Reloads Dagster's code locations when the first day of the data becomes known, beside `lake-assets dev`.

Dagster learns where partitions begin when it loads the definitions; with files that were never applied, that is before
there is a row. Here: looking at the data, and asking the webserver to load the definitions again. Not here: where
partitions begin (`orchestration/shared/first_periods.py`).
"""

import json
import logging
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lake_assets.config.config_file import load_lake
from lake_assets.lake import open_lake
from lake_assets.orchestration.shared.first_periods import FirstPeriods, first_periods

PAUSE_SECONDS = 5.0
"""Seconds between two looks, at least."""
PAUSE_FACTOR = 5
"""The pause after a look is this many times its duration, so that a large lake is not busy with it."""

logger = logging.getLogger(__name__)


def begins_earlier(now: FirstPeriods, loaded: FirstPeriods) -> bool:
    """Whether the data of an asset has a first day that the loaded definitions do not know, or an earlier one."""
    tables = ((first, loaded.tables.get(name)) for name, first in now.tables.items())
    marts = ((first, loaded.marts.get(name)) for name, first in now.marts.items())
    return any(known is None or first < known for first, known in (*tables, *marts))


@contextmanager
def reloading(config: Path, port: int) -> Iterator[None]:
    """Looks at the data as long as the block runs. `port`: the webserver's."""
    ended = threading.Event()

    def look() -> FirstPeriods:
        lake = open_lake(load_lake(config))
        return first_periods(lake.runtime, lake.marts)

    watch = threading.Thread(
        target=watch_first_days,
        args=(look, lambda: reload_definitions(port), ended),
        name="first-days",
        daemon=True,
    )
    watch.start()
    try:
        yield
    finally:
        ended.set()


def watch_first_days(
    look: Callable[[], FirstPeriods], reload: Callable[[], None], ended: threading.Event
) -> None:
    """Calls `reload` when data begins earlier than at the last reload, once two looks in a row find the same: the
    tables of a first load get their rows one after the other."""
    loaded: FirstPeriods | None = None
    before: FirstPeriods | None = None
    while not ended.is_set():
        began = time.monotonic()
        try:
            now = look()
            if loaded is None:
                loaded = now
            elif begins_earlier(now, loaded) and now == before:
                reload()
                loaded = now
            before = now
        except Exception as error:  # noqa: BLE001  (the next look follows)
            logger.debug("the first days of the data were not compared: %s", error)
        ended.wait(max(PAUSE_SECONDS, PAUSE_FACTOR * (time.monotonic() - began)))


def reload_definitions(port: int) -> None:
    """Asks the webserver to load all code locations again. Raises OSError if it does not answer."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/graphql",
        json.dumps({"query": "mutation{reloadWorkspace{__typename}}"}).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        answer.read()
    logger.info("the definitions were loaded again: partitions begin at the first day of the data")

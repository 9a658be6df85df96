"""Why a source's newest scan failed: files that it did not log are unknown to every table, which look up to date.

Here: storing the reason in the lake, so that it can be shown without a scan, and a disk without room, on which it
cannot be stored. Not here: scanning (`discovery.py`), who is told (`rounds/arrivals.py`, `commands/show/status.py`).
"""

import logging
import shutil
import time

from lake_assets.config import CatalogConfig, LakeConfig
from lake_assets.config.secrets import hidden_in
from lake_assets.iceberg.file_io.local_io import local_path
from lake_assets.iceberg.findings import Findings
from lake_assets.spark.catalog_conf import warehouse_uri

KIND = "scan"
RESOLVED_FOR = 60.0
"""Seconds for which a process that has stored a success stores no further one: it may scan twice a second."""
LEAST_ROOM = 1 << 20
"""Bytes that the files of a commit to the file log may take."""

logger = logging.getLogger(__name__)


class ScanFailures:
    """The failure of each source's newest scan. May be shared between threads."""

    def __init__(self, lake: LakeConfig, findings: Findings) -> None:
        self._lake = lake
        self._findings = findings
        self._resolved_at: dict[str, float] = {}

    def note(self, source: str, error: Exception | None) -> None:
        """Stores why the scan failed; None resolves it. Never raises: the caller reports the scan itself."""
        try:
            if error is not None:
                self._resolved_at.pop(source, None)
                self._findings.note(KIND, source, {"reason": hidden_in(self._lake, str(error))})
            elif time.monotonic() - self._resolved_at.get(source, -RESOLVED_FOR) >= RESOLVED_FOR:
                if source in self._findings.of(KIND):
                    self._findings.note(KIND, source, {})
                self._resolved_at[source] = time.monotonic()
        except Exception:  # the disk is full, or the catalog is down
            logger.debug("the outcome of a scan of %s could not be recorded", source, exc_info=True)

    def sentences(self) -> list[str]:
        """A sentence for each source whose newest scan has failed, and one for a disk without room."""
        found = [
            f"{source}: the newest scan failed, at {failure.at:%Y-%m-%d %H:%M:%S} UTC, so there may be files that no "
            f"table knows: {failure.content['reason']}"
            for source, failure in sorted(self._findings.of(KIND).items())
            if source in self._lake.sources
        ]
        return [*found, *_full_disk(self._lake.catalog)]


def _full_disk(catalog: CatalogConfig) -> list[str]:
    folder = local_path(warehouse_uri(catalog))
    try:
        free = shutil.disk_usage(folder).free if folder else LEAST_ROOM
    except OSError:
        return []  # there is no warehouse yet
    if free >= LEAST_ROOM:
        return []
    return [
        f"The disk of {folder} is full: new files cannot be logged, so there may be files that no table knows. Make "
        "room, and run lake-assets sync."
    ]

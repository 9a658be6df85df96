"""One look at a source's bucket: what is new goes to the file log, the rest is told.

Here: discovery for one configured source, with what a user should hear about it. Not here: Dagster events.
"""

import logging

from lake_assets.bronze.discovery import Discovery, discover
from lake_assets.runtime import LakeRuntime

logger = logging.getLogger(__name__)


def log_arrivals(runtime: LakeRuntime, source: str) -> Discovery:
    """Lists the source's location and logs new files. Raises StoreError when the location cannot be listed."""
    found = discover(source, runtime.lake.sources[source], runtime.store(source), runtime.file_log)
    for key in found.unknown[:20]:
        logger.warning("%s: %s is no DMS file: %s", source, key.key, key.reason)
    for table, count in sorted(found.unconfigured.items()):
        logger.warning("%s: %d files of %s, which lake.yaml does not configure", source, count, table)
    return found

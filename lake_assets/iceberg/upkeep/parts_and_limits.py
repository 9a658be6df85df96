"""The parts of a table's maintenance, and the limits by which Iceberg's rewrite takes its files.

Here: these, because what only looks at a table does not import Spark. Not here: the maintenance
(`table_maintenance.py`), when it is due (`table_health.py`).
"""

from enum import StrEnum

FILE_SIZE = 128 << 20
"""The bytes of a data file that is rewritten."""
MIN_SMALL_FILES = 5
"""If a partition has at least this many small data files, they are merged into one; manifests likewise."""
WORN_SHARE = 0.3
"""A data file of which so many rows are deleted is rewritten."""


class Part(StrEnum):
    """A part of a table's maintenance; each may run without the other."""

    FILES = "files"
    """Branches, partitions, data files, manifests, and the position."""
    SNAPSHOTS = "snapshots"
    """Expiry."""
    ORPHANS = "orphans"
    """Files that no snapshot needs."""


EVERY_PART = tuple(Part)

"""The parts of a table's maintenance, and the limits by which Iceberg's rewrite takes its files.

Here: these, because what only looks at a table does not import Spark. Not here: the maintenance
(`table_maintenance.py`), when it is due (`table_health.py`).
"""

from collections.abc import Collection, Iterable
from enum import StrEnum

FILE_SIZE = 128 << 20
"""The bytes of a data file that is rewritten."""
LARGE = FILE_SIZE * 3 // 4
"""A data file of so many bytes is not merged with others."""
MIN_SMALL_FILES = 5
"""If a partition has at least this many small data files, they are merged into one; manifests likewise."""
WORN_SHARE = 0.3
"""A data file of which so many rows are deleted is rewritten."""


def small_size(partitions: Iterable[Collection[int]]) -> int:
    """The bytes below which a data file is small: it is merged if its partition has MIN_SMALL_FILES of them. 0 if no
    partition has enough. `partitions`: the bytes of the data files of each.

    A file is not small while those of its partition that are no larger have fewer bytes together. Otherwise each merge
    of twenty small files would write all rows of a small table again. The size is at most LARGE, and one for the whole
    table, because Iceberg's rewrite takes one."""
    most = 0
    for sizes in partitions:
        number = smaller = largest = 0
        for place, size in enumerate(sorted(size for size in sizes if size < LARGE), 1):
            if size <= smaller:
                number, largest = place, size
            smaller += size
        if number >= MIN_SMALL_FILES:
            most = max(most, largest + 1)
    return most


class Part(StrEnum):
    """A part of a table's maintenance; each may run without the other."""

    FILES = "files"
    """Branches, partitions, data files, manifests, and the position."""
    SNAPSHOTS = "snapshots"
    """Expiry."""
    HISTORY = "history"
    """Versions and changes of longer ago than `keep_history`."""
    ORPHANS = "orphans"
    """Files that no snapshot needs."""


EVERY_PART = tuple(Part)

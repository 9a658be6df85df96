"""Table metadata that was parsed once: a metadata file never changes, and every look at a table would read it again.

Reading one costs two requests to S3, and 3 to 20 ms for parsing, by its number of snapshots; a look at a lake without
news is little else. Which file is the current one, the catalog is asked each time. Here: keeping the newest of each
table for all catalogs of the process, since PyIceberg has no setting for it. Not here: loading tables (`table_io.py`).
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property

from pyiceberg.io import InputFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata

MOST = 500
"""Tables, of which those are forgotten that were looked at longest ago; some 100 kB each."""
Read = Callable[..., TableMetadata]


class MetadataCache:
    """Reads metadata files, and of each folder the newest only once. Used by several threads."""

    def __init__(self, read: Read, most: int = MOST) -> None:
        self._read = read
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[str, TableMetadata]] = OrderedDict()
        """By folder: the location of a file in it, and what it says. Nobody changes what PyIceberg has parsed."""

    def __call__(self, input_file: InputFile, encoding: str = "utf-8") -> TableMetadata:
        location = input_file.location
        folder = location.rpartition("/")[0]
        with self._lock:
            known = self._kept.get(folder)
            if known is not None and known[0] == location:
                self._kept.move_to_end(folder)
                return known[1]
        read = self._read(input_file, encoding)
        _filled(read)
        with self._lock:
            self._kept[folder] = location, read
            self._kept.move_to_end(folder)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return read


def _filled(metadata: TableMetadata) -> None:
    """Computes what schemas and partition specs would compute when first asked, and keep in themselves: a thread that
    copies one, as a commit does, must not meet another that asks."""
    for shared in (*metadata.schemas, *metadata.partition_specs):
        for kind in type(shared).__mro__:
            for name, attribute in vars(kind).items():
                if isinstance(attribute, cached_property):
                    getattr(shared, name)


def keep_parsed_metadata() -> None:
    """From now on, in this process."""
    read: Read = FromInputFile.table_metadata
    if not isinstance(read, MetadataCache):
        FromInputFile.table_metadata = staticmethod(MetadataCache(read))  # type: ignore[method-assign]

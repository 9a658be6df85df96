"""A cache of parsed table metadata: a metadata file never changes, and each load of a table would read it again.

Reading one file costs two requests to S3, and 3 to 20 ms for parsing, by its number of snapshots; a scan that finds no
new files spends most of its time on that. The catalog is still asked each time which file is current. Here: keeping the
newest file of each table for all lakes of the process, since PyIceberg has no setting for it. Not here: how PyIceberg
calls it (`pyiceberg_private.py`), loading tables (`table_io.py`).
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property

from pyiceberg.io import InputFile, OutputFile
from pyiceberg.table.metadata import TableMetadata

from lake_assets.iceberg.file_io.pyiceberg_private import is_own, wrap_metadata_files

MOST = 500
"""Tables in the cache, about 100 kB each; the least recently used ones are dropped."""
Read = Callable[..., TableMetadata]


class MetadataCache:
    """Reads metadata files, and keeps the newest one of each folder. Threads may share it."""

    def __init__(self, read: Read, most: int = MOST) -> None:
        self._read = read
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[str, TableMetadata]] = OrderedDict()
        """By folder: the location of a file in it, and its metadata, which PyIceberg treats as immutable."""

    def __call__(self, input_file: InputFile, encoding: str = "utf-8") -> TableMetadata:
        location = input_file.location
        folder = location.rpartition("/")[0]
        with self._lock:
            known = self._kept.get(folder)
            if known is not None and known[0] == location:
                self._kept.move_to_end(folder)
                return known[1]
        read = self._read(input_file, encoding)
        self.keep(location, read)
        return read

    def keep(self, location: str, metadata: TableMetadata) -> None:
        """Keeps the metadata that the file at the location has."""
        folder = location.rpartition("/")[0]
        _filled(metadata)
        with self._lock:
            self._kept[folder] = location, metadata
            self._kept.move_to_end(folder)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)


def _filled(metadata: TableMetadata) -> None:
    """Computes the cached properties of schemas and partition specs now: a thread that copies one, as a commit does,
    must not race with a thread that fills them."""
    for shared in (*metadata.schemas, *metadata.partition_specs):
        for kind in type(shared).__mro__:
            for name, attribute in vars(kind).items():
                if isinstance(attribute, cached_property):
                    getattr(shared, name)


def keep_parsed_metadata() -> None:
    """Installs the cache in this process, once, for the files of lakes. What PyIceberg writes is kept as well: the next
    load is often its own."""
    with _installing:
        if not _installed:
            _installed.append(wrap_metadata_files(_reading, _writing))


_installing = threading.Lock()
_installed: list[bool] = []
_caches: list[MetadataCache] = []


def _reading(read: Read) -> Read:
    cache = MetadataCache(read)
    _caches.append(cache)

    def read_or_kept(input_file: InputFile, encoding: str = "utf-8") -> TableMetadata:
        return cache(input_file, encoding) if is_own(input_file) else read(input_file, encoding)

    return read_or_kept


def _writing(write: Callable[..., None]) -> Callable[..., None]:
    def write_and_keep(metadata: TableMetadata, output_file: OutputFile, overwrite: bool = False) -> None:
        write(metadata, output_file, overwrite)
        if is_own(output_file):
            # Also if the commit is refused: the catalog never names that file.
            _caches[-1].keep(output_file.location, metadata)

    return write_and_keep

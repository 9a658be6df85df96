"""The proof of an erasure: a search for the erased values in every file below a location.

Each file is searched as it is, and decompressed; columns of Parquet files and records of Avro files are decoded. Here:
that search. Not here: which values (`silver/erase/found_rows.py`), which locations (`erase.py`).
"""

import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileType
from pyiceberg.avro.file import AvroFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import Record

from lake_assets.bronze.files.content import GZIP_MAGIC, UnreadableFile, inflated
from lake_assets.silver.erase.found_rows import BOUND
from lake_assets.storage.object_store import ObjectGone, ObjectStore

Place = tuple[str, Callable[[], bytes]]
"""The address of a file, and what reads it."""
AT_ONCE = 500
"""Values of one regular expression."""
THREADS = 4
_WORD = "0-9A-Za-z_"


class Search:
    """A search for values, which are found as whole words."""

    def __init__(self, values: Collection[str], shared: Collection[str] = ()) -> None:
        """`values`: at least one; `shared`: beginnings of them that other rows have."""
        every = sorted(values)
        parts = [every[at : at + AT_ONCE] for at in range(0, len(every), AT_ONCE)]
        starts = {value[:BOUND] for value in every if len(value) > BOUND} - {*shared}
        self._words = [re.compile(_whole(_spellings(part)).encode()) for part in parts]
        self._bounds = [re.compile("|".join(map(re.escape, starts)).encode())] if starts else []
        self._in_column = [
            rf"(?:^|[^{_WORD}])(?:{'|'.join(map(re.escape, part))})(?:[^{_WORD}]|$)" for part in parts
        ]
        self._texts = pa.array(every, pa.string())
        numbers = [int(value) for value in every if value.isdecimal() and len(value) < 19]
        self._numbers = pa.array(numbers, pa.int64())

    def found_in(self, places: Iterable[Place]) -> list[str]:
        """The addresses of the files with one of the values, and of those that are damaged, in order."""
        with ThreadPoolExecutor(THREADS, thread_name_prefix="search") as threads:
            return sorted(filter(None, threads.map(self._found_at, places)))

    def _found_at(self, place: Place) -> str | None:
        address, read = place
        try:
            content = read()
        except (FileNotFoundError, ObjectGone):
            return None  # expired meanwhile
        return address if self._is_in(address, content) else None

    def _is_in(self, address: str, content: bytes) -> bool:
        if _found(self._words, content):
            return True
        try:
            if content.startswith(b"PAR1"):
                return any(map(self._is_in_column, _columns(content)))
            if content.startswith(b"Obj\x01"):
                words = [*self._words, *self._bounds]
                return any(_found(words, value) for value in _avro_values(content))
            if content.startswith(GZIP_MAGIC):
                text = b"".join(inflated(io.BytesIO(content), address))
                return _found(self._words, text)
        except (pa.ArrowException, OSError, ValueError, UnreadableFile):
            return True  # nobody can see what it has
        return False

    def _is_in_column(self, column: pa.Array) -> bool:
        if pa.types.is_integer(column.type):
            numbers = column.cast(pa.int64(), safe=False)
            return bool(pc.any(pc.is_in(numbers, value_set=self._numbers)).as_py())
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            different = column.unique().to_pylist()
            return any(value is not None and _found(self._words, value) for value in different)
        column = column.unique()
        if pc.any(pc.is_in(column, value_set=self._texts)).as_py():
            return True
        return any(pc.any(pc.match_substring_regex(column, words)).as_py() for words in self._in_column)


def _spellings(values: Iterable[str]) -> Iterator[str]:
    """The values as they are, within the quotes of CSV, and in JSON."""
    for value in values:
        yield from dict.fromkeys((value, value.replace('"', '""'), json.dumps(value)[1:-1]))


def _whole(words: Iterable[str]) -> str:
    each = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return rf"(?<![{_WORD}])(?:{each})(?![{_WORD}])"


def _found(words: Iterable[re.Pattern[bytes]], content: bytes) -> bool:
    return any(each.search(content) for each in words)


def objects_of(store: ObjectStore) -> Iterator[Place]:
    """All objects of a source's location. Raises StoreError."""

    def reader(key: str) -> Callable[[], bytes]:
        def read() -> bytes:
            with store.open(key) as stream:
                return stream.read()

        return read

    for obj in store.list():
        yield f"{store.location}/{obj.key}", reader(obj.key)


def files_below(files: PyArrowFileIO, location: str) -> Iterator[Place]:
    """All files below a folder of the catalog, whether a table refers to them or not."""
    scheme, netloc, path = files.parse_location(location, files.properties)
    system = files.fs_by_scheme(scheme, netloc)

    def reader(path: str) -> Callable[[], bytes]:
        def read() -> bytes:
            with system.open_input_file(path) as stream:
                return bytes(stream.readall())

        return read

    for info in system.get_file_info(FileSelector(path, allow_not_found=True, recursive=True)):
        if info.type is FileType.File:
            yield info.path, reader(info.path)


def _columns(content: bytes) -> Iterator[pa.Array]:
    """The columns of a Parquet file that can have one of the values; of structs and lists, those in them."""
    with pq.ParquetFile(pa.BufferReader(content)) as parquet:
        for batch in parquet.iter_batches():
            yield from chain.from_iterable(map(_leaves, batch.columns))


def _leaves(column: pa.Array) -> Iterator[pa.Array]:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from _leaves(column.storage)
    elif pa.types.is_dictionary(kind):
        yield from _leaves(column.dictionary)
    elif pa.types.is_struct(kind):
        yield from chain.from_iterable(map(_leaves, column.flatten()))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        yield from _leaves(column.flatten() if not pa.types.is_map(kind) else column.items)
    elif pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        yield column.cast(pa.string())
    elif pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_integer(kind):
        yield column


def _avro_values(content: bytes) -> Iterator[bytes]:
    """The texts and bytes of a manifest, or of a list of manifests."""
    opened: Any = SimpleNamespace(open=lambda: io.BytesIO(content))
    with AvroFile[Record](opened) as records:
        for record in records:
            yield from _texts(record)


def _texts(value: Any) -> Iterator[bytes]:
    if isinstance(value, Record):
        value = [value[place] for place in range(len(value))]
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        yield from chain.from_iterable(map(_texts, value))
    elif isinstance(value, str):
        yield value.encode()
    elif isinstance(value, bytes):
        yield value

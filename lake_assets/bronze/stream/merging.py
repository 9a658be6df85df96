"""Small files of landings become one, with the same rows in the same order.

A table that changes all the time has a file for each landing, and every plan of a batch looks at each record of the
log. Here: which files can be one, its content and its record. Not here: what silver needs one by one
(`rounds/merged_landings.py`), the log's commit (`bronze/log/streams/merged_records.py`).
"""

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import groupby
from typing import Any

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile, NewFile
from lake_assets.bronze.log.streams.stream_positions import (
    Created,
    Note,
    merged,
    parse_created,
)
from lake_assets.bronze.stream.landed_files import MOST_TEXT, NULL, line_of, packed
from lake_assets.bronze.stream.landed_objects import rows_object
from lake_assets.config import LANDED, TableName
from lake_assets.storage.object_store import ObjectStore

FEWEST = 10
"""Fewer files than this stay as they are."""
MOST_BYTES = 4 << 20
"""Compressed bytes of the files that become one, which are in memory; a file of this size stays as it is."""
READING_THREADS = 16
"""A bucket takes 20 ms for a file."""
_PREFIX = LANDED.before_image_prefix or ""


@dataclass(frozen=True, slots=True)
class Apart:
    """Between which files of a table a border must stay. Offsets and times are in order."""

    applied: int
    """The offset up to which every silver table of it has applied its files."""
    settled: datetime
    """All messages that the stream had got by then have landed, so that a full load which is still to land began later;
    UTC."""
    positions: Sequence[int] = ()
    """The offsets of the snapshots that silver keeps."""
    contracts: Sequence[int] = ()
    """The offsets from which the table has other columns."""
    loads: Sequence[datetime] = ()
    """When its full loads began, UTC: they supersede whole files."""
    alone: Collection[str] = ()
    """The keys of files of which single rows are known elsewhere."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Files of the log, and the one that takes their place."""

    files: tuple[LoggedFile, ...]
    record: LoggedFile


def runs(files: Iterable[LoggedFile], apart: Apart) -> Iterator[list[LoggedFile]]:
    """The files that can be one, in order. `files`: all of one table, by offset."""
    for place, group in groupby(files, lambda file: _place(file, apart)):
        run = [*group] if place is not None else []
        while run:
            fitting = _fitting(run)
            if fitting >= FEWEST:
                yield run[:fitting]
            run = run[fitting:]


def is_small(file: LoggedFile) -> bool:
    """Whether it is a file of rows that may become a part of another one."""
    has_rows = file.kind is FileKind.CDC and file.format == "csv" and bool(file.columns)
    return has_rows and file.size < MOST_BYTES and not file.retry and file.copy_of is None


def _place(file: LoggedFile, apart: Apart) -> tuple[object, ...] | None:
    """What files that can be one have in common; None for a file that stays as it is."""
    if (
        not is_small(file)
        or file.flush_time is None
        or file.key in apart.alone
        or file.offset > apart.applied
    ):
        return None
    if max(file.flush_time, file.logged_at) >= apart.settled:
        return None
    return (
        file.stream,
        file.epoch,
        file.capture_date,
        file.irregular,
        _without_images(file),
        # A file at a position is that of a snapshot, which names it.
        bisect_left(apart.positions, file.offset),
        bisect_right(apart.positions, file.offset),
        bisect_right(apart.contracts, file.offset),
        bisect_right(apart.loads, file.flush_time),
    )


def _fitting(run: Sequence[LoggedFile]) -> int:
    """How many of the files have columns of before images of which each has the first ones, and are not too large."""
    longest: tuple[str, ...] = ()
    size = 0
    for number, file in enumerate(run):
        images = _images(file)
        size += file.size
        shorter, longer = sorted((longest, images), key=len)
        if longer[: len(shorter)] != shorter or size > MOST_BYTES:
            return number
        longest = longer
    return len(run)


def merged_files(run: Sequence[LoggedFile], store: ObjectStore) -> Iterator[Merged]:
    """Writes the files of a run as few ones. Raises StoreError, and ValueError for a file that is not the lake's."""
    columns = [*_without_images(run[0]), *max(map(_images, run), key=len)]
    files, lines, size = list[LoggedFile](), list[bytes](), 0
    with ThreadPoolExecutor(READING_THREADS, "merge") as readers:
        contents = [*readers.map(lambda file: _content(file, store), run)]
    for file, content in zip(run, contents, strict=True):
        own = _lines(file, content, len(columns))
        size += sum(map(len, own))
        if files and size > MOST_TEXT:
            yield from _merged(files, [line_of(columns), *lines], store)
            files, lines, size = [], [], sum(map(len, own))
        files.append(file)
        lines += own
    yield from _merged(files, [line_of(columns), *lines], store)


def _merged(files: Sequence[LoggedFile], lines: list[bytes], store: ObjectStore) -> Iterator[Merged]:
    if len(files) < 2:
        return
    last, flushed = files[-1], max(file.flush_time for file in files if file.flush_time is not None)
    first = min((f.first_commit_ts for f in files if f.first_commit_ts is not None), default=None)
    name = TableName(*last.stream)
    new = rows_object(name, FileKind.CDC, flushed, packed(lines), first).written(store)
    assert new.rows == sum(file.rows or 0 for file in files), "each row is a record of the file"
    own: dict[str, Any] = {field.name: getattr(new, field.name) for field in fields(NewFile)}
    own |= {"table": last.table, "partitions": last.partitions}
    place: dict[str, Any] = {
        "offset": last.offset,
        "source": last.source,
        "logged_at": last.logged_at,
        "epoch": last.epoch,
    }
    yield Merged(tuple(files), LoggedFile(**own, **place, ranges=_note(files)))


def _content(file: LoggedFile, store: ObjectStore) -> bytes:
    with store.open(file.path) as opened:
        return opened.read()


def _lines(file: LoggedFile, content: bytes, width: int) -> list[bytes]:
    """The rows of a file, with so many columns."""
    try:
        text = zlib.decompress(content, wbits=31)
    except zlib.error as error:
        raise ValueError(f"{file.path} is no gzip file ({error})") from error
    header = line_of([*(file.columns or ())]) + b"\n"
    found = [*_records(text[len(header) :])]
    if not text.startswith(header) or len(found) != file.rows:
        raise ValueError(f"{file.path} is not what the log says of it")
    more = f",{NULL}".encode() * (width - len(file.columns or ()))
    return [line + more for line in found]


def _records(text: bytes) -> Iterator[bytes]:
    """A newline within quotes ends no record."""
    parts, quotes = list[bytes](), 0
    for part in text.split(b"\n")[:-1]:
        parts.append(part)
        quotes += part.count(b'"')
        if quotes % 2 == 0:
            yield b"\n".join(parts)
            parts, quotes = [], 0


def _images(file: LoggedFile) -> tuple[str, ...]:
    """The columns of the before images, which are the last ones."""
    return tuple(name for name in file.columns or () if name.startswith(_PREFIX))


def _without_images(file: LoggedFile) -> tuple[str, ...]:
    return tuple(name for name in file.columns or () if not name.startswith(_PREFIX))


def _note(files: Iterable[LoggedFile]) -> str | None:
    """What the landings have noted that counts when later ones have read on."""
    created: Created = {}
    for file in files:
        if file.ranges is not None:
            created = merged(created, parse_created(file.ranges))
    return Note({}, created).text(None) if created else None

"""CSV files whose rows Spark gets as Parquet: decoded, checked and staged by this process.

Here: doing so for files of one layout, several at the same time. Not here: decoding a file (`csv_columns.py`), the
check (`dms_columns.py`), where the rows are staged (`staging.py`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lake_assets.bronze.checked.csv_columns import decoded, decoded_types
from lake_assets.bronze.checked.dms_columns import FAULTS, CheckedFiles, DmsColumns, Unusable, checked
from lake_assets.bronze.checked.image_types import image_type
from lake_assets.bronze.checked.staging import StagedFile, Staging
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.storage.object_store import ObjectStore

AT_ONCE = 4
"""Staged files that are written at the same time."""
FEW_BYTES = 4 << 20
"""CSV files of at most so many bytes together become one staged file."""
MOST_BYTES = 4 << 30
"""Limit of the bytes of all files: for more, a cluster is faster than one process."""


@dataclass(frozen=True, slots=True)
class StagedCsv:
    """The rows of CSV files of one kind and layout, as Parquet: the fields `_0`, `_1`… in the order of the layout,
    `_file` (the address in Spark's spelling) and `_row` (the row's place in its file, from 0)."""

    offsets: frozenset[int]
    """Offsets of the files in the log."""
    kind: FileKind
    layout: Layout
    types: Mapping[str, str]
    """By column, the Arrow type of its field."""
    addresses: tuple[str, ...]


def staged_csv(
    store: ObjectStore,
    files: Sequence[LoggedFile],
    layout: Layout,
    table: TableConfig,
    dms: DmsSettings,
    key: Mapping[str, str] | None,
    staging: Staging,
    address: Callable[[LoggedFile], str],
) -> tuple[list[CheckedFiles], StagedCsv] | None:
    """The checked files of one layout, and their rows for Spark; None if Spark has to read any of them. `key`: as for
    `checked`; `address`: gives a file's address in Spark's spelling."""
    if sum(file.size for file in files) > MOST_BYTES:
        return None
    types = decoded_types(layout, table, dms)

    def one(file: LoggedFile, out: StagedFile) -> CheckedFiles:
        columns = DmsColumns(replace(layout, written=layout.columns), types, file.kind, dms, table.clock(dms))
        columns.check()
        pieces = _staged(decoded(store, file, layout, table, dms), address(file), out)
        found = checked(columns, pieces, key)
        if found.figures.rows != file.rows:
            raise Unusable
        return CheckedFiles({file.offset: found.figures.rows}, found)

    def several(members: Sequence[LoggedFile]) -> tuple[list[CheckedFiles], str]:
        with staging.file() as out:
            return [one(file, out) for file in members], out.address

    try:
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="decode") as threads:
            few = sum(file.size for file in files) <= FEW_BYTES
            done = list(threads.map(several, shares(files, 1 if few else AT_ONCE)))
    except FAULTS:
        return None  # Spark reads the files and reports what is wrong with them.
    offsets = frozenset(file.offset for file in files)
    addresses = tuple(address for _, address in done)
    every = [found for share, _ in done for found in share]
    written = {name: str(image_type(declared)) for name, declared in types.items()}
    return every, StagedCsv(offsets, files[0].kind, layout, written, addresses)


def shares(files: Sequence[LoggedFile], most: int) -> list[Sequence[LoggedFile]]:
    """The files in their order, in at most `most` parts of about equal bytes. No part is empty."""
    total = sum(file.size for file in files)
    number = min(most, len(files))
    shares: list[list[LoggedFile]] = [[] for _ in range(number)]
    before = 0
    for file in files:
        middle = before + file.size // 2
        shares[min(number - 1, middle * number // max(1, total))].append(file)
        before += file.size
    return [share for share in shares if share]


def _staged(pieces: Iterator[pa.Table], address: str, out: StagedFile) -> Iterator[pa.Table]:
    """The pieces of a file. Stages each piece first."""
    first = 0
    for rows in pieces:
        number = rows.num_rows
        named = rows.rename_columns([f"_{place}" for place in range(rows.num_columns)])
        same = pa.DictionaryArray.from_arrays(pa.array(np.zeros(number, np.int32)), pa.array([address]))
        places = pa.array(np.arange(first, first + number))
        out.add(named.append_column("_file", same).append_column("_row", places))
        first += number
        yield rows

"""Files of a batch that is too large to be held: decoded in pieces, and staged for Spark.

Here: doing so for several files at the same time, and what is known of their rows then. Not here: decoding
(`bronze/decode/files.py`), where the rows are staged (`bronze/reader/staging.py`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from lake_assets.bronze.decode.dms_columns import FAULTS
from lake_assets.bronze.decode.files import changes_in_pieces, looked_at, of_key
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.reader.arrow_frame import with_places
from lake_assets.bronze.reader.staging import StagedFile, StagedTable, Staging
from lake_assets.config import KEYED_MODES, TableConfig
from lake_assets.schema.contract import Contracts
from lake_assets.silver.changes.file_groups import FileGroup
from lake_assets.silver.changes.hold_batch import figures_of, keys_of, usable_of
from lake_assets.silver.changes.in_silver import in_silver
from lake_assets.silver.table.change_events import ChangeFigures
from lake_assets.silver.table.targets import Target
from lake_assets.storage.object_store import ObjectStore

AT_ONCE = 4
"""Staged files that are written at the same time."""
FEW_BYTES = 4 << 20
"""Files of at most so many bytes together become one staged file."""


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file whose rows can all be used."""

    figures: ChangeFigures
    keys: pa.Table | None
    """Of each row, in the file's order, as `keys_of`. None if they are not wanted, or do not tell the rows apart."""


@dataclass(frozen=True, slots=True)
class StagedGroup:
    """The rows of files that are read alike, staged with the columns of decoded changes, in silver's columns."""

    tables: Mapping[pa.Schema, StagedTable]
    """By the schema of the rows as decoded."""
    known: Mapping[int, KnownFile]
    """By offset, the files whose rows can all be used."""


def stage_group(
    store: ObjectStore,
    target: Target,
    group: FileGroup,
    files: Sequence[LoggedFile],
    contracts: Contracts,
    staging: Staging,
    *,
    with_keys: bool,
) -> StagedGroup:
    """Decodes and stages files of the group. `with_keys`: looks at the keys, too. Raises TableStopped when a file's
    columns do not fit the contract, UnreadableFile or what Arrow raises for a damaged file, StoreError for one that is
    gone."""
    few = sum(file.size for file in files) <= FEW_BYTES
    stage = _Stage(store, target, group, contracts, staging, with_keys)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="decode") as threads:
        done = list(threads.map(stage.files, _shares(files, 1 if few else AT_ONCE)))
    for table in stage.tables.values():
        table.publish()
    every = (found for share in done for found in share)
    return StagedGroup(stage.tables, {offset: known for offset, known in every if known is not None})


@dataclass(frozen=True, slots=True)
class _Stage:
    store: ObjectStore
    target: Target
    group: FileGroup
    contracts: Contracts
    staging: Staging
    with_keys: bool
    tables: dict[pa.Schema, StagedTable] = field(default_factory=dict)
    lock: Any = field(default_factory=Lock)

    def files(self, files: Sequence[LoggedFile]) -> list[tuple[int, KnownFile | None]]:
        """By offset, what is known of each file, None if a row cannot be used."""
        outs: dict[pa.Schema, StagedFile] = {}
        with ExitStack() as opened:
            return [(file.offset, self._file(file, outs, opened)) for file in files]

    def _table(self, rows: pa.Table) -> StagedTable:
        with self.lock:
            if rows.schema not in self.tables:
                self.tables[rows.schema] = self.staging.table(with_places(rows.slice(0, 0)).schema)
            return self.tables[rows.schema]

    def _file(
        self, file: LoggedFile, outs: dict[pa.Schema, StagedFile], opened: ExitStack
    ) -> KnownFile | None:
        target = self.target
        pieces = changes_in_pieces(
            self.store,
            file,
            name=target.table,
            table=self.group.table(target.config),
            dms=self.group.version.contract.dms,
            partial=target.mode in KEYED_MODES,
        )

        def staged() -> Iterator[pa.Table]:
            for changes in pieces:
                rows = in_silver(changes, self.group, self.contracts, target)
                if rows.schema not in outs:
                    outs[rows.schema] = opened.enter_context(self._table(rows).file())
                outs[rows.schema].add(with_places(_with_repeating(rows)))
                yield rows

        return _known(file, staged(), target.config, target.key if self.with_keys else None)


def look_at(
    store: ObjectStore, target: Target, group: FileGroup, files: Sequence[LoggedFile], *, with_keys: bool
) -> dict[int, KnownFile]:
    """By offset, what is known of Parquet files that Spark may read as they are: of those whose rows can all be used,
    as far as the columns of DMS and the key show. `with_keys`: looks at the keys, too."""
    table, key = group.table(target.config), target.key if with_keys else None

    def one(file: LoggedFile) -> KnownFile | None:
        try:
            changes = looked_at(store, file, name=target.table, table=table, dms=group.version.contract.dms)
            return _known(file, changes, of_key(table), key)
        except FAULTS:
            return None  # Decoding the file shows what is wrong with it.

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="look") as threads:
        found = zip(files, threads.map(one, files), strict=True)
        return {file.offset: known for file, known in found if known is not None}


def _known(
    file: LoggedFile, pieces: Iterable[pa.Table], table: TableConfig, key: Sequence[str] | None
) -> KnownFile | None:
    """None if a row cannot be used. `pieces`: its changes, of the table; `key`: if it is to be looked at."""
    seen, keys = ChangeFigures(by_op=dict.fromkeys("IUD", 0)), []
    for rows in pieces:
        usable = usable_of(rows)
        seen += figures_of(rows, usable)
        if key is not None:
            keys.append(keys_of(usable, table, key))
    if seen.bad_rows or seen.rows != file.rows:
        return None
    whole = [part for part in keys if part is not None]
    is_known = key is not None and len(whole) == len(keys)
    return KnownFile(seen, pa.concat_tables(whole, promote_options="default") if is_known else None)


def _with_repeating(changes: pa.Table) -> pa.Table:
    """Changes of one file, with the few different operations and the file's address once each."""
    address = pa.array(changes["_file"].slice(0, 1).to_pylist(), pa.string())
    numbers = pa.array(np.zeros(changes.num_rows, np.int32))
    encoded = {
        "_op": changes["_op"].dictionary_encode(),
        "_file": pa.DictionaryArray.from_arrays(numbers, address),
    }
    for name, values in encoded.items():
        changes = changes.set_column(changes.schema.get_field_index(name), name, values)
    return changes


def _shares(files: Sequence[LoggedFile], most: int) -> list[Sequence[LoggedFile]]:
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

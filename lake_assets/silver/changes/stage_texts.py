"""Text files of a batch that is too large to be held: decoded in pieces, and staged for Spark.

Here: doing so for several files at the same time, and what is known of their rows then. Not here: decoding
(`bronze/decode/files.py`), where the rows are staged (`bronze/checked/staging.py`).
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import reduce
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.bronze.checked.dms_columns import CheckedFiles, CheckedRows, DmsFigures
from lake_assets.bronze.checked.staging import StagedFile, StagedTable, Staging
from lake_assets.bronze.decode.files import changes_in_pieces
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import KEYED_MODES
from lake_assets.silver.changes.file_groups import FileGroup
from lake_assets.silver.changes.hold_batch import figures_of, keys_of
from lake_assets.silver.changes.masking import masked_changes
from lake_assets.silver.table.targets import Target
from lake_assets.storage.object_store import ObjectStore

AT_ONCE = 4
"""Staged files that are written at the same time."""
FEW_BYTES = 4 << 20
"""Files of at most so many bytes together become one staged file."""
MOST_BYTES = 4 << 30
"""Limit of the bytes of all files: for more, a cluster is faster than one process."""
_REPEATING = ("_op", "_file")


@dataclass(frozen=True, slots=True)
class StagedTexts:
    """The rows of text files, staged with the columns of decoded changes."""

    offsets: frozenset[int]
    """Offsets of the files in the log."""
    tables: Mapping[pa.Schema, StagedTable]
    """By the schema of the rows as decoded."""
    checked: Sequence[CheckedFiles] | None
    """None if a row cannot be used."""

    def others(self, files: Sequence[LoggedFile]) -> list[LoggedFile]:
        """Those of the files that are not staged."""
        return [file for file in files if file.offset not in self.offsets]


def may_be_staged(files: Sequence[LoggedFile]) -> bool:
    """Whether these text files, if there are any, are few enough."""
    return 0 < sum(file.size for file in files) <= MOST_BYTES


def stage_texts(
    store: ObjectStore,
    target: Target,
    group: FileGroup,
    files: Sequence[LoggedFile],
    staging: Staging,
    *,
    with_keys: bool,
) -> StagedTexts:
    """Decodes and stages text files of the group, which has silver's columns if the table has masks. `with_keys`: looks
    at the keys, too. Raises TableStopped when a
    file's columns do not fit the contract, UnreadableFile for a damaged file, StoreError for one that is gone."""
    few = sum(file.size for file in files) <= FEW_BYTES
    stage = _Stage(store, target, group, staging, with_keys)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="decode") as threads:
        done = list(threads.map(stage.files, _shares(files, 1 if few else AT_ONCE)))
    for table in stage.tables.values():
        table.publish()
    every = [found for share in done for found in share]
    checked = None if None in every else [found for found in every if found is not None]
    return StagedTexts(frozenset(file.offset for file in files), stage.tables, checked)


@dataclass(frozen=True, slots=True)
class _Stage:
    store: ObjectStore
    target: Target
    group: FileGroup
    staging: Staging
    with_keys: bool
    tables: dict[pa.Schema, StagedTable] = field(default_factory=dict)
    lock: Any = field(default_factory=Lock)

    def files(self, files: Sequence[LoggedFile]) -> list[CheckedFiles | None]:
        """What is known of each file, None if a row cannot be used."""
        outs: dict[pa.Schema, StagedFile] = {}
        with ExitStack() as opened:
            return [self._file(file, outs, opened) for file in files]

    def _table(self, rows: pa.Table) -> StagedTable:
        with self.lock:
            if rows.schema not in self.tables:
                self.tables[rows.schema] = self.staging.table(_to_stage(rows.slice(0, 0)).schema)
            return self.tables[rows.schema]

    def _file(
        self, file: LoggedFile, outs: dict[pa.Schema, StagedFile], opened: ExitStack
    ) -> CheckedFiles | None:
        target, contract = self.target, self.group.version.contract
        table, mask = self.group.table(target.config), target.config.mask
        figures, keys = [], []
        for changes in changes_in_pieces(
            self.store,
            file,
            name=target.table,
            table=table,
            dms=contract.dms,
            partial=target.mode in KEYED_MODES,
        ):
            rows = masked_changes(changes, table, mask, target.salt)
            if rows.schema not in outs:
                outs[rows.schema] = opened.enter_context(self._table(rows).file())
            outs[rows.schema].add(_with_repeating(_to_stage(rows), rows.schema))
            usable = rows.filter(pc.is_null(rows["_bad"]))
            figures.append(figures_of(rows, usable))
            if self.with_keys:
                keys.append(keys_of(usable, target))
        seen = reduce(lambda one, other: one + other, figures)
        if seen.bad_rows or seen.rows != file.rows:
            return None
        known = DmsFigures(
            seen.rows,
            seen.by_op,
            seen.min_sequence,
            seen.max_sequence,
            seen.min_commit_ts,
            seen.max_commit_ts,
        )
        whole = [part for part in keys if part is not None]
        is_known = self.with_keys and len(whole) == len(keys)
        changes = pa.concat_tables(whole, promote_options="default") if is_known else None
        return CheckedFiles({file.offset: seen.rows}, CheckedRows(known, changes))


def _to_stage(changes: pa.Table) -> pa.Table:
    """With names that every table can have."""
    return changes.rename_columns([f"c{place}" for place in range(changes.num_columns)])


def _with_repeating(rows: pa.Table, decoded: pa.Schema) -> pa.Table:
    """With each text of a column that repeats them once."""
    for name in _REPEATING:
        place = decoded.get_field_index(name)
        rows = rows.set_column(place, rows.field(place).name, rows[place].dictionary_encode())
    return rows


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

"""The rows of a batch that is too large to be held: decoded in pieces and staged for Spark, or read by Spark as they
are.

Here: both, what is known of the rows then, and the rows as DataFrames. Not here: decoding (`bronze/decode/files.py`),
where the rows are staged (`bronze/reader/staging.py`), files that Spark may read (`bronze/reader/as_is.py`).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import reduce
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.decode.dms_columns import FAULTS
from lake_assets.bronze.decode.files import address_of, changes_in_pieces, looked_at, of_key
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.reader.arrow_frame import staged_frame, union, with_places
from lake_assets.bronze.reader.as_is import as_is, may_be_as_is
from lake_assets.bronze.reader.as_listed import as_listed
from lake_assets.bronze.reader.staging import StagedFile, StagedTable, Staging
from lake_assets.config import KEYED_MODES
from lake_assets.schema.contract import Contracts
from lake_assets.silver.changes.file_groups import FileGroup, is_current
from lake_assets.silver.changes.in_silver import in_silver
from lake_assets.silver.changes.keyed_events import Found, ReadingEvents, events_of
from lake_assets.silver.changes.row_cut import ALL_ROWS, RowCut
from lake_assets.silver.changes.taken_rows import figures_of, rows_taken, usable_of
from lake_assets.silver.table.change_events import ChangeFigures
from lake_assets.silver.table.targets import Target
from lake_assets.storage.object_store import ObjectStore

AT_ONCE = 4
"""Staged files that are written at the same time."""
FEW_BYTES = 4 << 20
"""Files of at most so many bytes together become one staged file."""
ONE_TASK_BYTES = 2 * 2**20
"""Bytes, in total, of the files that one task reads, if they are small: a stage costs more than so few rows."""


@dataclass(slots=True)
class KnownFile:
    """What is known of a file before Spark gets its rows."""

    address: str
    counted: int = 0
    """How many of its rows were wanted, those outside of the cut included."""
    figures: ChangeFigures = field(default_factory=lambda: ChangeFigures(by_op=dict.fromkeys("IUD", 0)))

    def note(self, counted: int, figures: ChangeFigures) -> None:
        """Adds a piece of its rows."""
        self.counted += counted
        self.figures += figures


@dataclass(frozen=True, slots=True)
class Source:
    """What the rows of a batch are read from."""

    spark: SparkSession
    store: ObjectStore
    target: Target
    contracts: Contracts
    cut: RowCut
    staging: Staging


class StagedRows:
    """The rows of some groups of files, in silver's columns."""

    def __init__(
        self,
        source: Source,
        groups: Sequence[FileGroup],
        no_events: Callable[[Sequence[str]], ReadingEvents] | None,
        *,
        spark_reads: bool,
    ) -> None:
        """`no_events`: makes what gets the events of the rows, by the files' addresses; None if they are not wanted.
        `spark_reads`: whether Spark may read Parquet files as they are. Raises TableStopped when a file's columns do
        not fit the contract, UnreadableFile or what Arrow raises for a damaged file, StoreError for one that is
        gone."""
        self._source, self._groups = source, groups
        paths = [file.path for group in groups for file in group.files]
        self._numbers = {
            address: number
            for number, address in enumerate(dict.fromkeys(address_of(source.store, path) for path in paths))
        }
        self.events = None if no_events is None else no_events(self.addresses)
        self._as_is: list[list[LoggedFile]] = []
        """By group, the files that Spark reads as they are."""
        self._staged: list[Mapping[pa.Schema, StagedTable]] = []
        """By group and the rows' schema as decoded, the rows of its other files."""
        self._files: list[KnownFile] = []
        may_read = [self._may_be_as_is(group) if spark_reads else [] for group in groups]
        listed = as_listed(source.store, [file for files in may_read for file in files])
        for group, files in zip(groups, may_read, strict=True):
            known = self._looks(group, files)
            self._as_is.append([file for file in files if file.offset in known])
            others = [file for file in group.files if file.offset not in known]
            tables, staged = self._stage(group, others) if others else ({}, [])
            self._staged.append(tables)
            self._files += [*known.values(), *staged]
        as_is = {file.path for files in self._as_is for file in files}
        self._listed = frozenset(obj for obj in listed if obj.key in as_is)
        """The files that Spark reads itself, as they were before the looks at them."""

    @property
    def addresses(self) -> Sequence[str]:
        """Of the files, by their numbers."""
        return [*self._numbers]

    @property
    def figures(self) -> ChangeFigures:
        return sum((file.figures for file in self._files), ChangeFigures(by_op=dict.fromkeys("IUD", 0)))

    @property
    def counted(self) -> Mapping[str, int]:
        """By a file's address, how many of its rows were wanted, those outside of the cut included."""
        found: dict[str, int] = defaultdict(int)
        for file in self._files:
            found[file.address] += file.counted
        return found

    def by_file(self) -> dict[str, ChangeFigures]:
        """The figures of each file's rows."""
        found: dict[str, ChangeFigures] = {}
        for file in self._files:
            former = found.get(file.address)
            found[file.address] = file.figures if former is None else former + file.figures
        return found

    def changes(self) -> DataFrame:
        """The rows within the cut, as `decoded_frame`."""
        frames, as_is = self._staged_frames(), self._as_is_frame()
        return reduce(union, frames if as_is is None else [*frames, as_is])

    def bad_rows(self, most: int | None) -> dict[str, list[tuple[int, str]]]:
        """By a file's address, the places, from 0, and all faults of its bad rows, at most of the first `most`."""
        if not self.figures.bad_rows:
            return {}
        bad = (
            reduce(union, self._staged_frames())
            .filter(F.col("_bad").isNotNull())
            .select("_file", "_row", "_bad")
        )
        found: dict[str, list[tuple[int, str]]] = defaultdict(list)
        ordered = bad.orderBy("_file", "_row")
        for row in (ordered if most is None else ordered.limit(most)).collect():
            found[row["_file"]].append((row["_row"], row["_bad"]))
        return found

    @property
    def are_as_listed(self) -> bool:
        """Whether no file that Spark reads as it is was written again since the look at it."""
        files = [file for files in self._as_is for file in files]
        return self._listed == as_listed(self._source.store, files)

    def _may_be_as_is(self, group: FileGroup) -> list[LoggedFile]:
        """The group's files that Spark may read, after a look at them."""
        source, dms = self._source, group.version.contract.dms
        target, is_whole = source.target, source.cut is ALL_ROWS and group.which == "all"
        if target.config.mask or not is_whole or not is_current(group.version, source.contracts, target):
            return []
        table = group.table(target.config)
        return [file for file in group.files if may_be_as_is(target.table, file, table, dms)]

    def _looks(self, group: FileGroup, files: Sequence[LoggedFile]) -> dict[int, KnownFile]:
        """By offset, what is known of Parquet files: of those whose rows can all be used, as far as the columns of DMS
        and the key show."""
        store, target = self._source.store, self._source.target
        table, dms = group.table(target.config), group.version.contract.dms
        of_keys = of_key(table)

        def one(file: LoggedFile) -> KnownFile | None:
            known, found = KnownFile(address_of(store, file.path)), list[Found]()
            number = self._numbers[known.address]
            try:
                for changes in looked_at(store, file, name=target.table, table=table, dms=dms):
                    usable = usable_of(changes)
                    known.note(changes.num_rows, figures_of(changes, usable))
                    if self.events is not None:
                        found.append(events_of(usable, of_keys, target.key, number))
            except FAULTS:
                return None  # Decoding the file shows what is wrong with it.
            if known.figures.bad_rows or known.counted != file.rows:
                return None
            if self.events is not None:
                for events in found:
                    self.events.add(events, number)
            return known

        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="look") as threads:
            known = zip(files, threads.map(one, files), strict=True)
            return {file.offset: found for file, found in known if found is not None}

    def _stage(
        self, group: FileGroup, files: Sequence[LoggedFile]
    ) -> tuple[Mapping[pa.Schema, StagedTable], list[KnownFile]]:
        few = sum(file.size for file in files) <= FEW_BYTES
        stage = _Stage(self._source, group, self.events, self._numbers)
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="decode") as threads:
            done = list(threads.map(stage.files, _shares(files, 1 if few else AT_ONCE)))
        for table in stage.tables.values():
            table.publish()
        return stage.tables, [known for share in done for known in share]

    def _staged_frames(self) -> list[DataFrame]:
        target = self._source.target
        columns = [column.name for column in target.image_columns], target.matched_by
        return [
            staged_frame(self._source.spark, schema, rows, *columns)
            for tables in self._staged
            for schema, rows in tables.items()
        ]

    def _as_is_frame(self) -> DataFrame | None:
        source, frames = self._source, list[DataFrame]()
        for group, files in zip(self._groups, self._as_is, strict=True):
            if files:
                name, table = source.target.table, group.table(source.target.config)
                dms = group.version.contract.dms
                frames += as_is(source.spark, source.store, files, name=name, table=table, dms=dms)
        if not frames:
            return None
        rows, every = reduce(union, frames), [file for files in self._as_is for file in files]
        # Spark would make a task of every 31 files, however small, and each task writes a file. Larger files are not
        # coalesced: Spark compiles the steps before and after `coalesce` separately, and a large batch takes a third
        # longer.
        tasks = max(1, -(-sum(file.size for file in every) // ONE_TASK_BYTES))
        return rows.coalesce(tasks) if tasks < len(every) else rows


@dataclass(frozen=True, slots=True)
class _Stage:
    """Stages files of one group; threads share it."""

    source: Source
    group: FileGroup
    events: ReadingEvents | None
    numbers: Mapping[str, int]
    """Of the files, by their addresses."""
    tables: dict[pa.Schema, StagedTable] = field(default_factory=dict)
    lock: Any = field(default_factory=Lock)

    def files(self, files: Sequence[LoggedFile]) -> list[KnownFile]:
        outs: dict[pa.Schema, StagedFile] = {}
        with ExitStack() as opened:
            return [self._file(file, outs, opened) for file in files]

    def _file(self, file: LoggedFile, outs: dict[pa.Schema, StagedFile], opened: ExitStack) -> KnownFile:
        source, target = self.source, self.source.target
        known = KnownFile(address_of(source.store, file.path))
        number = self.numbers[known.address]
        pieces = changes_in_pieces(
            source.store,
            file,
            name=target.table,
            table=self.group.table(target.config),
            dms=self.group.version.contract.dms,
            partial=target.mode in KEYED_MODES,
        )
        for changes in pieces:
            in_columns = in_silver(changes, self.group, source.contracts, target)
            rows = rows_taken(in_columns, self.group, source.cut, source.store)
            known.note(sum(rows.counted.values()), rows.figures)
            if self.events is not None:
                found = events_of(usable_of(rows.taken), target.config, target.key, number)
                self.events.add(found, number)
            schema = rows.taken.schema
            if schema not in outs:
                outs[schema] = opened.enter_context(self._table(rows.taken).file())
            outs[schema].add(with_places(_with_repeating(rows.taken)))
        return known

    def _table(self, rows: pa.Table) -> StagedTable:
        with self.lock:
            if rows.schema not in self.tables:
                self.tables[rows.schema] = self.source.staging.table(with_places(rows.slice(0, 0)).schema)
            return self.tables[rows.schema]


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

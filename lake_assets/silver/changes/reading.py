"""Reading a batch's files, with a count of the rows that were read.

Here: the usable changes of some files, each file read by its contract, and the refusal of files with missing rows. Not
here: writing the changes (`silver/write/current/upsert.py`, `silver/write/append_only_tables.py`), unusable rows
(`silver/write/batch_quarantine.py`).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.decode.dms_columns import (
    KEY,
    all_differ,
)
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.quarantine.bad_rows import stop_for_missing_rows
from lake_assets.bronze.reader.arrow_frame import decoded_frame, staged_frame, union
from lake_assets.bronze.reader.as_is import as_is, may_be_as_is
from lake_assets.bronze.reader.as_listed import as_listed
from lake_assets.bronze.reader.places import in_places, plain
from lake_assets.bronze.reader.staging import Staging
from lake_assets.config import LOGS
from lake_assets.schema.contract import Contracts
from lake_assets.silver.changes.collapse import figures, observe_changes, observe_used
from lake_assets.silver.changes.file_groups import (
    FileGroup,
    file_groups,
    has_known_keys,
    is_current,
)
from lake_assets.silver.changes.hold_batch import HeldBatch, HeldRows, bad_rows, decoded_groups, hold_batch
from lake_assets.silver.changes.row_cut import ALL_ROWS, RowCut, in_cut, observe_sides, with_sides
from lake_assets.silver.changes.stage_batch import KnownFile, StagedGroup, look_at, stage_group
from lake_assets.silver.plan.parts import Part
from lake_assets.silver.table.change_events import ChangeFigures
from lake_assets.silver.table.targets import Target
from lake_assets.spark.checkpoint import Observed, checkpointed
from lake_assets.storage.object_store import ObjectStore, StoredObject
from lake_assets.storage.spark_paths import spark_address

ONE_TASK_BYTES = 2 * 2**20
"""Bytes, in total, of the files that one task reads, if they are small: a stage costs more than so few rows."""
MOST_ROWS = 4_000_000
"""Rows of a batch whose keys and sequences fit into this process, at about 60 bytes each."""
MOST_LOADED = 30_000_000
"""Rows of a full load whose keys, one whole number each, fit into this process, at about 16 bytes each."""
SMALL_LOAD = 250_000
"""Below so many rows of a full load and the changes since, one batch has both. A larger load is written as it is read,
by itself."""
LARGE = 50_000
"""Rows of a large batch: reading and writing so many takes longer than further jobs, or a look at the files
beforehand."""


class Reading:
    """Lazy DataFrames of a batch's files. `figures` is available only after an action on `good`, or on rows that derive
    from it."""

    def __init__(
        self,
        spark: SparkSession,
        store: ObjectStore,
        target: Target,
        parts: Sequence[Part],
        contracts: Contracts,
        cut: RowCut = ALL_ROWS,
        *,
        staging: Staging,
        spark_reads: bool = True,
    ) -> None:
        """`parts`: at least one; their files have their own row counts. Rows outside the cut are left out.
        `staging`: where this process leaves rows for Spark. `spark_reads`: whether Spark may read Parquet files
        itself. Raises TableStopped when a file's columns do not fit the contract, UnreadableFile or what Arrow raises
        for a damaged file, StoreError for one that is gone."""
        self._store = store
        self._spark, self._target = spark, target
        self._contracts, self._staging = contracts, staging
        self.parts = parts
        self.cut = cut
        self._known: Mapping[int, KnownFile] | None = None
        """By offset, what is known of the files; None unless it is known of all."""
        self._listed: frozenset[StoredObject] = frozenset()
        """The files that Spark reads itself, as they were before the look at them."""
        self._groups = file_groups(parts, contracts, cut.reopened)
        self._as_is: list[list[LoggedFile]] = [[] for _ in self._groups]
        """By group, the files that Spark reads itself."""
        self._staged: list[StagedGroup | None] = []
        """By group, its other files, unless this process has decoded all."""
        few = MOST_ROWS if all(part.file.kind is FileKind.CDC for part in parts) else SMALL_LOAD
        may_decode = self.rows_counted < few
        self._decoded = decoded_groups(store, target, self._groups, contracts) if may_decode else None
        """By group, its changes, if this process has decoded all."""
        self._held: HeldBatch | None = None
        if self._decoded is None:
            self._stage(reads=spark_reads)
        elif self._may_be_held:
            self._held = hold_batch(spark, target, self._by_address, self._decoded, staging)

    @cached_property
    def _by_address(self) -> Mapping[str, Part]:
        """The parts by their files' addresses in Spark's spelling."""
        return {spark_address(self._store.spark_uri(part.file.path)): part for part in self.parts}

    @property
    def _has_whole_files(self) -> bool:
        """Whether all rows of the files are read, and no file is there twice."""
        return self._is_read_whole and len(self._by_address) == len(self.parts)

    @cached_property
    def _may_be_held(self) -> bool:
        """Whether these are whole files that have silver's columns, and the keys as silver has them."""
        may_hold = is_current if self._target.mode in LOGS else has_known_keys
        fit = all(may_hold(group.version, self._contracts, self._target) for group in self._groups)
        return fit and self._has_whole_files

    @property
    def held(self) -> HeldRows | None:
        """The usable rows, in the order of the parts, where Spark need not read the files."""
        return None if self._held is None else self._held.rows

    @cached_property
    def _read_by_spark(self) -> "_Rows":
        """The rows as Spark reads them. Never planned for rows that this process holds."""
        every = reduce(union, (rows for _, rows in self._grouped()))
        # Spark would make a task of every 31 files, however small, and each task writes a file. Larger files are not
        # coalesced: Spark compiles the steps before and after `coalesce` separately, and a large batch takes a third
        # longer.
        tasks = max(1, -(-sum(part.file.size for part in self.parts) // ONE_TASK_BYTES))
        if tasks < len(self.parts):
            every = every.coalesce(tasks)
        changes, sides = every, None
        if self.cut is not ALL_ROWS:
            changes, sides = observe_sides(every)
        observed, seen = observe_changes(changes, self._checked)
        good, used = observe_used(observed.filter(F.col("_bad").isNull()))
        return _Rows(every, changes, good, seen, used, sides)

    @property
    def every(self) -> DataFrame:
        """Every row of the files, unusable ones included."""
        return self._read_by_spark.every

    @property
    def changes(self) -> DataFrame:
        """Every row within the cut, unusable ones included."""
        return self._read_by_spark.changes

    @property
    def good(self) -> DataFrame:
        """The usable changes, as `decoded_frame` describes them."""
        return self._read_by_spark.good

    @property
    def _is_read_whole(self) -> bool:
        """Whether all rows of the files are read. If not, this process does not look at the files before Spark reads
        them."""
        return self.cut is ALL_ROWS and all(part.only is None and not part.without for part in self.parts)

    def _stage(self, *, reads: bool) -> None:
        """Stages the files of each group that Spark does not read itself, and sets what is known of all files."""
        known: dict[int, KnownFile] = {}
        may_read = [self._may_be_as_is(group) if reads else [] for group in self._groups]
        listed = as_listed(self._store, [file for files in may_read for file in files])
        for place, (group, files) in enumerate(zip(self._groups, may_read, strict=True)):
            with_keys = self._looks_at_keys(group)
            as_is = look_at(self._store, self._target, group, files, with_keys=with_keys)
            self._as_is[place] = [file for file in files if file.offset in as_is]
            others = [file for file in group.files if file.offset not in as_is]
            staged = self._staged_files(group, others) if others else None
            self._staged.append(staged)
            known |= {**as_is, **(staged.known if staged is not None else {})}
        if self._is_read_whole and known.keys() == {part.file.offset for part in self.parts}:
            self._known = known
        paths = {file.path for files in self._as_is for file in files}
        self._listed = frozenset(obj for obj in listed if obj.key in paths)

    def _staged_files(self, group: FileGroup, files: Sequence[LoggedFile]) -> StagedGroup:
        with_keys = self._looks_at_keys(group)
        return stage_group(
            self._store, self._target, group, files, self._contracts, self._staging, with_keys=with_keys
        )

    def _may_be_as_is(self, group: FileGroup) -> list[LoggedFile]:
        """The group's files that Spark may read itself, after a look at them."""
        target, dms = self._target, group.version.contract.dms
        has_other_rows = target.config.mask or not is_current(group.version, self._contracts, target)
        if has_other_rows or not self._is_read_whole:
            return []
        table = group.table(target.config)
        return [file for file in group.files if may_be_as_is(target.table, file, table, dms)]

    def _looks_at_keys(self, group: FileGroup) -> bool:
        known = has_known_keys(group.version, self._contracts, self._target)
        return known and self._is_read_whole and self._wants_keys

    @property
    def _wants_keys(self) -> bool:
        """Whether the keys decide how the rows are written, and are few enough to look at."""
        if self.rows_counted <= MOST_ROWS:
            return True
        return self._is_load_of_numbers and self.rows_counted <= MOST_LOADED

    @property
    def _is_load_of_numbers(self) -> bool:
        """Whether it is a full load whose key is one whole number."""
        is_number = len(self._target.key) == 1 and self._target.has_number_key
        return is_number and all(part.file.kind is FileKind.LOAD for part in self.parts)

    @property
    def has_unique_keys(self) -> bool:
        """Whether no two rows have the same key; False if it is not known: only of full loads whose key is one whole
        number and whose files have been checked."""
        keys = [] if self._known is None else [one.keys for one in self._known.values()]
        tables = [each for each in keys if each is not None]
        if not self._is_load_of_numbers or not tables or len(tables) < len(keys):
            return False
        return all_differ(pa.concat_tables(tables, promote_options="permissive")[KEY.format(place=0)])

    @property
    def is_as_checked(self) -> bool:
        """Whether no file was written again or deleted between the look at it and its reading by Spark."""
        return self._listed == as_listed(self._store, [file for files in self._as_is for file in files])

    @property
    def usable(self) -> DataFrame:
        """As `good`, without the observations, which take a quarter of the time of a large batch."""
        return self.changes.filter(F.col("_bad").isNull())

    @property
    def foreseen(self) -> ChangeFigures | None:
        """The figures of the changes, if all rows are held; else if every row can be used, which only a count of the
        written rows shows. None if the files were not checked, or hold more or fewer rows than by their own count."""
        if self._held is not None:
            return self._held.figures
        known = self._checked
        return known if known is not None and known.rows == self.rows_counted else None

    @property
    def changes_by_file(self) -> Mapping[str, pa.Table] | None:
        """The keys, operations and sequences of all usable rows, by the file's address, as `keys_of`; None
        if they are not known before Spark reads the files."""
        if self._held is not None:
            return self._held.changes
        if self._known is None or self.rows_counted > MOST_ROWS:
            return None
        found: dict[str, pa.Table] = {}
        for part in self.parts:
            keys = self._known[part.file.offset].keys
            if keys is None:
                return None
            found[self._store.spark_uri(part.file.path)] = keys
        return found if len(found) == len(self.parts) else None

    @property
    def sequences_differ(self) -> bool:
        """Whether all usable changes are known to have different sequences: only if they are held."""
        return self._held is not None and self._held.sequences_differ

    @property
    def _checked(self) -> ChangeFigures | None:
        """The figures of all parts, if every row can be used as far as this process has seen."""
        if self._known is None:
            return None
        nothing = ChangeFigures(by_op=dict.fromkeys("IUD", 0))
        return sum((self._known[part.file.offset].figures for part in self.parts), nothing)

    def _grouped(self) -> "list[tuple[Sequence[LoggedFile], DataFrame]]":
        """The files of each group, with their rows."""
        store = self._store
        found: list[tuple[Sequence[LoggedFile], DataFrame]] = []
        for place, group in enumerate(self._groups):
            rows = reduce(union, self._frames(place, group))
            if group.which != "all":
                places = {
                    store.spark_uri(path): {place for part in parts for place in (part.only or part.without)}
                    for path, parts in group.by_path.items()
                }
                rows = in_places(self._spark, rows, places, others=group.which == "without")
            if self.cut is not ALL_ROWS:
                rows = rows.withColumn("_side", self.cut.side(reopened=group.reopened))
            found.append((group.files, rows))
        return found

    def _frames(self, place: int, group: FileGroup) -> Iterator[DataFrame]:
        target = self._target
        columns = [column.name for column in target.image_columns], target.matched_by
        if self._decoded is not None:
            yield decoded_frame(self._spark, self._decoded[place], *columns, self._staging)
            return
        if (staged := self._staged[place]) is not None:
            for schema, rows in staged.tables.items():
                yield staged_frame(self._spark, schema, rows, *columns)
        if self._as_is[place]:
            table, dms = group.table(target.config), group.version.contract.dms
            files = self._as_is[place]
            yield from as_is(self._spark, self._store, files, name=target.table, table=table, dms=dms)

    def checkpointed(self, rows: DataFrame, *observed: Observed) -> DataFrame:
        """Computes rows that derive from `good` now; fills the observations in their plan."""
        return checkpointed(rows, (*self.observations, *observed))

    @property
    def observations(self) -> tuple[Observed, ...]:
        """The observations in the plan of `good`."""
        rows = self._read_by_spark
        own = (rows.seen, rows.used)
        return own if rows.sides is None else (rows.sides, *own)

    @property
    def rows_counted(self) -> int:
        """Rows of the files by their own count, without Spark."""
        return sum(part.rows for part in self.parts)

    @property
    def is_large(self) -> bool:
        return self.rows_counted >= LARGE

    def bad_rows(self, most: int | None = None) -> list[tuple[LoggedFile, list[tuple[int, str]]]]:
        """The rows that cannot be used, at most the first `most`: by record of the log, their places (from 0) and all
        faults of each."""
        if self._decoded is not None and self._has_whole_files:
            return bad_rows(self._decoded, self._by_address, most)
        if any(self._as_is):
            given = self._spark, self._store, self._target, self.parts, self._contracts, self.cut
            return Reading(*given, staging=self._staging, spark_reads=False).bad_rows(most)
        found: dict[int, list[tuple[int, str]]] = defaultdict(list)
        by_address: dict[tuple[int, str], LoggedFile] = {}
        frames = []
        for number, (files, rows) in enumerate(self._grouped()):
            by_address |= {(number, plain(self._store.spark_uri(file.path))): file for file in files}
            bad = in_cut(rows).filter(F.col("_bad").isNotNull()).select("_file", "_row", "_bad")
            frames.append(bad.withColumn("_group", F.lit(number)))
        bad = reduce(DataFrame.unionByName, frames)
        if most is not None:
            bad = bad.orderBy("_file", "_row").limit(most)
        for row in bad.collect():
            file = by_address[row["_group"], plain(unquote(row["_file"]))]
            found[file.offset].append((row["_row"], row["_bad"]))
        files_by_offset = {file.offset: file for file in by_address.values()}
        return [(files_by_offset[offset], sorted(found[offset])) for offset in sorted(found)]

    def figures(self) -> ChangeFigures:
        """The figures observed while `good` was computed; blocks until then. Raises RowCountMismatch when the files
        hold more or fewer rows by their own count."""
        rows = self._read_by_spark
        seen = figures(rows.seen, rows.used, self._checked)
        if rows.sides is not None:
            again = (part.rows for part in self.parts if part.file.offset in self.cut.reopened)
            seen = with_sides(seen, rows.sides, read_before=sum(again))
        if seen.rows != self.rows_counted:
            counted: dict[str, int] = defaultdict(int)
            for part in self.parts:
                counted[self._store.spark_uri(part.file.path)] += part.rows
            stop_for_missing_rows(self._target.table, counted, rows.every)
        return seen


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of the parts as Spark reads them, and what it observes meanwhile."""

    every: DataFrame
    changes: DataFrame
    good: DataFrame
    seen: Observed
    used: Observed
    sides: Observed | None

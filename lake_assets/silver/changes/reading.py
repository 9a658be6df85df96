"""Reading a batch's files, with a count of the rows that were read.

Here: the usable changes of some files, each file read by its contract, and the refusal of files with missing rows. Not
here: writing the changes (`silver/write/current/upsert.py`, `silver/write/append_only_tables.py`), unusable rows
(`silver/write/batch_quarantine.py`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.checked.as_listed import as_listed
from lake_assets.bronze.checked.checked_files import checked_files
from lake_assets.bronze.checked.dms_columns import (
    KEY,
    OPERATION,
    CheckedFiles,
    DmsFigures,
    all_differ,
)
from lake_assets.bronze.checked.staging import Staging
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.quarantine.bad_rows import stop_for_missing_rows
from lake_assets.bronze.reader.places import placed, plain
from lake_assets.config import LOGS
from lake_assets.schema.contract import Contracts
from lake_assets.silver.changes.collapse import figures, observe_changes, observe_used
from lake_assets.silver.changes.file_groups import (
    FileGroup,
    file_groups,
    has_known_keys,
    is_current,
)
from lake_assets.silver.changes.frames import Frames, union
from lake_assets.silver.changes.hold_batch import HeldBatch, HeldRows, bad_rows, decoded_groups, hold_batch
from lake_assets.silver.changes.row_cut import ALL_ROWS, RowCut, in_cut, observe_sides, with_sides
from lake_assets.silver.changes.stage_texts import StagedTexts, may_be_staged, stage_texts
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
"""Below so many rows of a full load and the changes since, one batch has both. Decoding and staging more rows would
take longer than Spark takes to read the files."""
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
    ) -> None:
        """`parts`: at least one; their files have their own row counts. Rows outside the cut are left out.
        `staging`: where this process leaves rows for Spark. Raises TableStopped when a file's columns do not fit the
        contract."""
        self._store = store
        self._spark, self._target = spark, target
        self._contracts, self._staging = contracts, staging
        self.parts = parts
        self.cut = cut
        self._known: Sequence[CheckedFiles] | None = None
        """The checked files; None unless all have been checked."""
        self._staged: Sequence[StagedTexts | None] = ()
        """Of each group, its text files, if this process has staged them."""
        self._listed: frozenset[StoredObject] = frozenset()
        """The Parquet files as they were before the look at them."""
        self._groups = file_groups(parts, contracts, cut.reopened)
        few = MOST_ROWS if all(part.file.kind is FileKind.CDC for part in parts) else SMALL_LOAD
        may_decode = self.rows_counted < few and self._may_be_masked
        self._decoded = decoded_groups(store, target, self._groups) if may_decode else None
        """By group, its changes, if this process has decoded all."""
        self._held: HeldBatch | None = None
        if self._decoded is not None and self._may_be_held:
            self._held = hold_batch(spark, target, self._by_address, self._decoded, staging)
        elif self._decoded is None:
            self._staged = [self._stage_texts(group) for group in self._groups]
            if self._is_read_whole:
                self._check_files()

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

    @cached_property
    def _frames(self) -> Frames:
        return Frames(
            self._spark,
            self._store,
            self._target,
            self._contracts,
            self._groups,
            self.cut,
            self._staging,
            self._decoded,
            self._staged,
            checked=self._known is not None,
        )

    @cached_property
    def _may_be_masked(self) -> bool:
        """Whether this process can mask the rows that it decodes: by silver's names."""
        if not self._target.config.mask:
            return True
        return all(is_current(group.version, self._contracts, self._target) for group in self._groups)

    @property
    def held(self) -> HeldRows | None:
        """The usable rows, in the order of the parts, where Spark need not read the files."""
        return None if self._held is None else self._held.rows

    @cached_property
    def _read_by_spark(self) -> "_Rows":
        """The rows as Spark reads them. Never planned for rows that this process holds."""
        every = reduce(union, (rows.drop("_place") for _, rows in self._frames.of_groups()))
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
        """The usable changes, as `bronze.reader` describes them."""
        return self._read_by_spark.good

    @property
    def _is_read_whole(self) -> bool:
        """Whether all rows of the files are read. If not, this process does not look at the files before Spark reads
        them."""
        return self.cut is ALL_ROWS and all(part.only is None and not part.without for part in self.parts)

    def _stage_texts(self, group: FileGroup) -> StagedTexts | None:
        files, target = [file for file in group.files if file.format != "parquet"], self._target
        if not self._may_be_masked or not may_be_staged(files):
            return None
        with_keys = self._is_read_whole and self._looks_at_keys(group)
        return stage_texts(self._store, target, group, files, self._staging, with_keys=with_keys)

    def _looks_at_keys(self, group: FileGroup) -> bool:
        return self._wants_keys and has_known_keys(group.version, self._contracts, self._target)

    def _check_files(self) -> None:
        """Sets what is known of the rows before Spark reads them, if that is known of all files."""
        target = self._target
        found: list[CheckedFiles] = []
        listed = as_listed(self._store, self._parquet)
        for group, staged in zip(self._groups, self._staged, strict=True):
            if staged is not None:
                if staged.checked is None:
                    return
                found += staged.checked
            files = group.files if staged is None else staged.others(group.files)
            if any(file.format != "parquet" for file in files):
                return
            checked = checked_files(
                self._store,
                files,
                name=target.table,
                table=group.table(target.config),
                dms=group.version.contract.dms,
                with_changes=self._looks_at_keys(group),
            )
            if checked is None:
                return
            found += checked
        if sum(len(one.numbers) for one in found) == len(self.parts):  # no file is there twice
            self._known, self._listed = found, listed

    @property
    def _parquet(self) -> list[LoggedFile]:
        return [part.file for part in self.parts if part.file.format == "parquet"]

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
        known = self._known or []
        keys = [one.rows.changes for one in known if one.rows.changes is not None]
        is_known = self._is_load_of_numbers and 0 < len(keys) == len(known)
        return is_known and all_differ(
            pa.concat_tables(keys, promote_options="permissive")[KEY.format(place=0)]
        )

    @property
    def is_as_checked(self) -> bool:
        """Whether no file was written again or deleted between the look at it and its reading by Spark."""
        return self._listed == as_listed(self._store, self._parquet)

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
        checked = self._checked
        if checked is None or checked.rows != self.rows_counted:
            return None
        return ChangeFigures(
            rows=checked.rows,
            by_op=dict(checked.by_op),
            min_sequence=checked.min_sequence,
            max_sequence=checked.max_sequence,
            max_commit_ts=checked.max_commit_ts,
            min_commit_ts=checked.min_commit_ts,
            used=checked.rows,
        )

    @property
    def changes_by_file(self) -> Mapping[str, pa.Table] | None:
        """The keys, operations and sequences of all usable rows, by the file's address, as `CheckedRows.changes`; None
        if they are not known before Spark reads the files."""
        if self._held is not None:
            return self._held.changes
        checked = self._known
        if checked is None or self.rows_counted > MOST_ROWS:
            return None
        known: dict[int, pa.Table] = {}
        for one in checked:
            changes, figures = one.rows.changes, one.rows.figures
            # Rows of a full load have no operation of their own there.
            if changes is None or (
                OPERATION not in changes.column_names and figures.by_op["I"] != figures.rows
            ):
                return None
            known |= one.by_file(changes)
        found = {self._store.spark_uri(part.file.path): known[part.file.offset] for part in self.parts}
        return found if len(found) == len(self.parts) else None

    @property
    def sequences_differ(self) -> bool:
        """Whether all usable changes are known to have different sequences: only if they are held."""
        return self._held is not None and self._held.sequences_differ

    @property
    def _checked(self) -> DmsFigures | None:
        """The figures of all parts, if their files have been checked."""
        known = self._known
        return None if known is None else sum((one.rows.figures for one in known), DmsFigures())

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
        faults of each. Spark reads the files once more, unless this process has decoded them."""
        if self._decoded is not None and self._has_whole_files:
            return bad_rows(self._decoded, self._by_address, most)
        found: dict[int, list[tuple[int, str]]] = defaultdict(list)
        by_address: dict[tuple[int, str], LoggedFile] = {}
        frames = []
        for number, (files, rows) in enumerate(self._frames.of_groups(explain=True)):
            by_address |= {(number, plain(self._store.spark_uri(file.path))): file for file in files}
            bad = placed(in_cut(rows)).filter(F.col("_bad").isNotNull()).select("_file", "_place", "_bad")
            frames.append(bad.withColumn("_group", F.lit(number)))
        bad = reduce(DataFrame.unionByName, frames)
        if most is not None:
            bad = bad.orderBy("_file", "_place").limit(most)
        for row in bad.collect():
            file = by_address[row["_group"], plain(unquote(row["_file"]))]
            found[file.offset].append((row["_place"], row["_bad"]))
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

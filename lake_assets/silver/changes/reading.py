"""Reading a batch's files: what is known of their rows, and the rows as DataFrames.

This process looks at every file before Spark gets a row, so that the figures, the bad rows and the last changes are
known before anything is written. Here: that, and the refusal of files with missing rows. Not here: how rows are held
(`held_rows.py`) or staged (`staged_rows.py`), writing (`silver/write/`).
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.decode.dms_columns import all_differ
from lake_assets.bronze.decode.files import address_of
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.quarantine.bad_rows import refuse_missing_rows
from lake_assets.bronze.reader.staging import Staging
from lake_assets.config import Mode
from lake_assets.schema.contract import Contracts
from lake_assets.silver.changes.file_groups import file_groups
from lake_assets.silver.changes.held_rows import HeldRows, held_rows
from lake_assets.silver.changes.keyed_events import ReadingEvents
from lake_assets.silver.changes.row_cut import ALL_ROWS, RowCut
from lake_assets.silver.changes.row_marks import RowMarks
from lake_assets.silver.changes.staged_rows import Source, StagedRows
from lake_assets.silver.plan.parts import Part
from lake_assets.silver.table.change_events import ChangeFigures, key_columns
from lake_assets.silver.table.targets import Target
from lake_assets.spark.checkpoint import Observed, checkpointed
from lake_assets.storage.object_store import ObjectStore
from lake_assets.words import many

MOST_ROWS = 4_000_000
"""Rows of a full load whose keys fit into this process, at about 60 bytes each."""
MOST_LOADED = 30_000_000
"""As many, if the key is one whole number, at about 16 bytes each."""
SMALL_LOAD = 250_000
"""Below so many rows of a full load and the changes since, one batch has both. A larger load is written as it is read,
by itself."""


class Reading:
    """The rows of some files, in silver's columns."""

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
        as they are, and need not have the keys of a large full load. Raises TableStopped when a file's columns do not
        fit the contract, UnreadableFile or what Arrow raises for a damaged file, StoreError for one that is gone,
        RowCountMismatch for one with more or fewer rows than by its own count."""
        self.spark, self.staging = spark, staging
        self._store, self._target = store, target
        self.parts, self.cut = parts, cut
        groups = file_groups(parts, contracts, cut.reopened)
        few = SMALL_LOAD if any(part.file.kind is FileKind.LOAD for part in parts) else MOST_ROWS
        may_hold = self.rows_counted < few
        self.held = held_rows(spark, store, target, groups, contracts, cut, staging) if may_hold else None
        """The rows, if this process holds them."""
        self._counts: list[Observed] = []
        """What Spark counts, each time that it reads `good`."""
        if self.held is not None:
            self._rows: HeldRows | StagedRows = self.held
        else:
            source = Source(spark, store, target, contracts, cut, staging)
            wanted = target.mode is Mode.CURRENT and (self._wants_keys or not spark_reads)
            self._rows = StagedRows(
                source, groups, self._no_events if wanted else None, spark_reads=spark_reads
            )
        self._refuse_missing_rows()

    def _refuse_missing_rows(self) -> None:
        expected: dict[str, int] = defaultdict(int)
        for part in self.parts:
            expected[address_of(self._store, part.file.path)] += part.rows
        refuse_missing_rows(self._target.table, expected, self._rows.counted)

    @property
    def rows_counted(self) -> int:
        """Rows of the files by their own count."""
        return sum(part.rows for part in self.parts)

    @cached_property
    def figures(self) -> ChangeFigures:
        """The figures of all rows."""
        again = sum(part.rows for part in self.parts if part.file.offset in self.cut.reopened)
        return replace(self._rows.figures, read_before=again)

    def by_file(self) -> Mapping[str, ChangeFigures]:
        """The figures of each file's rows within the cut, by its address."""
        return self._rows.by_file()

    @property
    def addresses(self) -> Sequence[str]:
        """Of the files, in the order of their numbers."""
        return self._rows.addresses

    @property
    def has_events(self) -> bool:
        """Whether the events are known: those of a large full load may not be."""
        return self._rows.events is not None

    @property
    def events(self) -> ReadingEvents:
        """The events of the usable rows."""
        assert self._rows.events is not None, "only those of a large full load may not be known"
        return self._rows.events

    @property
    def has_unique_keys(self) -> bool:
        """Whether no two rows have the same key; False if it is not known: only of full loads whose key is one whole
        number, and whose rows are not held."""
        is_known = self.held is None and self._is_load_of_numbers and self.has_events
        return is_known and all_differ(self.events.first_keys())

    @property
    def changes(self) -> DataFrame:
        """Every row within the cut, unusable ones included, as `decoded_frame`."""
        return self._rows.changes()

    @property
    def good(self) -> DataFrame:
        """The usable changes. Spark counts all changes meanwhile, so that they must be computed before `refuted`."""
        self._counts.append(Observed())
        counts = F.count(F.lit(1)).alias("rows"), F.count_if(F.col("_bad").isNotNull()).alias("bad")
        return self._counts[-1].on(self.changes, *counts).filter(F.col("_bad").isNull())

    def usable(self) -> DataFrame:
        """As `good`, without the count, which takes a quarter of the time of a large batch: the caller counts what is
        written."""
        return self.changes.filter(F.col("_bad").isNull())

    def images(self, marks: RowMarks) -> DataFrame:
        """The images of the usable rows that have a mark. As `good`, they must be computed."""
        if self.held is not None:
            return self.held.images(marks)
        return marks.chosen(self.good).select("_image.*")

    def states(self, marks: RowMarks, columns: Collection[str]) -> DataFrame:
        """The rows that have a mark as states of their keys, with at least these columns of their images."""
        if self.held is not None:
            return self.held.states(marks, columns)
        image, key = F.col("_image"), self._target.key
        keys = (image[name].alias(held) for held, name in zip(key_columns(key), key, strict=True))
        found = marks.chosen(self.usable())
        return found.select(*keys, F.lit(False).alias("_tombstone"), image)

    def checkpointed(self, rows: DataFrame, *observed: Observed) -> DataFrame:
        """Computes rows that derive from `good` now; fills the observations in their plan."""
        return checkpointed(rows, (*self.observations, *observed))

    @property
    def observations(self) -> tuple[Observed, ...]:
        """The observations in the plan of `good`."""
        return tuple(self._counts)

    def refuted(self) -> str | None:
        """Why Spark may have read other rows than this process; None if it has not."""
        if not self._rows.are_as_listed:
            return "a file has been written again since it was looked at"
        rows, bad = self.figures.rows - self.figures.passed_over, self.figures.bad_rows
        for seen in (each.get for each in self._counts):
            if (seen["rows"], seen["bad"]) != (rows, bad):
                read = f"the reader saw {many(seen['rows'], 'row')}, of which {seen['bad']} cannot be used"
                return f"{read}, where the files hold {rows} and {bad}"
        return None

    def bad_rows(self, most: int | None = None) -> list[tuple[LoggedFile, list[tuple[int, str]]]]:
        """The rows that cannot be used, at most the first `most`: by record of the log, their places (from 0) and all
        faults of each."""
        parts: dict[str, list[Part]] = defaultdict(list)
        for part in self.parts:
            parts[address_of(self._store, part.file.path)].append(part)
        found: dict[LoggedFile, list[tuple[int, str]]] = defaultdict(list)
        for address, rows in self._rows.bad_rows(most).items():
            for place, faults in sorted(rows):
                found[next(part.file for part in parts[address] if part.takes(place))].append((place, faults))
        return sorted(found.items(), key=lambda one: one[0].offset)

    def _no_events(self, addresses: Sequence[str]) -> ReadingEvents:
        """Those of files with these addresses, before any is known."""
        return ReadingEvents(addresses, self.rows_counted, in_memory=self._is_load_of_numbers)

    @property
    def _wants_keys(self) -> bool:
        """Whether the keys decide how the rows are written: not those of a large full load, which rarely repeat."""
        is_load = all(part.file.kind is FileKind.LOAD for part in self.parts)
        most = MOST_LOADED if self._is_load_of_numbers else MOST_ROWS
        return not is_load or self.rows_counted <= most

    @property
    def _is_load_of_numbers(self) -> bool:
        """Whether it is a full load whose key is one whole number."""
        is_number = len(self._target.key) == 1 and self._target.has_number_key
        return is_number and all(part.file.kind is FileKind.LOAD for part in self.parts)

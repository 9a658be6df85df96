"""The rows of a batch that this process has decoded and holds.

Here: decoding its files, and the rows as DataFrames: all of them, or the images of some. Not here: the decoder
(`bronze/decode/files.py`), larger batches (`staged_rows.py`), the last changes (`last_changes.py`).
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.decode import files as decoding
from lake_assets.bronze.decode.changes import IMAGE
from lake_assets.bronze.decode.dms_columns import COMMIT_TS, OPERATION, SEQUENCE
from lake_assets.bronze.reader.arrow_frame import arrow_frame, decoded_frame
from lake_assets.bronze.reader.staging import Staging
from lake_assets.config import KEYED_MODES, Mode
from lake_assets.schema.contract import Contracts
from lake_assets.silver.changes.file_groups import FileGroup
from lake_assets.silver.changes.in_silver import in_silver
from lake_assets.silver.changes.keyed_events import Numbers, ReadingEvents, events_of
from lake_assets.silver.changes.row_cut import RowCut
from lake_assets.silver.changes.row_marks import RowMarks
from lake_assets.silver.changes.taken_rows import figures_of, rows_taken, usable_of
from lake_assets.silver.table.change_events import ChangeFigures, key_columns
from lake_assets.silver.table.targets import Target
from lake_assets.storage.object_store import ObjectStore


@dataclass(frozen=True)
class HeldRows:
    """Decoded changes in silver's columns. Marks are of usable rows."""

    spark: SparkSession
    target: Target
    staging: Staging
    taken: pa.Table
    """The rows within the cut."""
    figures: ChangeFigures
    counted: Mapping[str, int]
    """By a file's address, how many of its rows were wanted, those outside of the cut included."""

    @cached_property
    def usable(self) -> pa.Table:
        """The rows that can be used."""
        return usable_of(self.taken)

    @cached_property
    def addresses(self) -> Sequence[str]:
        """Of the files."""
        return [*self.counted]

    @cached_property
    def _places(self) -> tuple[Numbers, Numbers]:
        """The number of the file, and the place in it, of each usable row."""
        files = pc.index_in(self.usable["_file"], pa.array(self.addresses, pa.string()))
        places = (np.asarray(each.combine_chunks(), np.int64) for each in (files, self.usable["_row"]))
        return next(places), next(places)

    @cached_property
    def events(self) -> ReadingEvents:
        """The events of the usable rows."""
        found = ReadingEvents(self.addresses, self.usable.num_rows, in_memory=True)
        files, _ = self._places
        found.add(events_of(self.usable, self.target.config, self.target.key, files))
        return found

    @property
    def sequences_differ(self) -> bool:
        """Whether no two usable changes have the same sequence."""
        sequences = self.usable[SEQUENCE].filter(pc.not_equal(self.usable[SEQUENCE], ""))
        return bool(pc.count_distinct(sequences).as_py() == len(sequences))

    def by_file(self) -> dict[str, ChangeFigures]:
        """The figures of each file's rows within the cut."""
        found = {}
        for address in self.counted:
            rows = self.taken.filter(pc.equal(self.taken["_file"], address))
            found[address] = figures_of(rows, usable_of(rows))
        return found

    def changes(self) -> DataFrame:
        """The rows within the cut, as `decoded_frame`."""
        columns = [column.name for column in self.target.image_columns], self.target.matched_by
        return decoded_frame(self.spark, self.taken, *columns, self.staging)

    @property
    def are_as_listed(self) -> bool:
        """Spark reads no file."""
        return True

    @property
    def log_rows(self) -> DataFrame:
        """The usable rows in the columns of a log: of a change log, with operation, time and sequence."""
        own = (OPERATION, COMMIT_TS, SEQUENCE) if self.target.mode is Mode.CHANGE_LOG else ()
        images = self._images()
        return self._in_columns(pa.table({name: self.usable[name] for name in own} | images))

    def images(self, marks: RowMarks) -> DataFrame:
        """The images that have a mark, in silver's columns."""
        return self._in_columns(pa.table(self._images()).filter(pa.array(marks.of(*self._places))))

    def states(self, marks: RowMarks, columns: Collection[str]) -> DataFrame:
        """The rows that have a mark as states of their keys, with these columns of their images."""
        key = self.target.key
        needed = {name: held for name, held in self._images().items() if name in {*key, *columns}}
        rows = pa.table(needed).filter(pa.array(marks.of(*self._places)))
        fields = {name: F.col(f"_{place}") for place, name in enumerate(needed)}
        return self._frame(rows).select(
            *(fields[name].alias(held) for name, held in zip(key, key_columns(key), strict=True)),
            F.lit(False).alias("_tombstone"),
            F.struct(*(field.alias(name) for name, field in fields.items())).alias("_image"),
        )

    def bad_rows(self, most: int | None) -> dict[str, list[tuple[int, str]]]:
        """By a file's address, the places, from 0, and all faults of its bad rows, at most of the first `most`."""
        bad = self.taken.filter(pc.is_valid(self.taken["_bad"])).select(["_file", "_row", "_bad"])
        found: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for row in bad.sort_by([("_file", "ascending"), ("_row", "ascending")]).slice(0, most).to_pylist():
            found[row["_file"]].append((row["_row"], row["_bad"]))
        return found

    def _images(self) -> dict[str, pa.ChunkedArray]:
        names = [column.name for column in self.target.image_columns]
        return {name: self.usable[IMAGE.format(place=place)] for place, name in enumerate(names)}

    def _in_columns(self, rows: pa.Table) -> DataFrame:
        # Not by a Column of each name: every Column takes several calls of the JVM.
        return self._frame(rows).toDF(*rows.column_names)

    def _frame(self, rows: pa.Table) -> DataFrame:
        """The rows with the columns `_0`, `_1`…: a source column may have any name."""
        rows = rows.rename_columns([f"_{place}" for place in range(rows.num_columns)])
        return arrow_frame(self.spark, rows, self.staging)


def held_rows(
    spark: SparkSession,
    store: ObjectStore,
    target: Target,
    groups: Sequence[FileGroup],
    contracts: Contracts,
    cut: RowCut,
    staging: Staging,
) -> HeldRows | None:
    """The rows of the files; None if they are too many to be held, or if a file is damaged or gone."""
    if sum(file.size for group in groups for file in group.files) > decoding.MOST_BYTES:
        return None
    every: list[pa.Table] = []
    figures, counted = ChangeFigures(by_op=dict.fromkeys("IUD", 0)), dict[str, int]()
    for group in groups:
        decoded = decoding.decoded_changes(
            store,
            group.files,
            name=target.table,
            table=group.table(target.config),
            dms=group.version.contract.dms,
            partial=target.mode in KEYED_MODES,
        )
        if decoded is None:
            return None
        rows = rows_taken(in_silver(decoded, group, contracts, target), group, cut, store)
        every.append(rows.taken)
        figures += rows.figures
        for address, number in rows.counted.items():
            counted[address] = counted.get(address, 0) + number
    return HeldRows(spark, target, staging, _joined(every), figures, counted)


def _joined(groups: Sequence[pa.Table]) -> pa.Table:
    """Only contracts with a marker for values that are not supplied have the column `_unsupplied`."""
    rows = pa.concat_tables(groups, promote_options="permissive")
    if "_unsupplied" not in rows.column_names:
        return rows
    at, whole = rows.schema.get_field_index("_unsupplied"), pa.scalar([], pa.list_(pa.string()))
    return rows.set_column(at, "_unsupplied", pc.coalesce(rows["_unsupplied"], whole))

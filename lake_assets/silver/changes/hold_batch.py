"""A batch whose rows this process has decoded and holds.

Here: decoding its files, the usable rows in the order of the files, those of some marks as DataFrames, their keys and
figures, and the bad rows. Not here: the decoder (`bronze/decode/files.py`), the last changes (`last_changes.py`),
writing (`silver/write/current/foreseen.py`).
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.decode import files as decoding
from lake_assets.bronze.decode.changes import BEFORE, IMAGE, matched_columns
from lake_assets.bronze.decode.dms_columns import (
    COMMIT_TS,
    FIRST_SEQUENCE,
    KEY,
    OLD_KEY,
    OPERATION,
    SEQUENCE,
    UNEQUAL,
)
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.reader.arrow_frame import arrow_frame
from lake_assets.bronze.reader.staging import Staging
from lake_assets.bronze.values.text_values import all_true, any_true
from lake_assets.config import KEYED_MODES, LOGS, Mode, TableConfig
from lake_assets.schema.contract import Contracts
from lake_assets.silver.changes.file_groups import FileGroup
from lake_assets.silver.changes.in_silver import in_silver
from lake_assets.silver.plan.parts import Part
from lake_assets.silver.table.change_events import ChangeFigures, key_columns
from lake_assets.silver.table.targets import Target
from lake_assets.storage.object_store import ObjectStore

Marks = NDArray[np.bool_]
_NUMBER = "_number"
"""A column with the number of a row's file among those of the batch, from 0."""


@dataclass(frozen=True, slots=True)
class HeldRows:
    """The images of all rows of a batch, in the order of its files. A mark belongs to one row."""

    spark: SparkSession
    images: pa.Table
    """Silver's columns, of the types of `image_types.py`."""
    key: Sequence[str]
    staging: Staging

    @property
    def every(self) -> DataFrame:
        """All rows, in silver's columns."""
        return self._in_silver(self.images)

    def rows(self, marks: Marks) -> DataFrame:
        """The rows that have a mark, in silver's columns."""
        return self._in_silver(self.images.filter(pa.array(marks)))

    def _in_silver(self, rows: pa.Table) -> DataFrame:
        # Not by a Column of each name: every Column takes several calls of the JVM.
        return self._frame(rows).toDF(*rows.column_names)

    def states(self, marks: Marks, columns: Collection[str]) -> DataFrame:
        """The rows that have a mark as states of their keys, with these columns of their images."""
        needed = [name for name in self.images.column_names if name in {*self.key, *columns}]
        rows = self.images.select(needed).filter(pa.array(marks))
        fields = {name: F.col(f"_{place}") for place, name in enumerate(needed)}
        return self._frame(rows).select(
            *(fields[name].alias(held) for name, held in zip(self.key, key_columns(self.key), strict=True)),
            F.lit(False).alias("_tombstone"),
            F.struct(*(field.alias(name) for name, field in fields.items())).alias("_image"),
        )

    def _frame(self, rows: pa.Table) -> DataFrame:
        """The rows with the columns `_0`, `_1`…: a source column may have any name."""
        rows = rows.rename_columns([f"_{place}" for place in range(rows.num_columns)])
        return arrow_frame(self.spark, rows, self.staging)


@dataclass(frozen=True, slots=True)
class HeldBatch:
    """A batch of whole files that have silver's columns."""

    rows: HeldRows
    """The usable rows. The rows of a change log have their operation, time and sequence."""
    figures: ChangeFigures
    """Of all rows."""
    changes: Mapping[str, pa.Table] | None
    """By a file's address, the keys, operations and sequences of its usable rows, as `last_changes` takes them. None if
    a change does not determine its row by itself, or a key may be equal to another one."""
    sequences_differ: bool
    """Whether no two usable changes have the same sequence."""


def decoded_groups(
    store: ObjectStore, target: Target, groups: Sequence[FileGroup], contracts: Contracts
) -> list[pa.Table] | None:
    """The changes of each group, in silver's columns; None if they are too many to be held, or if a file is damaged or
    gone."""
    if sum(file.size for group in groups for file in group.files) > decoding.MOST_BYTES:
        return None
    found: list[pa.Table] = []
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
        found.append(in_silver(decoded, group, contracts, target))
    return found


def hold_batch(
    spark: SparkSession,
    target: Target,
    addresses: Mapping[str, Part],
    decoded: Sequence[pa.Table],
    staging: Staging,
) -> HeldBatch | None:
    """`addresses`: the parts by their files' addresses in Spark's spelling, in order; `decoded`: their changes. None if
    so many rows cannot be given to Spark, or a file has more or fewer rows than by its own count."""
    every = _in_order(pa.concat_tables(decoded, promote_options="permissive"), addresses)
    if every is None:
        return None
    usable = usable_of(every)
    names = [column.name for column in target.config.columns]
    images = pa.table({name: usable[IMAGE.format(place=place)] for place, name in enumerate(names)})
    if target.mode is Mode.CHANGE_LOG:
        own = {name: usable[name] for name in (OPERATION, COMMIT_TS, SEQUENCE)}
        images = pa.table(own | dict(zip(images.column_names, images.columns, strict=True)))
    keys = None if target.mode in LOGS else keys_of(usable, target.config, target.key)
    by_file = None if keys is None else _by_file(keys, usable[_NUMBER], addresses)
    rows = HeldRows(spark, images, target.key, staging)
    sequences = usable[SEQUENCE].filter(pc.not_equal(usable[SEQUENCE], ""))
    differ = pc.count_distinct(sequences).as_py() == len(sequences)
    return HeldBatch(rows, figures_of(every, usable), by_file, differ)


def _in_order(every: pa.Table, addresses: Mapping[str, Part]) -> pa.Table | None:
    """The rows by file and place, with the number of their file. None if a file does not have as many as by its own
    count."""
    files = pc.index_in(every["_file"], pa.array([*addresses], pa.string())).combine_chunks()
    order = np.asarray(files, np.int64)
    counts = np.bincount(order, minlength=len(addresses)).tolist()
    if counts != [part.rows for part in addresses.values()]:
        return None
    every = every.append_column(_NUMBER, files)
    places = np.asarray(every["_row"].combine_chunks(), np.int64)
    steps = np.diff(order)
    if np.all((steps > 0) | ((steps == 0) & (np.diff(places) > 0))):
        return every.combine_chunks()
    return every.take(pa.array(np.lexsort((places, order)))).combine_chunks()


def keys_of(usable: pa.Table, table: TableConfig, key: Sequence[str]) -> pa.Table | None:
    """The key of each usable change of the table, also the former one of a change that moves its key, its operation and
    sequence; of rows of a full load the key alone. None if a change does not determine its row by itself, or a key may
    be equal to another one."""
    types = {column.name: column.type for column in table.columns}
    operations, is_load = usable[OPERATION], pc.equal(usable[SEQUENCE], "")
    moved = any_true(pc.and_(is_load, pc.not_equal(operations, "I")))
    if moved or _is_partial(usable) or any(types[name] in UNEQUAL for name in key):
        return None
    images = {name: usable[IMAGE.format(place=place)] for place, name in enumerate(types)}
    now = [images[name] for name in key]
    found = {KEY.format(place=place): values for place, values in enumerate(now)}
    if all_true(is_load):
        return pa.table(found)
    matched = enumerate(matched_columns(table))
    before = {column.name: usable[BEFORE.format(place=place)] for place, column in matched}
    old = [pc.coalesce(before[name], images[name]) for name in key]
    found |= {OPERATION: operations, SEQUENCE: pc.if_else(is_load, FIRST_SEQUENCE, usable[SEQUENCE])}
    differs = reduce(pc.or_, map(pc.not_equal, old, now))
    moves = pc.and_(pc.equal(operations, "U"), differs)
    if any_true(moves):
        found |= {
            OLD_KEY.format(place=place): pc.if_else(moves, values, None) for place, values in enumerate(old)
        }
    return pa.table(found)


def _is_partial(usable: pa.Table) -> bool:
    """Whether an update lacks columns."""
    if "_unsupplied" not in usable.column_names:
        return False
    lacks = pc.greater(pc.list_value_length(usable["_unsupplied"]), 0)
    return any_true(pc.and_(pc.not_equal(usable[OPERATION], "D"), lacks))


def _by_file(rows: pa.Table, numbers: pa.ChunkedArray, addresses: Mapping[str, Part]) -> dict[str, pa.Table]:
    """The rows of each file. `numbers`: of the rows' files, which rise."""
    order = np.asarray(numbers.combine_chunks(), np.int64)
    ends = np.searchsorted(order, np.arange(len(addresses)), "right").tolist()
    begins = [0, *ends[:-1]]
    return {
        address: rows.slice(begin, end - begin)
        for address, begin, end in zip(addresses, begins, ends, strict=True)
    }


def usable_of(every: pa.Table) -> pa.Table:
    """The rows that can be used."""
    bad = every["_bad"]
    return every if bad.null_count == len(bad) else every.filter(pc.is_null(bad))


def figures_of(every: pa.Table, usable: pa.Table) -> ChangeFigures:
    """The figures of decoded changes. A row that cannot be used may have any sequence and time, which do not count."""
    operations = {one["values"]: one["counts"] for one in pc.value_counts(every[OPERATION]).to_pylist()}
    changes, is_change = usable.select([SEQUENCE, COMMIT_TS]), pc.not_equal(usable[SEQUENCE], "")
    changes = changes if all_true(is_change) else changes.filter(is_change)
    sequences, times = pc.min_max(changes[SEQUENCE]), pc.min_max(changes[COMMIT_TS])
    return ChangeFigures(
        rows=every.num_rows,
        by_op={op: int(operations.get(op, 0)) for op in "IUD"},
        min_sequence=sequences["min"].as_py() or "",
        max_sequence=sequences["max"].as_py() or "",
        min_commit_ts=times["min"].as_py(),
        max_commit_ts=pc.max(usable[COMMIT_TS]).as_py(),
        used=usable.num_rows,
        bad_rows=every.num_rows - usable.num_rows,
    )


def bad_rows(
    decoded: Sequence[pa.Table], addresses: Mapping[str, Part], most: int | None
) -> list[tuple[LoggedFile, list[tuple[int, str]]]]:
    """The bad rows of decoded groups, at most the first `most`: by record of the log, their places, from 0, and all
    faults of each."""
    bad = pa.concat_tables(
        [table.filter(pc.is_valid(table["_bad"])).select(["_file", "_row", "_bad"]) for table in decoded]
    )
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for row in bad.sort_by([("_file", "ascending"), ("_row", "ascending")]).slice(0, most).to_pylist():
        found[row["_file"]].append((row["_row"], row["_bad"]))
    rows = ((addresses[address].file, places) for address, places in found.items())
    return sorted(rows, key=lambda one: one[0].offset)

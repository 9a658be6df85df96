"""The rows that a reading takes of decoded files, and their figures.

Here: the rows at the wanted places and within the cut, those of them that can be used, and their figures. Not here:
which places (`silver/plan/parts.py`), the cut (`row_cut.py`), decoding (`bronze/decode/files.py`). Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.bronze.decode.dms_columns import COMMIT_TS, OPERATION, SEQUENCE
from lake_assets.bronze.decode.files import address_of
from lake_assets.bronze.values.text_values import all_true
from lake_assets.silver.changes.file_groups import FileGroup
from lake_assets.silver.changes.row_cut import ALL_ROWS, RowCut
from lake_assets.silver.table.change_events import ChangeFigures
from lake_assets.storage.object_store import ObjectStore


@dataclass(frozen=True, slots=True)
class RowsTaken:
    """Rows of a group's files."""

    taken: pa.Table
    """Those within the cut."""
    figures: ChangeFigures
    """Of all rows at the wanted places."""
    counted: Mapping[str, int]
    """By a file's address, how many of its rows are at the wanted places."""


def rows_taken(changes: pa.Table, group: FileGroup, cut: RowCut, store: ObjectStore) -> RowsTaken:
    """Of the changes of a group's files, or of a piece of them. A file without rows is not counted."""
    changes = _in_places(changes, group, store)
    counts = {one["values"]: one["counts"] for one in pc.value_counts(changes["_file"]).to_pylist()}
    if cut is ALL_ROWS:
        return RowsTaken(changes, figures_of(changes, usable_of(changes)), counts)
    taken, beside = cut.taken(changes, reopened=group.reopened)
    return RowsTaken(taken, figures_of(taken, usable_of(taken)) + beside, counts)


def _in_places(changes: pa.Table, group: FileGroup, store: ObjectStore) -> pa.Table:
    if group.which == "all":
        return changes
    chosen = []
    for path, parts in group.by_path.items():
        places = sorted({place for part in parts for place in (part.only or part.without)})
        is_file = pc.equal(changes["_file"], address_of(store, path))
        chosen.append(pc.and_(is_file, pc.is_in(changes["_row"], pa.array(places, pa.int64()))))
    those = reduce(pc.or_, chosen)
    return changes.filter(pc.invert(those) if group.which == "without" else those)


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

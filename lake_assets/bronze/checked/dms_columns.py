"""The operations, times and sequences of a file's rows, checked by Arrow and without Spark.

DMS repeats one commit time in many rows, and Arrow checks each distinct time once. So it checks a million rows in a
fraction of the time that Spark takes. Here: that check, the figures of a file that has passed it, and the keys of its
changes. Not here: reading the rows (`parquet_values.py`), the meaning of the other columns
(`bronze/reader/typed_rows.py`), what is counted while Spark reads (`silver/changes/collapse.py`), the last change of a
key (`silver/changes/last_changes.py`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lake_assets.bronze.checked.image_types import has_same_values, image_type
from lake_assets.bronze.checked.text_values import all_true, instants
from lake_assets.bronze.files.formats import Layout, before_image
from lake_assets.bronze.files.keys import FileKind
from lake_assets.config import DmsSettings
from lake_assets.errors import LakeError
from lake_assets.local_times import LocalClock

OPERATION, COMMIT_TS, SEQUENCE = "_op", "_commit_ts", "_sequence"
"""Names of the columns that changes have beside the key, as in a change log."""
KEY, OLD_KEY = "_key_{place}", "_old_{place}"
"""Names of the key's columns in a file's changes, whatever the source calls them. If some changes move their key, the
changes also have columns for the old key, which are NULL in the others."""
UNEQUAL = ("float", "double")
"""Types of which equal values may differ here: 0 and -0."""
SYNTHETIC_TAIL = "0" * 19
"""Ends the generated sequence of a change without one; in DMS's own sequences these digits are never all zero."""
_TIME = r"^[12]\d{3}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?$"
_SEQUENCE_DIGITS = 35
FIRST_SEQUENCE = "0" * _SEQUENCE_DIGITS
"""Sorts before every change, as the rows of a full load do."""
_TIME_DIGITS = _SEQUENCE_DIGITS - len(SYNTHETIC_TAIL)
_NEIGHBOURS = 8
"""If fewer than one in eight numbers of a range are keys, sorting the keys is faster than marking each number."""


@dataclass(frozen=True, slots=True)
class DmsFigures:
    """The figures of files whose operations, times and sequences are all usable."""

    rows: int = 0
    by_op: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys("IUD", 0))
    min_sequence: str = ""
    """Empty without changes: full-load rows have no sequence."""
    max_sequence: str = ""
    min_commit_ts: datetime | None = None
    """The oldest commit of the changes, UTC."""
    max_commit_ts: datetime | None = None
    """The newest time of any row, UTC."""

    def __add__(self, other: "DmsFigures") -> "DmsFigures":
        both = (self, other)
        return DmsFigures(
            self.rows + other.rows,
            {op: self.by_op[op] + other.by_op[op] for op in "IUD"},
            min((each.min_sequence for each in both if each.min_sequence), default=""),
            max(each.max_sequence for each in both),
            min((each.min_commit_ts for each in both if each.min_commit_ts), default=None),
            max((each.max_commit_ts for each in both if each.max_commit_ts), default=None),
        )


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """Rows of files of one kind and layout, whose operations, times and sequences are all usable."""

    figures: DmsFigures
    changes: pa.Table | None
    """The key of each row, in the files' order. Changes also have the operation (I, U or D), the time and the sequence,
    and `OLD_KEY` columns if any change moves its key. None if the caller does not want them, if a key has a NULL, or if
    a value may be another one in silver."""


@dataclass(frozen=True, slots=True)
class CheckedFiles:
    """The files that have these rows."""

    numbers: Mapping[int, int]
    """By a file's offset in the log, the number of its rows. The files are in the order of the rows."""
    rows: CheckedRows

    def by_file(self, rows: pa.Table) -> dict[int, pa.Table]:
        """By offset, the rows of each file. `rows`: of all files, in their order."""
        ends = np.cumsum(list(self.numbers.values()))
        return {
            offset: rows.slice(end - number, number)
            for end, (offset, number) in zip(ends.tolist(), self.numbers.items(), strict=True)
        }


class Unusable(Exception):
    """Spark has to look at every row, because one of them may be unusable."""


FAULTS = (Unusable, LakeError, pa.ArrowException, OSError, ValueError, KeyError, ArithmeticError)
"""What a look at a file without Spark may raise."""


def checked(
    columns: "DmsColumns", pieces: Iterable[pa.Table], key: Mapping[str, str] | None = None
) -> CheckedRows:
    """As `checked_file`, for rows in pieces. The `columns` must have passed their `check`. Raises Unusable."""
    wanted = key is not None and columns.of_key(key) is not None
    figures, changes = DmsFigures(), []
    for rows in pieces:
        figures += columns.figures(rows)
        if wanted:
            changes.append(columns.changes(rows, key or {}))
    if not changes or any(part is None for part in changes):
        return CheckedRows(figures, None)
    return CheckedRows(figures, pa.concat_tables(changes, promote_options="default"))


class DmsColumns:
    """DMS's own columns of a file."""

    def __init__(
        self, layout: Layout, types: Mapping[str, str], kind: FileKind, dms: DmsSettings, clock: LocalClock
    ) -> None:
        """`types`: by column, its Arrow type in the file, or its type in lake.yaml if it has that type's values.
        `clock`: of the commit times."""
        self._written = layout.in_file
        self._types, self._kind, self._dms, self._clock = types, kind, dms, clock
        self._operation = self._name(dms.operation_column)
        self._time = self._name(dms.timestamp_column_name)
        self._sequence = None if kind is FileKind.LOAD else self._name(dms.change_sequence_column)

    def _name(self, column: str | None) -> str | None:
        return None if column is None else self._written.get(column)

    @property
    def names(self) -> list[str]:
        """Their names in the file."""
        return [*self.repeating, *([] if self._sequence is None else [self._sequence])]

    @property
    def repeating(self) -> list[str]:
        """The names of those in which many rows have the same value."""
        return [name for name in (self._operation, self._time) if name is not None]

    def check(self) -> None:
        """Raises Unusable unless these columns are texts, and changes have sequences or times."""
        simple = all(
            self._types[today] == "string" for today, name in self._written.items() if name in self.names
        )
        if not simple or not (self._is_load or self._has_sequences):
            raise Unusable

    @property
    def _is_load(self) -> bool:
        return self._kind is FileKind.LOAD

    @property
    def _has_sequences(self) -> bool:
        """Whether changes have a sequence: DMS's own, or one that is generated from the commit time."""
        return self._sequence is not None or self._time is not None

    def of_key(self, key: Mapping[str, str]) -> list[str] | None:
        """The file's names for the key's columns and their before images. `key`: by column, its type in silver. None if
        a value may be another one in silver, or if a file of changes lacks operations or sequences."""
        found: list[str] = []
        for column, declared in key.items():
            before = before_image(self._dms, column)
            for name in (column, *([before] if before in self._written else [])):
                found_type = self._types.get(name)
                is_known = found_type == declared or has_same_values(found_type, declared)
                if declared in UNEQUAL or not is_known:
                    return None
                found.append(self._written[name])
        has_order = self._has_sequences and self._operation is not None
        return found if has_order or self._is_load else None

    def changes(self, rows: pa.Table, key: Mapping[str, str]) -> pa.Table | None:
        """The changes that `CheckedRows` describes; None if one has a NULL in its key."""
        found: dict[str, pa.ChunkedArray] = {
            KEY.format(place=place): _in_silver(rows[self._written[column]], declared)
            for place, (column, declared) in enumerate(key.items())
        }
        if any(values.null_count for values in found.values()):
            return None
        if self._is_load:
            return pa.table(found)
        own = self.own(rows)
        return pa.table(found | own | (self._old_keys(rows, key, own[OPERATION]) if key else {}))

    def own(self, rows: pa.Table) -> dict[str, pa.Array | pa.ChunkedArray]:
        """The operation, time and sequence of each row, as silver has them. For changes, only if `of_key` finds it."""
        return {
            OPERATION: self._operations_of(rows),
            COMMIT_TS: self._commit_times(rows),
            SEQUENCE: self._sequences_of(rows),
        }

    def _sequences_of(self, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        if self._is_load:
            return pa.repeat("", rows.num_rows)
        if self._sequence is not None:
            return _texts(rows[self._sequence])
        return self._at_times(rows, generated)

    def _operations_of(self, rows: pa.Table) -> pa.Array:
        if self._operation is None:
            return pa.repeat("I", rows.num_rows)
        written = rows[self._operation].combine_chunks()
        words = [self._dms.operations.get(word, word) for word in written.dictionary.to_pylist()]
        return pa.array(words, pa.string()).take(written.indices)

    def _commit_times(self, rows: pa.Table) -> pa.Array:
        """The times of rows whose times are usable; NULL in a file without times."""
        kind = pa.timestamp("us", "UTC")
        if self._time is None:
            return pa.nulls(rows.num_rows, kind)
        return self._at_times(rows, lambda times: times.cast(kind))

    def _at_times(self, rows: pa.Table, of_times: Callable[[pa.Array], pa.Array]) -> pa.Array:
        """For each row what `of_times` makes of its time: called once with the different times, without a zone."""
        written = rows[self._time].combine_chunks()
        return of_times(_instants(written.dictionary, self._clock)).take(written.indices)

    def _old_keys(
        self, rows: pa.Table, key: Mapping[str, str], operations: pa.Array
    ) -> dict[str, pa.ChunkedArray]:
        """The `OLD_KEY` columns, if an update moves its key. Some engines always fill before images."""
        before = [self._name(before_image(self._dms, column)) for column in key]
        now = [rows[self._written[column]] for column in key]
        old = [
            values if name is None else pc.coalesce(rows[name], values)
            for name, values in zip(before, now, strict=True)
        ]
        differs = reduce(pc.or_, map(pc.not_equal, old, now))
        moves = pc.and_(differs, pc.equal(operations, "U"))
        if not pc.any(moves).as_py():
            return {}
        return {
            OLD_KEY.format(place=place): _in_silver(pc.if_else(moves, values, None), declared)
            for place, (values, declared) in enumerate(zip(old, key.values(), strict=True))
        }

    def figures(self, rows: pa.Table) -> DmsFigures:
        """The figures of some rows. Raises Unusable."""
        if not rows.num_rows:
            return DmsFigures()
        by_op = self._operations(rows)
        lowest, highest = (None, None) if self._time is None else _times(rows[self._time], self._clock)
        if self._is_load:
            return DmsFigures(rows.num_rows, by_op, max_commit_ts=highest)
        if self._sequence is not None:
            first, last = _sequences(rows[self._sequence])
        else:
            first, last = generated(pa.array([lowest, highest], pa.timestamp("us"))).to_pylist()
        return DmsFigures(rows.num_rows, by_op, first, last, lowest, highest)

    def _operations(self, rows: pa.Table) -> dict[str, int]:
        by_op = dict.fromkeys("IUD", 0)
        if self._operation is None:
            op = "U" if self._kind is FileKind.CDC and self._dms.cdc_inserts_and_updates else "I"
            return by_op | {op: rows.num_rows}
        for found in pc.value_counts(_texts(rows[self._operation])).to_pylist():
            op = self._dms.operations.get(found["values"], found["values"])
            if op not in by_op:
                raise Unusable
            by_op[op] += found["counts"]
        return by_op


def _texts(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return values.cast(pa.string())


def _in_silver(values: pa.ChunkedArray, declared: str) -> pa.ChunkedArray:
    """A key's values. Whole numbers stay as they are, whatever their size, but Spark knows none without a sign."""
    return values if pa.types.is_signed_integer(values.type) else values.cast(image_type(declared))


def _instants(times: pa.Array, clock: LocalClock) -> pa.Array:
    """The instants of texts that the clock shows, in UTC. Raises Unusable for a time that it skips or shows twice, and
    ArrowInvalid for a 30th of February."""
    found = instants(pc.cast(times, pa.timestamp("us")), clock)
    if found.null_count != times.null_count:
        raise Unusable
    return found


def _times(values: pa.ChunkedArray, clock: LocalClock) -> tuple[datetime, datetime]:
    """The lowest and the highest."""
    different = pc.unique(values).cast(pa.string())
    if different.null_count or not all_true(pc.match_substring_regex(different, _TIME)):
        raise Unusable
    found = pc.min_max(_instants(different, clock))
    return found["min"].as_py().replace(tzinfo=UTC), found["max"].as_py().replace(tzinfo=UTC)


def generated(times: pa.Array) -> pa.Array:
    """The sequences of changes without one: the digits of the commit time down to centiseconds, and zeros. As
    `bronze/reader/typed_rows.py` generates them."""
    digits = pc.replace_substring(pc.strftime(times, "%Y%m%d%H%M%S"), ".", "")
    return pc.binary_join_element_wise(pc.utf8_slice_codeunits(digits, 0, _TIME_DIGITS), SYNTHETIC_TAIL, "")


def _sequences(values: pa.ChunkedArray) -> tuple[str, str]:
    """The lowest and the highest."""
    texts = _texts(values)
    is_long_enough = pc.equal(pc.binary_length(texts), _SEQUENCE_DIGITS)
    if texts.null_count or not all_true(pc.and_(is_long_enough, pc.ascii_is_decimal(texts))):
        raise Unusable
    found = pc.min_max(texts)
    return found["min"].as_py(), found["max"].as_py()


def all_differ(keys: pa.ChunkedArray) -> bool:
    """Whether none of these whole numbers repeats."""
    parts = [np.asarray(chunk) for chunk in keys.chunks if len(chunk)]
    if _rise(parts):
        return True  # Most full loads are in the order of the key.
    numbers = np.concatenate(parts, dtype=np.int64)
    lowest, highest = int(numbers.min()), int(numbers.max())
    if highest - lowest < _NEIGHBOURS * len(numbers):
        seen = np.zeros(highest - lowest + 1, bool)
        seen[numbers - lowest] = True
        return int(np.count_nonzero(seen)) == len(numbers)
    numbers = np.sort(numbers)
    return not np.any(numbers[1:] == numbers[:-1])


def _rise(parts: Sequence[NDArray[np.int64]]) -> bool:
    """Whether each number is above the one before. Goes part by part, because joining the parts takes longer."""
    within = all(np.all(part[1:] > part[:-1]) for part in parts)
    return within and all(one[-1] < other[0] for one, other in pairwise(parts))

"""The rows of DMS files as typed changes, or the reasons why they cannot be used. By Arrow, without Spark.

Here: operation, commit time, sequence, images and before images of rows of one kind and layout. Not here: their fields
(`fields.py`), converting a column of values (`bronze/values/exact_conversions.py`), the words for faults
(`faults.py`).
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import reduce
from typing import Any, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.bronze.decode.dms_columns import SEQUENCE_DIGITS, SYNTHETIC_TAIL, generated
from lake_assets.bronze.decode.faults import NOT_SUPPLIED, Faults
from lake_assets.bronze.decode.fields import Fields
from lake_assets.bronze.files.formats import MAY_BE_EMPTY, before_image
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.values.exact_conversions import converted
from lake_assets.bronze.values.image_types import image_type
from lake_assets.bronze.values.text_values import all_true
from lake_assets.config import Column, DmsSettings, Mode, TableConfig
from lake_assets.local_times import LocalClock

IMAGE, BEFORE = "image_{place}", "before_{place}"
"""Names of the columns of the images, by the place of the column in the table, and of the before images."""
YEARS = (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))
"""Other readers know no commit times beyond."""
TIME_IN_NAME = r"(\d{8}-?\d{8})\d{1,2}\.[^/]*$"


def matched_columns(table: TableConfig) -> list[Column]:
    """The columns whose before images identify the row that an update changes."""
    every = table.mode is Mode.FULL_ROW
    return [column for column in table.columns if every or column.name in table.primary_key]


def checked_as_values(dms: DmsSettings) -> frozenset[str]:
    """The columns of DMS whose values have a fault unless they are an operation, a time or a sequence."""
    named = (dms.operation_column, dms.timestamp_column_name, dms.change_sequence_column)
    return frozenset(name for name in named if name is not None)


def marks_unsupplied(table: TableConfig, dms: DmsSettings) -> bool:
    """Whether changes have `_unsupplied`."""
    return dms.csv_no_sup_value is not None or bool(table.kept_when_null)


def default_text(value: str | int | float | bool | None) -> pa.Scalar:
    """The text of a column's default, which is read like a field."""
    if isinstance(value, int) and not isinstance(value, bool):
        return pa.scalar(str(value))  # of any size
    return converted(_one(pa.array([value])), "string", LocalClock())[0]


def typed_changes(
    fields: Fields,
    kind: FileKind,
    types: Mapping[str, str] | None,
    table: TableConfig,
    dms: DmsSettings,
    *,
    explain: bool = True,
) -> pa.Table:
    """The changes of some files, one for each row: the columns of `bronze/reader/arrow_frame.py`, but for structs,
    whose fields are columns named `IMAGE` and `BEFORE`. `types`: the Arrow types of a Parquet file's columns, `string`
    for JSON, None for the texts of a CSV file. `explain`: as of `Faults`."""
    return _Rows(fields, kind, types, table, dms, explain=explain).changes()


class _Rows:
    def __init__(
        self,
        fields: Fields,
        kind: FileKind,
        types: Mapping[str, str] | None,
        table: TableConfig,
        dms: DmsSettings,
        *,
        explain: bool,
    ) -> None:
        self.fields, self.kind, self.table, self.dms = fields, kind, table, dms
        self.is_text = types is None
        """Whether the fields are those of a CSV file, in which an empty field has no meaning by itself."""
        self.clock = table.clock(dms)
        self.operations = self._operations()
        self.faults = Faults(len(fields), table, self.clock, explain=explain)

    def changes(self) -> pa.Table:
        self._note_operations()
        marked = self._marked()
        images = self._images()
        before = self._before()
        self._note_nulls(images, marked)
        if self.table.mode is Mode.FULL_ROW:
            unknown = pc.and_(self._are("U"), _none_of(before))
            self.faults.add(unknown, "an update without a before image, whose row cannot be found")
        times = self._times()
        sequences = self._sequences(times)
        bad = self.faults.reasons(self.fields.bad)
        columns: dict[str, Any] = {
            "_op": self.operations,
            "_commit_ts": times,
            "_sequence": sequences,
            "_file": self.fields.file,
            "_row": self.fields.row,
            "_bad": bad,
        }
        columns |= {IMAGE.format(place=place): values for place, values in enumerate(images.values())}
        whole = self._whole_rows(before)
        columns |= {BEFORE.format(place=place): values for place, values in enumerate(whole.values())}
        if marks_unsupplied(self.table, self.dms):
            columns["_unsupplied"] = self._unsupplied(marked)
        return pa.table(columns)

    def has(self, name: str | None) -> TypeGuard[str]:
        return name in self.fields.values

    def at(self, name: str) -> pa.ChunkedArray:
        """A column's fields; the default of a missing column."""
        found = self.fields.values.get(name)
        if found is not None:
            return found
        return _one(pa.repeat(default_text(self.table.defaults.get(name)), len(self.fields)))

    def typed(self, values: pa.ChunkedArray, declared: str) -> pa.ChunkedArray:
        return converted(values, declared, self.clock)

    def _are(self, *operations: str) -> pa.ChunkedArray:
        """Which rows have one of the operations; NULL for a row without an operation."""
        found = [pc.equal(self.operations, operation) for operation in operations]
        return reduce(pc.or_, found)

    def _operations(self) -> pa.ChunkedArray:
        dms = self.dms
        if not self.has(dms.operation_column):
            # If the endpoint does not distinguish inserts from updates, an update is right for both.
            only = "U" if self.kind is FileKind.CDC and dms.cdc_inserts_and_updates else "I"
            return _one(pa.repeat(only, len(self.fields)))
        different = (
            self.typed(self._known(dms.operation_column), "string").combine_chunks().dictionary_encode()
        )
        words = [dms.operations.get(word, word) for word in different.dictionary.to_pylist()]
        return _one(pa.array(words, pa.string()).take(different.indices))

    def _note_operations(self) -> None:
        written = pc.fill_null(self.operations, "")
        known = pc.is_in(written, pa.array(["I", "U", "D"]))
        self.faults.add(pc.invert(known), self.faults.operation(written))

    def _marked(self) -> dict[str, pa.ChunkedArray]:
        """By column of the table, which of its fields have the marker for values that were not supplied."""
        marker, token = self.dms.csv_no_sup_value, self.dms.csv_null_value
        if not self.is_text or marker is None:
            return {}
        names = {column.name for column in self.table.columns}
        return {
            name: pc.equal(pc.fill_null(texts, token), marker)
            for name, texts in self.fields.values.items()
            if name in names
        }

    def _known(self, name: str) -> pa.ChunkedArray:
        """A column's fields without the marker."""
        texts, marker = self.at(name), self.dms.csv_no_sup_value
        is_marked = self.is_text and marker is not None and name in self.fields.values
        return pc.if_else(pc.fill_null(pc.equal(texts, marker), False), None, texts) if is_marked else texts

    def _images(self) -> dict[str, pa.ChunkedArray]:
        found = {}
        for column in self.table.columns:
            name, declared = column.name, column.type
            values = self._with_empty_value(self._known(name), column)
            if self.is_text and declared == "string":
                found[name] = values  # needs no conversion
                continue
            found[name] = self.typed(values, declared)
            lost = pc.and_(pc.is_valid(values), pc.is_null(found[name]))
            self.faults.add(lost, self.faults.unreadable(name, values, declared, is_text=self.is_text))
        return found

    def _with_empty_value(self, texts: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
        """Where NULL is written as an empty field, the empty field of a required column of text or bytes is an empty
        value."""
        if not self.is_text or self.dms.csv_null_value != "":
            return texts
        if not column.required or column.type not in MAY_BE_EMPTY:
            return texts
        binds = pc.is_null(texts)
        if column.name in self.table.kept_when_null:
            binds = pc.and_(binds, pc.invert(self._are("D", "U")))
        elif column not in matched_columns(self.table):
            binds = pc.and_(binds, pc.invert(self._are("D")))
        return pc.if_else(pc.fill_null(binds, False), "", texts)

    def _before(self) -> dict[str, pa.ChunkedArray]:
        """The typed before images of the columns that identify a row; NULL where DMS wrote none."""
        found: dict[str, pa.ChunkedArray] = {}
        written = self._written_before()
        for column in matched_columns(self.table):
            name = before_image(self.dms, column.name)
            if name is None or name not in written:
                found[column.name] = _one(pa.nulls(len(self.fields), image_type(column.type)))
                continue
            values = written[name]
            old = found[column.name] = self.typed(values, column.type)
            lost = pc.and_(pc.is_valid(values), pc.is_null(old))
            self.faults.add(pc.and_(lost, self._are("U")), self.faults.misfit(name, values, column.type))
        return found

    def _written_before(self) -> dict[str, pa.ChunkedArray]:
        columns = {before_image(self.dms, column.name): column for column in matched_columns(self.table)}
        found = {name: (self._known(name), column) for name, column in columns.items() if self.has(name)}
        if not self.is_text:
            return {name: values for name, (values, _) in found.items()}
        # A missing image may be an empty field, whatever the null token is. So an empty field is an empty text, or
        # empty bytes, only if another part of the key was written.
        filled = {name: pc.fill_null(pc.not_equal(texts, ""), False) for name, (texts, _) in found.items()}
        nothing = _one(pa.repeat(False, len(self.fields)))
        any_filled = reduce(pc.or_, filled.values(), nothing)
        return {
            name: pc.if_else(any_filled if column.type in MAY_BE_EMPTY else filled[name], texts, None)
            for name, (texts, column) in found.items()
        }

    def _whole_rows(self, before: Mapping[str, pa.ChunkedArray]) -> Mapping[str, pa.ChunkedArray]:
        """The before images. Where an empty field means NULL, the empty field of a required column of text or bytes is
        an empty value, as in images."""
        if self.table.mode is not Mode.FULL_ROW or not self.is_text or self.dms.csv_null_value != "":
            return before
        known = pc.invert(_none_of(before))
        found = dict(before)
        for column in self.table.columns:
            if column.required and column.type in MAY_BE_EMPTY:
                old = before[column.name]
                empty = pa.scalar("", pa.string()).cast(old.type)
                found[column.name] = pc.if_else(pc.and_(known, pc.is_null(old)), empty, old)
        return found

    def _note_nulls(
        self, images: Mapping[str, pa.ChunkedArray], marked: Mapping[str, pa.ChunkedArray]
    ) -> None:
        """NOT NULL of columns outside the key does not apply to deletes, which have only their key, nor to values that
        were not supplied."""
        for column in self.table.columns:
            name, in_key = column.name, column.name in self.table.primary_key
            if not in_key and not column.required:
                continue
            # A value that is present and does not fit has another fault.
            missing = pc.and_(pc.is_null(images[name]), pc.is_null(self._known(name)))
            if not in_key:
                free = ("D", "U") if name in self.table.kept_when_null else ("D",)
                missing = pc.and_(missing, pc.invert(self._are(*free)))
                if name in marked:
                    missing = pc.and_(missing, pc.invert(marked[name]))
            self.faults.add(missing, f"{name} is NULL")

    def _times(self) -> pa.ChunkedArray:
        name = self.dms.timestamp_column_name
        kind = pa.timestamp("us", "UTC")
        if not self.has(name):
            return _one(pa.nulls(len(self.fields), kind))
        written = self._known(name)
        stamps = self.typed(written, "timestamptz")
        first, last = (pa.scalar(moment, kind) for moment in YEARS)
        fits = pc.and_(pc.greater_equal(stamps, first), pc.less_equal(stamps, last))
        times = pc.if_else(fits, stamps, None)
        self.faults.add(pc.is_null(times), self.faults.misfit(name, written, "timestamptz", "a timestamp"))
        return times

    def _sequences(self, times: pa.ChunkedArray) -> pa.ChunkedArray:
        """Texts by which the table's changes sort: DMS's own sequence where there is one; else, in the same form, 16
        digits of the commit time (else of the flush time in the file's name) down to centiseconds, and zeros."""
        if self.kind is FileKind.LOAD:
            return _one(pa.repeat("", len(self.fields)))
        name = self.dms.change_sequence_column
        if not self.has(name):
            return self._generated(times)
        own = self.typed(self._known(name), "string")
        is_own = pc.fill_null(pc.not_equal(own, ""), False)
        # As texts, only sequences of one form sort by time.
        sortable = pc.and_(pc.equal(pc.binary_length(own), SEQUENCE_DIGITS), pc.ascii_is_decimal(own))
        unsortable = pc.and_(is_own, pc.invert(sortable))
        self.faults.add(unsortable, self.faults.misfit(name, own, "string", "35 digits"))
        return own if all_true(is_own) else pc.if_else(is_own, own, self._generated(times))

    def _generated(self, times: pa.ChunkedArray) -> pa.ChunkedArray:
        if self.has(self.dms.timestamp_column_name):
            different = times.combine_chunks().dictionary_encode()
            return _one(generated(different.dictionary.cast(pa.timestamp("us"))).take(different.indices))
        files = self.fields.file.combine_chunks().dictionary_encode()
        found = [_of_name(address) for address in files.dictionary.to_pylist()]
        return _one(pa.array(found, pa.string()).take(files.indices))

    def _unsupplied(self, marked: Mapping[str, pa.ChunkedArray]) -> pa.ChunkedArray:
        """The names of the columns with the marker, and in an update those of kept_when_null without a value."""
        updates = pc.fill_null(self._are("U"), False)
        lacking = list(marked.items())
        for column in self.table.columns:
            if column.name in self.table.kept_when_null:
                is_written = column.name in self.fields.values
                nulls = pc.and_(updates, pc.is_null(self._known(column.name))) if is_written else updates
                lacking.append((column.name, nulls))
        names: list[list[str]] = [[] for _ in range(len(self.fields))]
        for name, mask in lacking:
            for place in pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist():
                if name not in names[place]:
                    names[place].append(name)
        return _one(pa.array(names, pa.list_(pa.string())))


def without_partial_rows(changes: pa.Table, table: TableConfig, *, partial: bool) -> pa.Table:
    """Marks rows with values that were not supplied as bad: inserts, and unless `partial` updates that cannot keep the
    column's value. A delete needs its key only."""
    some = pc.greater(pc.list_value_length(changes["_unsupplied"]), 0)
    places = pc.indices_nonzero(some).to_pylist()
    if not places:
        return changes
    bad = changes["_bad"].to_pylist()
    for place in places:
        operation, missing = changes["_op"][place].as_py(), changes["_unsupplied"][place].as_py()
        if operation == "U" and not partial:
            missing = [name for name in missing if name not in table.kept_when_null]
        elif operation != "I":
            missing = []
        if missing:
            bad[place] = f"{', '.join(missing)}{NOT_SUPPLIED}"
    column = changes.schema.get_field_index("_bad")
    return changes.set_column(column, "_bad", pa.array(bad, pa.string()))


def _of_name(address: str) -> str:
    """The sequence of changes without any, from the time in their file's name."""
    match = re.search(TIME_IN_NAME, address, re.ASCII)
    digits = match[1].replace("-", "") if match is not None else ""
    return f"{digits[:16]}{SYNTHETIC_TAIL}"


def _none_of(before: Mapping[str, pa.ChunkedArray]) -> pa.ChunkedArray:
    return reduce(pc.and_, (pc.is_null(old) for old in before.values()))


def _one(values: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([values])

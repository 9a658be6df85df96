"""The layout of a CSV file without a header, of which its width and its time are all that tells.

Here: which of the table's layouts through time holds, and which of the columns that DMS itself adds the file has. Not
here: files that name their columns (`formats.py`). Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product

from lake_assets.bronze.formats import Layout, contract_layout
from lake_assets.bronze.keys import TRANSACTIONS, FileKind
from lake_assets.bronze.log_record import LoggedFile
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.errors import TableStopped
from lake_assets.words import many

_CLOCKS_DIFFER = timedelta(hours=1)
"""A file's name is by the clock of DMS, a change's sequence by that of the source."""


def headerless_layout(name: str, file: LoggedFile, table: TableConfig, dms: DmsSettings) -> Layout:
    """The layout of the file; `name` is the table, for messages. Raises TableStopped for a width that no layout of the
    file's time has, or that several have."""
    known = at_the_time(table, file.written_at)
    expected = contract_layout(known, dms, file.kind)
    if file.width is None or file.width == len(expected.columns):
        return _by_todays_names(expected, table)
    fitting = {layout for layout in _variants(known, dms, file.kind) if len(layout.columns) == file.width}
    if len(fitting) == 1:
        return _by_todays_names(fitting.pop(), table)
    columns = ", ".join(expected.columns)
    if fitting:
        either = " or ".join(sorted(f"({', '.join(layout.columns)})" for layout in fitting))
        raise TableStopped(
            name,
            f"{file.key} has {many(file.width, 'field')} and no header, and they could be {either}.",
            "Set AddColumnName on the endpoint, or give the time until which the files were otherwise in earlier.",
        )
    raise TableStopped(
        name,
        f"{file.key} has {many(file.width, 'field')} and no header, and lake.yaml expects {len(expected.columns)}: "
        f"{columns}.",
        "Correct the table's columns, and list under earlier the columns that files had until a change of the source.",
    )


@dataclass(frozen=True, slots=True)
class LayoutsByRow:
    """The layouts of a file that a change of the source falls into, oldest first."""

    layouts: tuple[Layout, ...]
    ends: tuple[str, ...]
    """Of each layout but the last, the change sequence of the first row of the next one."""
    sequence_column: str

    def of(self, fields: Sequence[str] | None) -> Layout:
        """The layout of a record; the last one's for a record that none fits."""
        for layout, end in zip(self.layouts, self.ends, strict=False):
            if fields is not None and len(fields) == len(layout.columns):
                sequence = fields[layout.columns.index(self.sequence_column)]
                if sequence and sequence < end:
                    return layout
        return self.layouts[-1]


def layouts_by_row(file: LoggedFile, table: TableConfig, dms: DmsSettings) -> LayoutsByRow | None:
    """For a CDC file without a header into which the end of an earlier layout may fall, by sequence; else None, and
    the whole file has one layout."""
    first, last = file.first_commit_ts, file.flush_time
    if file.columns is not None or dms.change_sequence_column is None or first is None or last is None:
        return None
    inside = [e for e in table.earlier if e.until_sequence and first < e.until <= last + _CLOCKS_DIFFER]
    tables = [table.model_copy(update={"columns": earlier.columns}) for earlier in inside]
    tables += [at_the_time(table, inside[-1].until)] if inside else []
    layouts = tuple(contract_layout(known, dms, file.kind) for known in tables)
    if not inside or file.format not in ("csv", TRANSACTIONS):
        return None
    if file.format == "csv" and file.width not in {len(layout.columns) for layout in layouts}:
        return None
    return LayoutsByRow(
        tuple(_by_todays_names(layout, table) for layout in layouts),
        tuple(earlier.until_sequence or "" for earlier in inside),
        dms.change_sequence_column,
    )


def at_the_time(table: TableConfig, when: datetime) -> TableConfig:
    """The table with the columns that its files had at the time, UTC."""
    for earlier in table.earlier:
        if when < earlier.until:
            return table.model_copy(update={"columns": earlier.columns})
    return table


def _variants(table: TableConfig, dms: DmsSettings, kind: FileKind) -> set[Layout]:
    """With and without each kind of column that comes and goes with the task's mapping."""
    found = set()
    for sequence, images, added in product((True, False), repeat=3):
        changes: dict[str, object] = {}
        if not sequence:
            changes["change_sequence_column"] = None
            changes["added_columns"] = tuple(c for c in dms.added_columns if c != dms.change_sequence_column)
        if not images:
            changes["before_image_prefix"] = None
        if not added:
            own = (c for c in dms.added_columns if c == dms.change_sequence_column and sequence)
            changes["added_columns"] = tuple(own)
        found.add(contract_layout(table, dms.model_copy(update=changes), kind))
    return found


def _by_todays_names(layout: Layout, table: TableConfig) -> Layout:
    renamed = {old: new for new, old in table.renamed_from.items() if new not in layout.columns}
    return Layout(tuple(renamed.get(column, column) for column in layout.columns))

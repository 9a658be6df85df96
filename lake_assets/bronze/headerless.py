"""The layout of a CSV file without a header, of which its width and its time are all that tells.

Here: which of the table's layouts through time holds, and which of the columns that DMS itself adds the file has. Not
here: files that name their columns (`formats.py`). Pure.
"""

from datetime import datetime
from itertools import product

from lake_assets.bronze.formats import Layout, contract_layout
from lake_assets.bronze.keys import FileKind
from lake_assets.bronze.log_record import LoggedFile
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.errors import TableStopped


def headerless_layout(name: str, file: LoggedFile, table: TableConfig, dms: DmsSettings) -> Layout:
    """The layout of the file; `name` is the table, for messages. Raises TableStopped for a width that no layout of the
    file's time has, or that several have."""
    known = at_the_time(table, _time(file))
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
            f"{file.key} has {file.width} fields and no header, and they could be {either}.",
            "Set AddColumnName on the endpoint, or give the time until which the files were otherwise in earlier.",
        )
    raise TableStopped(
        name,
        f"{file.key} has {file.width} fields and no header, and lake.yaml expects {len(expected.columns)}: {columns}.",
        "Correct the table's columns, and list under earlier the columns that files had until a change of the source.",
    )


def at_the_time(table: TableConfig, when: datetime) -> TableConfig:
    """The table with the columns that its files had at the time, UTC."""
    for earlier in table.earlier:
        if when < earlier.until:
            return table.model_copy(update={"columns": earlier.columns})
    return table


def _time(file: LoggedFile) -> datetime:
    """When the file was written, or for a full load begun: on DMS's clock, if it has told it."""
    return file.flush_time or file.first_commit_ts or file.last_modified


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

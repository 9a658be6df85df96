"""The meaning of a DMS file's columns under the contract of its table.

Here: the column layout of a file (with or without a header), and its checks. Not here: reading rows
(`bronze/decode/`). Pure: no Spark.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lake_assets.bronze.files.keys import FileKind
from lake_assets.config import REDACTED, Column, DmsSettings, Mode, TableConfig, has_operation_in_cdc
from lake_assets.errors import TableStopped

MAY_BE_EMPTY = frozenset({"string", "binary"})
"""The types that have a value whose field in a CSV file is empty."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Names of a file's columns, in the file's order."""

    columns: tuple[str, ...]
    """The present names."""
    written: tuple[str, ...] = ()
    """The names in the file, where it has names."""
    era: int = 0
    """The number of entries of the table's `earlier` that end after the file's time; they determine its settings."""

    @property
    def in_file(self) -> dict[str, str]:
        """By the present name of a column, its name in the file, which has names."""
        return dict(zip(self.columns, self.written, strict=True))


def before_image(dms: DmsSettings, column: str) -> str | None:
    """Name of the before-image column of a key column, where the endpoint adds them."""
    return None if dms.before_image_prefix is None else f"{dms.before_image_prefix}{column}"


def added_names(columns: Iterable[Column], dms: DmsSettings) -> set[str]:
    """The columns that DMS itself adds. They change when the task's mapping is edited."""
    names = {dms.operation_column, dms.timestamp_column_name, dms.change_sequence_column, *dms.added_columns}
    if dms.before_image_prefix is not None:
        # Before images may be configured for every column, although only those of the key are used.
        names |= {f"{dms.before_image_prefix}{column.name}" for column in columns}
    return {name for name in names if name is not None}


def has_operation(kind: FileKind, dms: DmsSettings) -> bool:
    """Whether a file has the operation column, by the endpoint's settings; if so, it is the first column."""
    return has_operation_in_cdc(dms) if kind is FileKind.CDC else dms.include_op_for_full_load


def contract_layout(table: TableConfig, dms: DmsSettings, kind: FileKind) -> Layout:
    """The layout of a CSV file without a header: operation, commit timestamp, source columns, added columns, before
    images (the order that real DMS files have)."""
    columns: list[str] = []
    if has_operation(kind, dms):
        columns.append(dms.operation_column)
    if dms.timestamp_column_name is not None:
        columns.append(dms.timestamp_column_name)
    own = [column.name for column in table.columns]
    columns += own
    if dms.change_sequence_column is not None and dms.change_sequence_column not in dms.added_columns:
        columns.append(dms.change_sequence_column)
    columns += dms.added_columns
    if dms.before_image_prefix is not None:
        imaged = own if dms.before_image_columns == "all" else table.primary_key
        columns += [f"{dms.before_image_prefix}{name}" for name in imaged]
    return Layout(tuple(columns))


def names_without_values(found: tuple[str, ...] | None, table: TableConfig | None) -> tuple[str, ...] | None:
    """The header of a CSV file as the log and messages may have it. A file that has lost its header begins with a row.
    So for a table with masks, all names are hidden unless they include half of the columns of lake.yaml. The table
    stops at such a header."""
    if found is None or table is None or not table.mask:
        return found
    names = {*found}
    known = sum(bool({c.name, table.renamed_from.get(c.name)} & names) for c in table.columns)
    return found if 2 * known >= len(table.columns) else tuple(REDACTED for _ in found)


def file_layout(
    *, name: str, key: str, kind: FileKind, found: Sequence[str], table: TableConfig, dms: DmsSettings
) -> Layout:
    """The layout of one file from the column names `found` in it (header or Parquet schema).

    The layout includes columns that the contract does not have, and lacks those that the file does not have: the policy
    decides what follows (`schema/evolve.py`). `name` is the table, for messages. Raises TableStopped for a missing part
    of the key, a repeated column, and a CDC file without an operation.
    """
    stops: list[TableStopped] = []
    written, found = found, _with_own_columns(found, table, dms)
    if doubled := sorted({column for column in found if list(found).count(column) > 1}):
        stops.append(
            TableStopped(name, f"{key} has {_list(doubled)} twice.", "Have DMS write each column once.")
        )
    added = added_names((), dms)
    renamed = {old: new for new, old in table.renamed_from.items() if new not in found and old not in added}
    if (prefix := dms.before_image_prefix) is not None:
        renamed |= {f"{prefix}{old}": f"{prefix}{new}" for old, new in renamed.items()}
    columns = tuple(renamed.get(column, column) for column in found)
    if missing := sorted(set(table.primary_key) - set(columns)):
        stops.append(
            TableStopped(
                name,
                f"{key} lacks {_list(missing)}, of the primary key.",
                "Have DMS write it, or correct primary_key in lake.yaml.",
            )
        )
    lacking = sorted({column.name for column in table.columns} - set(columns))
    # An object in JSON lines omits keys that are NULL.
    if table.mode is Mode.FULL_ROW and lacking and ".json" not in key:
        stops.append(
            TableStopped(
                name,
                f"{key} lacks {_list(lacking)}, and a table of mode full_row finds its rows by all of their columns.",
                "If the source has dropped it, remove it from columns in lake.yaml: silver drops it too, then.",
            )
        )
    if kind is FileKind.CDC and has_operation(kind, dms) and dms.operation_column not in found:
        stops.append(
            TableStopped(
                name,
                f"{key} is a CDC file without the column {dms.operation_column}.",
                "Set IncludeOpForFullLoad on the endpoint, or operation_column to the name that it has.",
            )
        )
    if stops:
        raise TableStopped.of_all(stops)
    return Layout(columns, tuple(written))


def _with_own_columns(found: Sequence[str], table: TableConfig, dms: DmsSettings) -> list[str]:
    """The names in a header, where a source column that has the name of a column that DMS adds has its new name: of the
    two, DMS's own comes first."""
    names = list(found)
    added = added_names((), dms)
    for new, old in table.renamed_from.items():
        if old in added and names.count(old) == 2 and new not in names:
            names[len(names) - 1 - names[::-1].index(old)] = new
    return names


def _list(columns: Sequence[str]) -> str:
    return ("column " if len(columns) == 1 else "columns ") + ", ".join(columns)

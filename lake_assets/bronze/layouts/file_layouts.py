"""The layout of a file that names its columns.

Here: that, with the settings of the file's time. Not here: what the columns mean (`bronze/files/formats.py`), files
without names (`headerless.py`).
"""

from dataclasses import replace

from lake_assets.bronze.files.formats import Layout, added_names, file_layout
from lake_assets.bronze.files.parquet_columns import parquet_columns
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, TableConfig


def parquet_layout(
    name: str, file: LoggedFile, table: TableConfig, dms: DmsSettings
) -> tuple[Layout, dict[str, str], DmsSettings]:
    """The layout of a Parquet file, the Arrow types of its columns by their present names, and the settings of its
    time."""
    era = table.era(file.written_at)
    then = table.settings_in(era, dms)
    columns = parquet_columns(file.columns or ())
    found = [column.name for column in columns]
    layout = file_layout(name=name, key=file.key, kind=file.kind, found=found, table=table, dms=then)
    types = {today: column.arrow for today, column in zip(layout.columns, columns, strict=True)}
    return replace(layout, era=era), types, then


def named_layout(
    file: LoggedFile, found: tuple[str, ...], name: str, table: TableConfig, dms: DmsSettings
) -> Layout:
    """The layout of a CSV or JSON-lines file with the column names `found` in it. Raises as `file_layout`."""
    era = table.era(file.written_at)
    then = table.settings_in(era, dms)
    if file.format == "json":
        # JSON keys have no order, so a sorted list of all keys gives one layout for all files. A key that the file
        # lacks is NULL; unused keys are left out.
        own = {column.name for column in table.columns}
        former = set(table.renamed_from.values()) & set(found)
        renamed = {new for new, old in table.renamed_from.items() if old in former and new not in found}
        found = tuple(sorted((own - renamed) | former | (added_names(table.columns, then) & set(found))))
    layout = file_layout(name=name, key=file.key, kind=file.kind, found=found, table=table, dms=then)
    return replace(layout, era=era)

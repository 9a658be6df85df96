"""A batch's files that Spark need not check: their figures, their keys, and the rows of the CSV files.

Here: which files, and looking at them. Not here: the look at one file (`parquet_values.py`, `staged_csv.py`), reading
their rows with Spark (`bronze/reader/read_changes.py`).
"""

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from lake_assets.bronze.checked.csv_columns import may_be_decoded
from lake_assets.bronze.checked.dms_columns import CheckedFiles
from lake_assets.bronze.checked.parquet_values import checked_file
from lake_assets.bronze.checked.staged_csv import StagedCsv, staged_csv
from lake_assets.bronze.checked.staging import Staging
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.layouts.file_layouts import certain_layout, parquet_layout
from lake_assets.bronze.layouts.headerless import layouts_by_row
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.storage.object_store import ObjectStore
from lake_assets.storage.spark_paths import spark_address

AT_ONCE = 4
"""Parquet files that are checked at the same time: for small files in a bucket, requests take most of the time."""


def checked_files(
    store: ObjectStore,
    files: Sequence[LoggedFile],
    *,
    name: str,
    table: TableConfig,
    dms: DmsSettings,
    with_changes: bool = False,
    staging: Staging | None = None,
) -> tuple[list[CheckedFiles], list[StagedCsv]] | None:
    """The checked files, whose operations, times and sequences are all usable, and the staged rows of the CSV files.
    None if Spark has to check one of the files. `staging`: where the rows of CSV files may be; None: nowhere. Raises
    TableStopped when a file's columns do not fit the contract."""
    # Only a look at all of its values shows whether an update lacks columns of kept_when_null.
    key = table.key_types if with_changes and not table.kept_when_null else None

    def check(file: LoggedFile) -> CheckedFiles | None:
        layout, types, then = parquet_layout(name, file, table, dms)
        rows = checked_file(store, file, layout, types, then, table.clock(then), key)
        return None if rows is None else CheckedFiles({file.offset: rows.figures.rows}, rows)

    found: list[CheckedFiles] = []
    staged: list[StagedCsv] = []
    texts = [file for file in files if file.format != "parquet"]
    layouts = _decodable(name, texts, table, dms)
    if texts and (staging is None or layouts is None):
        return None
    parquet = [file for file in files if file.format == "parquet"]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for one in threads.map(check, parquet):
            if one is None:
                return None
            found.append(one)
    for (_, layout), members in (layouts or {}).items():
        assert staging is not None, "else no text is decoded"
        then = table.settings_in(layout.era, dms)
        done = staged_csv(
            store,
            members,
            layout,
            table,
            then,
            key,
            staging,
            lambda file: spark_address(store.spark_uri(file.path)),
        )
        if done is None:
            return None
        found += done[0]
        staged.append(done[1])
    return found, staged


def text_layout(name: str, file: LoggedFile, table: TableConfig, dms: DmsSettings) -> Layout | None:
    """The layout of a CSV file that Arrow can decode; None for any other file. Raises as `checked_files`."""
    if layouts_by_row(file, table, dms) is not None:
        return None
    layout = certain_layout(name, file, table, dms)
    if layout is None or not may_be_decoded(file, table, table.settings_in(layout.era, dms)):
        return None
    return layout


def _decodable(
    name: str, files: Sequence[LoggedFile], table: TableConfig, dms: DmsSettings
) -> dict[tuple[FileKind, Layout], list[LoggedFile]] | None:
    """Text files by kind and layout; None if Spark has to read one of them. Raises as `checked_files`."""
    groups: dict[tuple[FileKind, Layout], list[LoggedFile]] = defaultdict(list)
    if table.mask:
        return None  # other files must not have what silver must not show
    for file in files:
        layout = text_layout(name, file, table, dms)
        if layout is None:
            return None
        groups[file.kind, layout].append(file)
    return groups

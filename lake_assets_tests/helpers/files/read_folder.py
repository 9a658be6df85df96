"""Files in a folder, inspected and read as a batch would read them.

Here: the common steps of the tests of reading, without a catalog. Not here: the cases.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lake_assets.bronze.decode import files as decoding
from lake_assets.bronze.decode.changes import matched_columns
from lake_assets.bronze.files.inspect import UnreadableFile, inspect_file
from lake_assets.bronze.files.keys import DataFile, parse_key
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.reader import arrow_frame
from lake_assets.bronze.reader.arrow_frame import decoded_frame
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.storage.object_store import LocalStore, ObjectStore
from lake_assets_tests.helpers.files.dms_files import NOON

PARQUET_DMS: dict[str, Any] = {
    "timestamp_column_name": "commit_ts",
    "change_sequence_column": "change_seq",
    "before_image_prefix": "BI_",
    "include_op_for_full_load": True,
    "data_format": "parquet",
}
"""An endpoint that writes Parquet with all columns of its own."""


def logged(store: LocalStore, key: str, dms: DmsSettings, offset: int = 1) -> LoggedFile:
    """The file as the log would have it. Raises UnreadableFile."""
    file = parse_key(key, dms)
    assert isinstance(file, DataFile), file
    found = inspect_file(store, file, dms)
    return LoggedFile(
        offset=offset,
        source="shop",
        schema=file.schema,
        table=file.table,
        key=key,
        version="v",
        kind=file.kind,
        format=file.format,
        compression=file.compression,
        size=1,
        last_modified=NOON,
        logged_at=NOON,
        flush_time=file.flush_time,
        capture_date=NOON.date(),
        epoch=1,
        rows=found.rows,
        columns=found.columns,
        first_commit_ts=found.first_commit_ts,
        irregular=found.irregular,
    )


def read_changes(
    spark: SparkSession,
    store: ObjectStore,
    files: Sequence[LoggedFile],
    *,
    name: str,
    table: TableConfig,
    dms: DmsSettings,
    explain: bool = False,
) -> DataFrame:
    """The changes of few files as a batch has them: decoded at once or, if they are many, in pieces."""
    given: dict[str, Any] = {"name": name, "table": table, "dms": dms, "partial": False, "explain": explain}
    decoded = None
    if sum(file.size for file in files) <= decoding.MOST_BYTES:
        decoded = decoding.decoded_changes(store, files, **given)
    if decoded is None:
        pieces = [piece for file in files for piece in decoding.changes_in_pieces(store, file, **given)]
        decoded = pa.concat_tables(pieces, promote_options="permissive")
    images, before = table.columns, matched_columns(table)
    nowhere: Any = None
    with patch.object(arrow_frame, "IN_PLAN_BYTES", 2 * decoded.nbytes):
        return decoded_frame(spark, decoded, [c.name for c in images], [c.name for c in before], nowhere)


class Folder:
    """A bucket in a folder, with one table's contract."""

    def __init__(self, folder: Path, columns: Mapping[str, str], key: Sequence[str], **dms: Any) -> None:
        self.store = LocalStore(folder)
        self.folder = folder
        self.dms = DmsSettings.model_validate(dms)
        self.table = TableConfig.model_validate({"columns": dict(columns), "primary_key": list(key)})
        self.files: list[LoggedFile] = []
        self.unreadable: dict[str, str] = {}

    def put(self, key: str, content: bytes) -> LoggedFile | None:
        """Writes the bytes as they are; None for a file that is held because it cannot be read at all."""
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        try:
            file = logged(self.store, key, self.dms, len(self.files) + 1)
        except UnreadableFile as error:
            self.unreadable[key] = error.reason
            return None
        self.files.append(file)
        return file

    def changes(self, spark: SparkSession, *, explain: bool = False) -> DataFrame:
        """All files that can be read."""
        name = "public.items"
        return read_changes(
            spark, self.store, self.files, name=name, table=self.table, dms=self.dms, explain=explain
        )

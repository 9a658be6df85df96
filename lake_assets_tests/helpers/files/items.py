"""DMS files of one small table, made by hand, and what `read_changes` reads of them.

Here: writing CSV and Parquet files whose rows have a key and the columns of a test. Not here: the tests
(`test_types_by_contract.py`).
"""

import io
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, TimestampType

from lake_assets_tests.helpers.files.dms_files import put
from lake_assets_tests.helpers.lakes.small_lakes import COMPILED, DMS, read_of, small_lake

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, UTC)
NOON_TEXT = "2026-03-01 12:00:00.123456"


@dataclass
class Items:
    """A folder of files of `public.items`, whose columns beside `id` are `columns`."""

    folder: Path
    columns: dict[str, str]
    dms: dict[str, Any] = field(default_factory=dict)
    conf: dict[str, Any] = field(default_factory=dict)
    files: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    """Further keys of the table in lake.yaml."""

    def csv(self, *rows: str) -> None:
        """A full-load file; a row is the text after operation, timestamp and key."""
        self.files += 1
        lines = [f"I,{NOON_TEXT},{self.files * 100 + n},{row}\n" for n, row in enumerate(rows)]
        self._put("csv", "".join(lines).encode())

    def json(self, *rows: dict[str, Any] | bytes) -> None:
        """A full-load file of JSON lines; a row is its values beside operation, timestamp and key, or their text."""
        self.files += 1
        lines = []
        for n, row in enumerate(rows):
            own = row if isinstance(row, bytes) else json.dumps(row).encode()[1:-1]
            start = f'{{"Op": "I", "commit_ts": "{NOON_TEXT}", "id": {self.files * 100 + n}, '
            lines.append(start.encode() + own + b"}\n")
        self._put("json", b"".join(lines))

    def parquet(self, columns: dict[str, pa.Array], **options: Any) -> None:
        """A full-load file: the required timestamp first, then operation, key and these columns."""
        self.files += 1
        rows = len(next(iter(columns.values())))
        stamp = pa.field("commit_ts", pa.string(), nullable=False)
        arrays = [
            pa.array([NOON_TEXT] * rows),
            pa.array(["I"] * rows),
            pa.array([self.files * 100 + n for n in range(rows)]),
        ]
        fields = [stamp, pa.field("Op", pa.string()), pa.field("id", pa.int64())]
        table = pa.Table.from_arrays(
            [*arrays, *columns.values()],
            schema=pa.schema([*fields, *(pa.field(name, array.type) for name, array in columns.items())]),
        )
        sink = io.BytesIO()
        pq.write_table(table, sink, **{"store_schema": False} | options)
        self._put("parquet", sink.getvalue())

    def _put(self, extension: str, content: bytes) -> None:
        put(self.folder / "bronze", f"public/items/LOAD{self.files:08X}.{extension}", content)

    def changes(self) -> DataFrame:
        settings = DMS | {
            "change_sequence_column": None,
            "before_image_prefix": None,
            "add_column_name": False,
        }
        # A log: without a change sequence, a current table is refused for a zone whose clocks go back.
        columns = {"id": "long not null"} | self.columns
        table = {"columns": columns, "primary_key": ["id"], "mode": "append_log"} | self.settings
        lake = small_lake(
            self.folder,
            {"public.items": table},
            source={"dms": settings | self.dms},
            spark={"conf": COMPILED | self.conf},
        )
        return read_of(lake, "public.items")

    def rows(self) -> list[Any]:
        """The values beside the key, in the order of the keys, or why a row is bad."""
        changes = self.changes()
        image = changes.select("_image.*").schema
        shown = [_shown(F.col(f"_image.`{f.name}`"), f.dataType).alias(f.name) for f in image.fields[1:]]
        rows = changes.select(F.col("_image.id").alias("_id"), "_bad", *shown).orderBy("_id").collect()
        instants = {f.name for f in image.fields if isinstance(f.dataType, TimestampType)}
        return [
            row["_bad"] or tuple(_read(row[name], name in instants) for name in self.columns) for row in rows
        ]

    def values(self) -> list[Any]:
        """The same for a single column."""
        return [row if isinstance(row, str) else row[0] for row in self.rows()]


def _shown(value: Column, kind: DataType) -> Column:
    # PySpark shows instants in this machine's zone, and Spark's texts of them are in the session's.
    return F.unix_micros(value) if isinstance(kind, TimestampType) else value


def _read(value: Any, is_instant: bool) -> Any:
    if is_instant and value is not None:
        return EPOCH + timedelta(microseconds=value)
    return bytes(value) if isinstance(value, bytearray) else value

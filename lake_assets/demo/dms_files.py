"""Names and bytes of DMS files.

Here: the keys `<schema>/<table>/LOAD%08X.csv` and `<schema>/<table>/YYYYMMDD-HHMMSSmmm.csv`, and a file's bytes.
Not here: where files go (`storage.py`), when they are flushed (`history.py`, `outbox.py`).
"""

import gzip
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

from lake_assets.demo.changes import Change
from lake_assets.demo.dms_csv import encode_csv
from lake_assets.demo.dms_layout import DmsLayout, FileContent
from lake_assets.demo.dms_parquet import encode_parquet
from lake_assets.demo.dms_settings import DmsWriterSettings
from lake_assets.demo.schema import SCHEMA, TABLES


def load_key(table: str, part: int, settings: DmsWriterSettings) -> str:
    """Key of the full load's part (from 1); the counter is hexadecimal: …09, 0A, …0F, 10."""
    return f"{SCHEMA}/{table}/LOAD{part:08X}.{settings.file_ending}"


def cdc_key(table: str, flushed_at: datetime, settings: DmsWriterSettings) -> str:
    """Key of a CDC file: the time of its flush in UTC, to the millisecond."""
    utc = flushed_at.astimezone(UTC)
    return f"{SCHEMA}/{table}/{utc:%Y%m%d-%H%M%S}{utc.microsecond // 1000:03d}.{settings.file_ending}"


def flush_time(key: str) -> datetime:
    """The time in a CDC file's key, UTC. Raises ValueError for another key."""
    name = key.rsplit("/", 1)[-1].split(".")[0]
    return datetime.strptime(name, "%Y%m%d-%H%M%S%f").replace(tzinfo=UTC)


def encode_file(content: FileContent, settings: DmsWriterSettings) -> bytes:
    """A file's bytes; the same content always gives the same bytes."""
    if settings.data_format == "parquet":
        return encode_parquet(content, settings)
    data = encode_csv(content, settings)
    return gzip.compress(data, compresslevel=6, mtime=0) if settings.compression == "gzip" else data


def encode_cdc_file(
    table: str, changes: Iterable[Change], settings: DmsWriterSettings
) -> tuple[bytes, Counter[str]]:
    """A CDC file's bytes and its number of rows by op."""
    content = DmsLayout(TABLES[table], settings).cdc(changes)
    return encode_file(content, settings), Counter(str(row[0]) for row in content.rows)

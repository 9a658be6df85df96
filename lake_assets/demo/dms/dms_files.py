"""Names and bytes of DMS files.

Here: the keys `<schema>/<table>/LOAD%08X.csv`, `<schema>/<table>/YYYYMMDD-HHMMSSmmm.csv` and
`<cdc_path>/CDC_TXN-YYYYMMDDHHMMSSmmm.csv`, and a file's bytes. Not here: where files go (`output_storage.py`), when
they are flushed (`demo/history.py`, `demo/outbox.py`).
"""

import gzip
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

from lake_assets.demo.dms.dms_csv import encode_csv, encode_lines, row_writer
from lake_assets.demo.dms.dms_layout import DmsLayout, FileContent
from lake_assets.demo.dms.dms_messages import encode_messages
from lake_assets.demo.dms.dms_parquet import encode_parquet
from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.source.bike_schema import SCHEMA, TABLES, Column
from lake_assets.demo.source.source_changes import Change

TRANSACTIONS = "*"
"""The stream of an endpoint with PreserveTransactions: the changes of all tables."""
_TXN = "CDC_TXN-"


def stream_of(table: str, settings: DmsWriterSettings) -> str:
    """The name of the table's stream. The tables of a stream share each file of changes."""
    return TRANSACTIONS if settings.preserve_transactions else table


def load_key(table: str, part: int, settings: DmsWriterSettings) -> str:
    """Key of the full load's part (from 1); the counter is hexadecimal: …09, 0A, …0F, 10."""
    return f"{SCHEMA}/{table}/LOAD{part:08X}.{settings.file_ending}"


def cdc_key(stream: str, flushed_at: datetime, settings: DmsWriterSettings) -> str:
    """Key of a stream's CDC file: the time of its flush in UTC, to the millisecond."""
    utc = flushed_at.astimezone(UTC)
    milliseconds = f"{utc.microsecond // 1000:03d}"
    if stream == TRANSACTIONS:
        return f"{settings.cdc_path}/{_TXN}{utc:%Y%m%d%H%M%S}{milliseconds}.{settings.csv_ending}"
    return f"{SCHEMA}/{stream}/{utc:%Y%m%d-%H%M%S}{milliseconds}.{settings.file_ending}"


def flush_time(key: str) -> datetime:
    """The time in a CDC file's key, UTC. Raises ValueError for another key."""
    digits = key.rsplit("/", 1)[-1].split(".")[0].removeprefix(_TXN).replace("-", "")
    return datetime.strptime(digits, "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)


def encode_file(content: FileContent, settings: DmsWriterSettings) -> bytes:
    """A file's bytes; the same content always gives the same bytes."""
    if settings.data_format == "parquet":
        return encode_parquet(content, settings)
    if settings.data_format == "messages":
        return encode_messages(content, settings)
    return _compressed(encode_csv(content, settings), settings)


def _compressed(data: bytes, settings: DmsWriterSettings) -> bytes:
    return gzip.compress(data, compresslevel=6, mtime=0) if settings.compression == "gzip" else data


def encode_cdc_file(
    stream: str, changes: Iterable[Change], settings: DmsWriterSettings
) -> tuple[bytes, Counter[tuple[str, str]]]:
    """A CDC file's bytes and its number of rows by table and op."""
    if stream == TRANSACTIONS:
        return _encode_transactions(changes, settings)
    content = DmsLayout(TABLES[stream], settings).cdc(changes)
    return encode_file(content, settings), Counter((stream, str(row[0])) for row in content.rows)


def _encode_transactions(
    changes: Iterable[Change], settings: DmsWriterSettings
) -> tuple[bytes, Counter[tuple[str, str]]]:
    """Rows of all tables in the order of the changes, each as wide as its table: Op, table, schema, and the rest of the
    table's own layout."""
    layouts = {name: DmsLayout(table, settings) for name, table in TABLES.items()}
    names = Column("TABLE", "string", True), Column("SCHEMA", "string", True)
    writers = {}
    for name, layout in layouts.items():
        columns = layout.columns(full_load=False)
        writers[name] = row_writer((columns[0], *names, *columns[1:]), settings)
    lines: list[str] = []
    rows: Counter[tuple[str, str]] = Counter()
    for change in changes:
        for op, *values in layouts[change.table].cdc([change]).rows:
            lines.append(writers[change.table]((op, change.table, SCHEMA, *values)))
            rows[change.table, str(op)] += 1
    return _compressed(encode_lines(lines), settings), rows

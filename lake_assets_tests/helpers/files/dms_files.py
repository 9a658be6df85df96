"""DMS files for tests: rows of Python values, encoded as an endpoint with given settings encodes them.

Here: files, their names, CSV and Parquet. Not here: the table that they give (`oracle.py`). Shares no code with the
package, so that a mistake in both cannot cancel out.
"""

import csv
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq

Row = Mapping[str, Any]
"""Column name to Python value; instants in UTC. Further entries: `Op`, `commit_ts`, `change_seq`, `BI_<column>`."""

TABLE = "table of the row"
"""In a row of a file of transactions: its `schema.table`."""

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class DmsFile:
    """One object of the bucket."""

    key: str
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        return self.key.rsplit("/", 1)[-1]

    @property
    def is_load(self) -> bool:
        return self.name.startswith(("LOAD", "SEGMENT"))

    @property
    def has_transactions(self) -> bool:
        return self.name.startswith("CDC_TXN-")

    @property
    def flushed(self) -> datetime:
        """When DMS wrote a CDC file, by its name."""
        digits = self.name.split(".")[0].removeprefix("CDC_TXN-").replace("-", "")
        return datetime.strptime(digits + "000", "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)

    def of_table(self, table: str) -> "DmsFile":
        """A file of transactions as far as `table` (`schema.table`) is concerned."""
        return DmsFile(self.key, tuple(row for row in self.rows if row[TABLE] == table))


def parts_of(table: str) -> tuple[str, str]:
    """Schema and table of `schema.table`; a part with a dot is quoted."""
    schema, name = next(csv.reader([table], delimiter="."))
    return schema, name


def folder_of(table: str) -> str:
    """`schema/table`."""
    return "/".join(parts_of(table))


def load_file(
    table: str, rows: Iterable[Row], part: int = 1, at: datetime = NOON, extension: str = "csv"
) -> DmsFile:
    """A part of a full load whose rows are transferred from `at` on."""
    stamped = tuple(
        {"Op": "I", "commit_ts": at + timedelta(milliseconds=number), **row}
        for number, row in enumerate(rows)
    )
    return DmsFile(f"{folder_of(table)}/LOAD{part:08X}.{extension}", stamped)


def cdc_file(table: str, flushed: datetime, rows: Iterable[Row], extension: str = "csv") -> DmsFile:
    """Changes, in the order in which they happened."""
    stamp = f"{flushed:%Y%m%d-%H%M%S}{flushed.microsecond // 1000:03d}"
    return DmsFile(f"{folder_of(table)}/{stamp}.{extension}", tuple(rows))


def transaction_file(
    flushed: datetime, changes: Iterable[tuple[str, Row]], extension: str = "csv", cdc_path: str = "cdc"
) -> DmsFile:
    """Changes of several tables (`schema.table`), in the order of their commits."""
    stamp = f"{flushed:%Y%m%d%H%M%S}{flushed.microsecond // 1000:03d}"
    return DmsFile(
        f"{cdc_path}/CDC_TXN-{stamp}.{extension}", tuple({TABLE: table, **row} for table, row in changes)
    )


class Clock:
    """Assigns commits: each change gets the next sequence, each transaction its own time."""

    def __init__(self, start: datetime = NOON + timedelta(minutes=5)) -> None:
        self.now = start
        self._counter = 1000

    def change(
        self, op: str, image: Row, before: Row | None = None, same_transaction: bool = False
    ) -> dict[str, Any]:
        """A CDC row; `before` is the old key of an update."""
        if not same_transaction:
            self.now += timedelta(milliseconds=1700)
        self._counter += 4
        centiseconds = f"{self.now:%Y%m%d%H%M%S}{self.now.microsecond // 10_000:02d}"
        return {
            "Op": op,
            "commit_ts": self.now,
            **image,
            "change_seq": f"{centiseconds}{self._counter:019d}",
            **{f"BI_{name}": value for name, value in (before or {}).items()},
        }


def columns_of(
    file: DmsFile, columns: Sequence[str], key: Sequence[str], dms: Mapping[str, Any]
) -> list[str]:
    """The file's columns in DMS's order."""
    has_op = not file.is_load or dms.get("include_op_for_full_load", False)
    stamp, sequence = dms.get("timestamp_column_name"), dms.get("change_sequence_column")
    prefix = dms.get("before_image_prefix")
    return [
        *(["Op"] if has_op else []),
        *([stamp] if stamp else []),
        *columns,
        *([sequence] if sequence else []),
        *([f"{prefix}{name}" for name in key] if prefix else []),
    ]


def csv_bytes(file: DmsFile, columns: Sequence[str], key: Sequence[str], dms: Mapping[str, Any]) -> bytes:
    """The file as CSV."""
    names = columns_of(file, columns, key, dms)
    between, end = dms.get("csv_delimiter", ","), dms.get("csv_row_delimiter", "\n")
    lines = [between.join(_quoted(name, dms) for name in names)] if dms.get("add_column_name") else []
    lines += [between.join(_field(row.get(name), name, dms) for name in names) for row in file.rows]
    return "".join(f"{line}{end}" for line in lines).encode()


def json_bytes(file: DmsFile, names: Sequence[str], dms: Mapping[str, Any], *, ascii_only: bool) -> bytes:
    """The file as JSON lines of the columns `names`; NULL is null, and a column that a row lacks has no key."""
    lines = []
    for row in file.rows:
        members = []
        for name in names:
            if name not in row:
                continue
            value = row[name]
            if value is None or isinstance(value, (str, bool, list, dict)):
                spelt = json.dumps(value, ensure_ascii=ascii_only)
            elif isinstance(value, (int, Decimal)):
                spelt = f"{value:f}" if isinstance(value, Decimal) else str(value)
            else:
                spelt = json.dumps(_field(value, name, dms))
            members.append(f"{json.dumps(name, ensure_ascii=ascii_only)}: {spelt}")
        lines.append("{" + ", ".join(members) + "}\n")
    return "".join(lines).encode()


def transactions_csv(
    file: DmsFile,
    tables: Mapping[str, tuple[Sequence[str], Sequence[str]]],
    dms: Mapping[str, Any],
) -> bytes:
    """A file of transactions as CSV; `tables` are the columns and the key of each. No header: Op, table, schema, then
    what a file of the row's own table has after the Op."""
    lines = []
    for row in file.rows:
        schema, table = parts_of(row[TABLE])
        _, *names = columns_of(file, *tables[row[TABLE]], dms)
        leading = [row["Op"], _quoted(table, dms), _quoted(schema, dms)]
        lines.append(",".join([*leading, *(_field(row.get(name), name, dms) for name in names)]))
    return "".join(f"{line}\n" for line in lines).encode()


def _field(value: Any, name: str, dms: Mapping[str, Any]) -> str:
    if value is None:
        # DMS computes the sequence, and a full load's is the empty text; a before image that is not there is NULL.
        return "" if name == dms.get("change_sequence_column") else dms.get("csv_null_value", "NULL")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        zone = ZoneInfo(dms.get("timestamp_zone", "UTC"))
        return f"{value.astimezone(zone) if value.tzinfo else value:%Y-%m-%d %H:%M:%S.%f}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, (int, float, date)):
        return str(value)
    return _quoted(value, dms)


def _quoted(text: str, dms: Mapping[str, Any]) -> str:
    between, end = dms.get("csv_delimiter", ","), dms.get("csv_row_delimiter", "\n")
    if dms.get("rfc_4180", True) and any(mark in text for mark in ('"', between, "\n", *end)):
        return '"' + text.replace('"', '""') + '"'
    return text


def parquet_bytes(
    file: DmsFile,
    columns: Sequence[str],
    key: Sequence[str],
    dms: Mapping[str, Any],
    types: Mapping[str, pa.DataType],
) -> bytes:
    """The file as Parquet; `types` of the source's columns, before images included."""
    names = columns_of(file, columns, key, dms)
    prefix = dms.get("before_image_prefix")
    arrays, fields = [], []
    for name in names:
        kind = types.get(name.removeprefix(prefix) if prefix else name, pa.string())
        values = [row.get(name) for row in file.rows]
        if pa.types.is_string(kind):
            values = [f"{v:%Y-%m-%d %H:%M:%S.%f}" if isinstance(v, datetime) else v for v in values]
        arrays.append(pa.array(values, kind))
        fields.append(pa.field(name, kind))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), sink)
    return bytes(sink.getvalue())


def put(folder: Path, key: str, content: bytes) -> None:
    """Writes an object whole, or not at all; gzipped if its name says so, to the same bytes each time."""
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    hidden.write_bytes(gzip.compress(content, mtime=0) if key.endswith(".gz") else content)
    hidden.replace(path)

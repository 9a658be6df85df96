"""The result of inspecting a file, which the file log stores.

Here: the record. Not here: how a file is inspected (`inspect.py`), the log's other columns
(`bronze/log/log_record.py`).
"""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class FileInspection:
    """The facts of one file's content."""

    rows: int | None = None
    """Data rows, without the header; records that cannot be read count. For a transaction file, the rows of one table.
    None: too large to be counted, or unreadable."""
    columns: tuple[str, ...] | None = None
    """CSV: the header, None without one. Parquet: `name:type` with Arrow's type names, and `int96` for INT96. JSON
    lines: every key, in the order of its first occurrence, None without any."""
    first_commit_ts: datetime | None = None
    """UTC; the timestamp column of the first data row, None if there is no such column, row or timestamp."""
    width: int | None = None
    """Fields of the first row of a CSV file without a header; None if it cannot be read."""
    irregular: str | None = None
    """Why the file needs the strict reader (see `csv_structure.py` and `json_lines.py`); None for Parquet, for text
    that can be read in one way only, and for files that an earlier release logged."""
    content: str | None = None
    """Digest of the decompressed bytes, or, of a full-load part whose rows have no times, of its rows in any order (see
    `row_digest.py`); None for a file that was not read whole."""
    one_stamp: bool | None = None
    """Whether the first rows of the file have the same value in the timestamp column. None where that is unknown: for
    JSON lines, for a single row, for a text that was not read whole."""

"""What an inspection finds in a file, and the file log keeps of it.

Here: the record. Not here: how a file is inspected (`inspect.py`), what the log keeps beside it
(`bronze/log/log_record.py`).
"""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class FileInspection:
    """What one file says of itself."""

    rows: int | None = None
    """Data rows, without the header; records that cannot be read are rows too. Of a transaction file, those of one
    table. None: too big to be counted, or unreadable."""
    columns: tuple[str, ...] | None = None
    """CSV: the header, None without one. Parquet: `name:type` with Arrow's type names, and `int96` for that one. JSON
    lines: every key, in the order in which they were first seen, None without any."""
    first_commit_ts: datetime | None = None
    """UTC; the timestamp column of the first data row, None if there is no such column, row or timestamp."""
    width: int | None = None
    """Fields of the first row of a CSV file without a header; None where there is none that can be read."""
    irregular: str | None = None
    """Why the file needs the strict reader (see `csv_structure.py` and `json_lines.py`); None for Parquet, for text
    that has one way to be read, and for files that were logged before this was known."""
    content: str | None = None
    """Digest of the decompressed bytes; None for a file that was not read whole."""
    one_stamp: bool | None = None
    """Whether the rows have one value of the timestamp column, by those at the begin of the file. None where that is
    not known: of JSON lines, of a single row, of a text that was not read whole."""

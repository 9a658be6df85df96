"""How an endpoint separates and quotes the fields of its CSV files, as bytes.

Here: the dialect by the endpoint's settings. Not here: whether a file follows it (`csv_structure.py`), or its records
(`csv_records.py`).
"""

import re
from dataclasses import dataclass
from functools import cached_property

from lake_assets.config import DmsSettings

QUOTE = b'"'


@dataclass(frozen=True)
class CsvDialect:
    """Delimiters in UTF-8, of one or more bytes each; `quoted` is DMS's Rfc4180."""

    delimiter: bytes = b","
    row_delimiter: bytes = b"\n"
    quoted: bool = True

    @classmethod
    def of(cls, dms: DmsSettings) -> "CsvDialect":
        """The dialect of an endpoint."""
        return cls(dms.csv_delimiter.encode(), dms.csv_row_delimiter.encode(), dms.rfc_4180)

    @cached_property
    def field_end(self) -> re.Pattern[bytes]:
        """Matches the end of an unquoted field, or a quote, which must not be in it."""
        marks = [self.row_delimiter, self.delimiter, *([QUOTE] if self.quoted else [])]
        return re.compile(b"|".join(re.escape(mark) for mark in marks))

"""Whether a CSV file can be read in one way only, decided in the same pass that counts its records.

Here: counting records and finding irregularities, in the bytes. Not here: reading the records of an irregular file
(`csv_records.py`), the other facts of a file (`inspect.py`).

Readers of CSV guess where a stray quote ends, skip empty lines, or end a record at a carriage return. So Arrow splits
only files in which none of that can happen.
"""

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from lake_assets.bronze.files.csv_dialect import QUOTE, CsvDialect

BOM = b"\xef\xbb\xbf"
RETURNS = "its lines end with a carriage return: set csv_row_delimiter to \\r\\n if the endpoint has that"
"""Only the strict reader distinguishes such an end from a text in quotes that ends with a carriage return."""
WIDEST = 100_000
"""The most columns of a record of a regular file."""
_WINDOW = 20_000
_FIELD_END, _RECORD_END = b"\xff", b"\xfe"
"""Bytes that UTF-8 does not use. They replace delimiters of several bytes while a block is checked."""
Positions = npt.NDArray[np.intp]


class StructureScan:
    """Counts the records of a CSV file in pieces of any size, and keeps the first reason why the file is irregular.

    A row delimiter ends a record unless it is inside quotes, that is, after an odd number of quotes: in RFC 4180 a
    quote inside quotes is doubled, which keeps the parity. In UTF-8 an ASCII byte is never a part of another character.
    """

    def __init__(self, dialect: CsvDialect) -> None:
        self.irregular: str | None = None
        """Why the file needs the strict reader; final after `finish`."""
        self._dialect = dialect
        self._delimiter = dialect.delimiter if len(dialect.delimiter) == 1 else _FIELD_END
        self._end = dialect.row_delimiter if len(dialect.row_delimiter) == 1 else _RECORD_END
        beside_quotes = np.ones(256, dtype=bool)
        beside_quotes[[QUOTE[0], self._delimiter[0], self._end[0]]] = False
        self._wrong_beside_quotes = beside_quotes
        end = re.escape(self._end)
        self._blank = re.compile(end + rb"(?=[\x00-\x20]*" + end + rb")")
        self._blank_start = re.compile(rb"[\x00-\x20]*" + end)
        self._rest = b""
        self._inside = False
        self._began = False
        self._ended = 0
        self._open_record = False
        self._delimiters_in_line = 0

    def feed(self, chunk: bytes) -> None:
        """Reads the next piece. The checked blocks end with a row delimiter, so that no character and no pair of
        neighbouring bytes is cut."""
        end = self._dialect.row_delimiter
        if len(end) > 1:
            # The row delimiter itself may have been cut.
            chunk, self._rest = self._rest + chunk, b""
        cut = chunk.rfind(end)
        if cut < 0:
            self._rest += chunk
            return
        cut += len(end)
        block, self._rest = self._rest + chunk[:cut], chunk[cut:]
        self._block(block)

    def finish(self) -> None:
        """Ends the file."""
        rest, self._rest = self._rest, b""
        if rest:
            self._block(rest)
        self._open_record = self._inside or bool(rest)
        if self._inside:
            self._note("it ends inside of quotes")
        elif rest:
            self._note("its last record has no row delimiter")

    def records(self) -> int:
        """The number of records of a regular file, after `finish`; a last record without a row delimiter counts."""
        return self._ended + self._open_record

    def _note(self, reason: str) -> None:
        self.irregular = self.irregular or reason

    def _block(self, block: bytes) -> None:
        if self.irregular is None:
            self._check_characters(block)
        if self._delimiter == _FIELD_END:
            block = block.replace(self._dialect.delimiter, _FIELD_END)
        if self._end == _RECORD_END:
            block = block.replace(self._dialect.row_delimiter, _RECORD_END)
        quotes, began_inside = _none, self._inside
        if self._dialect.quoted and QUOTE in block:
            array = np.frombuffer(block, dtype=np.uint8)
            quotes = np.flatnonzero(array == QUOTE[0])
            self._check_quotes(array, quotes)
            ends = np.flatnonzero(array == self._end[0])
            ended = int(((np.searchsorted(quotes, ends) + began_inside) % 2 == 0).sum())
            self._inside ^= len(quotes) % 2 == 1
        else:
            ended = 0 if began_inside else block.count(self._end)
        self._ended += ended
        if self.irregular is None:
            self._check_ends(block, ended, quotes, began_inside)
            self._check_width(block)

    def _check_characters(self, block: bytes) -> None:
        if not self._began and block.startswith(BOM):
            self._note("it begins with a byte order mark")
        self._began = True
        if b"\0" in block:
            self._note("it has NUL characters")
        if not block.isascii():
            try:
                block.decode()
            except UnicodeDecodeError as error:
                self._note(f"it is not UTF-8 ({error.reason})")

    def _check_quotes(self, array: npt.NDArray[Any], quotes: Positions) -> None:
        """Every second quote opens: the byte before it ends a field or record, or is the first half of a doubled quote.
        The other quotes close: the same holds for the byte after them."""
        opening, closing = quotes[int(self._inside) :: 2], quotes[1 - int(self._inside) :: 2]
        # A block begins after a row delimiter, and its last quote may be the last byte of the file.
        before = array[opening[opening > 0] - 1]
        after = array[closing[closing < len(array) - 1] + 1]
        if self._wrong_beside_quotes[before].any() or self._wrong_beside_quotes[after].any():
            self._note("a quote in it neither opens nor closes a field")

    def _check_ends(self, block: bytes, ended: int, quotes: Positions, began_inside: bool) -> None:
        blank = not began_inside and self._blank_start.match(block) is not None
        for found in self._blank.finditer(block):
            blank = blank or (np.searchsorted(quotes, found.start()) + began_inside) % 2 == 0
        if blank:
            self._note("it has an empty line")
        if self._dialect.row_delimiter == b"\r\n":
            # Arrow reads \r\n correctly only if neither character occurs alone, nor in a value.
            if b"\r" in block or b"\n" in block or ended != block.count(self._end):
                self._note("it has carriage returns or newlines that end no record")
        elif self._dialect.row_delimiter == b"\n":
            if b"\r\n" in block:
                self._check_returns(np.frombuffer(block, dtype=np.uint8), quotes, began_inside)
        elif b"\n" in block:
            # Row delimiters become newlines for Arrow, and then every newline ends a record.
            self._note("it has newlines that end no record")

    def _check_returns(self, array: npt.NDArray[Any], quotes: Positions, began_inside: bool) -> None:
        ends = np.flatnonzero(array == ord("\n"))
        ends = ends[ends > 0]
        behind = ends[array[ends - 1] == ord("\r")]
        if np.any((np.searchsorted(quotes, behind) + began_inside) % 2 == 0):
            self._note(RETURNS)

    def _check_width(self, block: bytes) -> None:
        at = 0
        while len(block) - at > _WINDOW:
            last = block.rfind(self._end, at, at + _WINDOW)
            if last >= 0:
                at, self._delimiters_in_line = last + 1, 0
                continue
            self._delimiters_in_line += block.count(self._delimiter, at, at + _WINDOW)
            at += _WINDOW
            if self._delimiters_in_line > _WINDOW:
                self._note(f"a record in it may have more than {WIDEST} columns")
                return
        self._delimiters_in_line = 0


_none: Positions = np.empty(0, dtype=np.intp)

"""The content of a regular text file in blocks of whole records.

So a file of any size is decoded within the memory of a few blocks, and a record that Arrow refuses costs the time of
Python for a small part of its block. Here: where records end, and cutting there. Not here: which files are regular
(`bronze/files/csv_structure.py`), the fields of a record (`texts.py`). Pure.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lake_assets.bronze.files.csv_dialect import QUOTE, CsvDialect

BLOCK = 8 << 20
"""Bytes of a block, unless one record is longer."""
Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records of a file."""

    content: bytes
    ends: Positions
    """Where each record ends, its row delimiter included. A regular file's last record has one."""

    def halves(self) -> "tuple[Block, Block] | None":
        """The same records in two blocks of about equal length; None for a single record."""
        if len(self.ends) < 2:
            return None
        number = int(np.searchsorted(self.ends, len(self.content) // 2))
        number = min(max(number, 1), len(self.ends) - 1)
        cut = int(self.ends[number - 1])
        first = Block(self.content[:cut], self.ends[:number])
        return first, Block(self.content[cut:], self.ends[number:] - cut)

    def of_table(self, schema: str, names: Collection[str], dialect: CsvDialect) -> "Block":
        """Of a block of transactions, the records of these tables, which follow the operation and precede the schema.
        The delimiter is one byte."""
        delimiter = re.escape(dialect.delimiter.decode())
        end = re.escape(dialect.row_delimiter.decode())
        operation = rf'(?:"(?:[^"]|"")*"|[^{delimiter}"]*)' if dialect.quoted else f"[^{delimiter}]*"
        tables = "|".join(_spelled(name, dialect) for name in sorted(names))
        known = f"{operation}{delimiter}(?:{tables}){delimiter}(?:{_spelled(schema, dialect)})"
        offsets = pa.py_buffer(np.append(0, self.ends).astype(np.int64))
        buffers = [None, offsets, pa.py_buffer(self.content)]
        records = pa.Array.from_buffers(pa.large_string(), len(self.ends), buffers)
        is_own = np.asarray(pc.match_substring_regex(records, f"^{known}(?:{delimiter}|{end})"))
        if is_own.all():
            return self
        begins = np.append(0, self.ends[:-1])
        places = zip(begins[is_own].tolist(), self.ends[is_own].tolist(), strict=True)
        content = b"".join(self.content[begin:end] for begin, end in places)
        return Block(content, np.cumsum((self.ends - begins)[is_own]))


def blocks(pieces: Iterable[bytes], dialect: CsvDialect) -> Iterator[Block]:
    """The content, given in pieces of any size, in blocks. What follows the last row delimiter is a record, too."""
    waiting: list[bytes] = []
    length, wanted = 0, BLOCK
    for piece in pieces:
        waiting.append(piece)
        length += len(piece)
        if length < wanted:
            continue
        content = b"".join(waiting)
        ends = record_ends(content, dialect)
        cut = int(ends[-1]) if len(ends) else 0
        if cut:
            yield Block(content[:cut], ends)
        waiting, length = [content[cut:]], len(content) - cut
        wanted = max(BLOCK, 2 * length)
    if content := b"".join(waiting):
        ends = record_ends(content, dialect)
        is_open = not len(ends) or ends[-1] < len(content)
        yield Block(content, np.append(ends, len(content)) if is_open else ends)


def record_ends(content: bytes, dialect: CsvDialect) -> Positions:
    """Where the records end in content that begins with a record: behind each row delimiter that follows an even number
    of quotes. A quote inside of quotes is doubled, so it does not change the parity."""
    found = _places(content, dialect.row_delimiter)
    if dialect.quoted and QUOTE in content:
        found = found[np.searchsorted(_places(content, QUOTE), found) % 2 == 0]
    return found + len(dialect.row_delimiter)


def outside_of_quotes(content: bytes, mark: bytes, dialect: CsvDialect) -> int:
    """How often the mark is in content that begins with a record, outside of quotes."""
    found = _places(content, mark)
    if not len(found) or not dialect.quoted:
        return len(found)
    return int(np.count_nonzero(np.searchsorted(_places(content, QUOTE), found) % 2 == 0))


def _places(content: bytes, mark: bytes) -> Positions:
    if len(mark) == 1:
        return np.flatnonzero(np.frombuffer(content, np.uint8) == mark[0])
    return np.fromiter((found.start() for found in re.finditer(re.escape(mark), content)), np.int64)


def _spelled(name: str, dialect: CsvDialect) -> str:
    """A pattern of the ways in which a record may have the name."""
    plain = re.escape(name)
    return f'{plain}|"{re.escape(name.replace(chr(34), chr(34) * 2))}"' if dialect.quoted else plain

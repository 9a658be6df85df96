"""CSV files whose structure is odd: quotes, delimiters, line ends, NUL, byte order marks, and how they end.

Here: such files by chance, as DMS, another program or an accident may write them. Not here: spellings of values
(`spellings.py`), who reads them (`test_structures.py`).
"""

from dataclasses import dataclass
from random import Random
from typing import Any

DIALECTS: tuple[dict[str, Any], ...] = (
    {},
    {"csv_null_value": ""},
    {"csv_delimiter": "\t"},
    {"csv_delimiter": "|", "csv_null_value": ""},
    {"rfc_4180": False},
    {"csv_row_delimiter": "\r\n"},
    {"csv_row_delimiter": "\r"},
    {"csv_row_delimiter": ";"},
    {"csv_delimiter": "¦"},
)
"""Endpoint settings."""
_USUAL = ("a", "", "NULL", "b c", "é", "-1.5", '"a"', '""', '"NULL"', '"x""y"')
_QUOTED = (
    '"a,b"',
    '"a\nb"',
    '"a\r\nb"',
    '"a\r"',
    '"\r"',
    '"\n"',
    '"a\n"',
    '"a\rb"',
    '"a\r\n"',
    '"|\t;¦"',
    '" a "',
)
_BARE = (
    "a\r",
    "\r",
    "a\rb",
    " a ",
    "\\",
    "a\\",
    "'",
    "#a",
    "\ta",
    "\u0085",
    "\u2028",
    "\ufeff",
    "a;b",
    "a|b",
)
_ODD = ('a"b', '"a"b', ' "a"', '"a" ', '"', '"a', "\0", "a\0b", '"\0"', "a,b", "a\nb", '"a"\r', '"""')
_NUMBERS = ("1", "-2", "0", "3", "NULL", '"4"', '"NULL"')
_ODD_NUMBERS = ("+4", '"5\r"', "6\r", " 7", '"8"\r')
_ENDS = ("", "\r", " ", "\n", "\r\n", "\0")
"""What may stand in front of a row delimiter; two of them make an empty line."""


@dataclass(frozen=True)
class Structure:
    """The rows of a file, each with its fields and its end as they are written."""

    rows: tuple[tuple[tuple[str, ...], str], ...]
    start: str
    """A byte order mark, or nothing."""
    end: str
    """What follows the last row."""

    def content(self, dms: dict[str, Any], *first: str) -> bytes:
        """`first`: fields that precede those of each row."""
        between = dms.get("csv_delimiter", ",")
        lines = (between.join((*first, *fields)) + end for fields, end in self.rows)
        return (self.start + "".join(lines) + self.end).encode()


def structure(random: Random, dms: dict[str, Any], *, numbers: bool = False) -> Structure:
    """A file of a few rows, most of them usual. `numbers`: most of the last fields are whole numbers."""
    odd = random.random() < 0.4
    """Whether something in it may make it irregular."""

    def field() -> str:
        kinds = (_USUAL, _QUOTED, _BARE, _ODD) if odd else (_USUAL, _QUOTED, _USUAL, _BARE)
        return random.choice(random.choices(kinds, (4, 3, 2, 1))[0])

    rows = []
    between = dms.get("csv_row_delimiter", "\n")
    for number in range(random.randint(1, 4)):
        width = 2 if random.random() > 0.06 else random.choice([1, 3])
        end = random.choice(_ENDS) if odd and random.random() < 0.2 else ""
        fields = [field() for _ in range(width)]
        if numbers and random.random() < 0.9:
            fields[-1] = random.choice(_ODD_NUMBERS if odd and random.random() < 0.6 else _NUMBERS)
        rows.append(((str(number), *fields), end + between))
    last = random.random()
    return Structure(
        tuple(rows),
        "\ufeff" if odd and random.random() < 0.1 else "",
        random.choice([between, "9", '9,"a', "9,a,b", " "]) if odd and last < 0.25 else "",
    )

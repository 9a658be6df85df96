"""JSON lines: one object a line, read strictly.

Here: the lines of a file, and the keys and texts of one line. Not here: which files are JSON (`keys.py`), the meaning
of values.
"""

import json
import re
from collections.abc import Iterable, Iterator
from json.decoder import JSONObject  # type: ignore[attr-defined]
from typing import Any

from lake_assets.bronze.files.content import lines
from lake_assets.bronze.files.csv_structure import BOM

NO_OBJECT = "it is not a JSON object"
DOUBLED = "it has a key twice"
_BLANK = " \t\r\n"
_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:(?P<mark>[\[\]{},:])|(?P<string>"(?:[^"\\\x00-\x1F]++|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*+")"""
    r"""|(?P<scalar>true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?))"""
)
_VALUE = {"string", "scalar", "[", "{"}
_CLOSES = {"[": "]", "{": "}"}
_WORDS = {True: "true", False: "false"}


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_decoder = json.JSONDecoder(object_pairs_hook=list, parse_float=str, parse_int=str, parse_constant=_refuse)


def is_blank(line: bytes) -> bool:
    """Whether a line is empty, and so not a row."""
    return not line.strip(_BLANK.encode())


def all_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file with their ends; the first one without a byte order mark."""
    mark = BOM
    for line in lines(pieces, b"\n"):
        yield line.removeprefix(mark)
        mark = b""


def json_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Those of `all_lines` that are not blank."""
    return (line for line in all_lines(pieces) if not is_blank(line))


def json_members(line: bytes) -> dict[str, Any]:
    """The object of one line: its keys, with strings, numbers as strings, booleans, None, and lists or texts for nested
    values. Raises ValueError, with the reason as its message, if the line is no object that can be read in one way
    only."""
    try:
        text = line.decode()
        pairs = _pairs(text.strip(_BLANK))
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 ({error.reason})") from error
    except json.JSONDecodeError as error:
        raise ValueError(NO_OBJECT) from error
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError(DOUBLED)
    try:
        "".join([*members, *(value for value in members.values() if isinstance(value, str))]).encode()
    except UnicodeEncodeError as error:
        raise ValueError("it has one half of a surrogate pair") from error
    return members


def json_object(line: bytes) -> dict[str, str | None]:
    """The texts of one line by key: the characters of a string; the exact text of a number, boolean, object or array,
    so that no digit is lost; None for null. Raises as `json_members`."""
    members = json_members(line)
    if any(isinstance(value, list) for value in members.values()):
        return dict(_texts(line.decode().strip(_BLANK))[0])
    return {name: _WORDS.get(value, value) for name, value in members.items()}


def is_json(text: str) -> bool:
    """Whether a text is one JSON value, with blanks around it (RFC 8259)."""
    whole = f'{{"":{text}}}'
    try:
        pairs, end = _texts(whole)
    except ValueError:
        return False
    return len(pairs) == 1 and end == len(whole)


def _pairs(text: str) -> list[tuple[str, Any]]:
    """The object's keys and values. Raises JSONDecodeError, and ValueError."""
    if not text.startswith("{"):
        raise ValueError(NO_OBJECT)
    try:
        found: list[tuple[str, Any]] = _decoder.decode(text)
        return found
    except RecursionError:
        pairs, end = _texts(text)
    if end < len(text):
        raise ValueError(NO_OBJECT)
    return [*pairs]


def _texts(text: str) -> tuple[list[tuple[str, str | None]], int]:
    """The object's keys and the texts of their values, and its end."""
    pairs, end = JSONObject((text, 1), True, _text, None, list)
    return pairs, end


def _text(line: str, start: int) -> tuple[str | None, int]:
    """The text of the value that starts at `start`, and its end."""
    try:
        value, end = _decoder.raw_decode(line, start)
    except RecursionError:
        value, end = "", _end_of_nested(line, start)
    return (value if value is None or line[start] == '"' else line[start:end]), end


def _end_of_nested(text: str, start: int) -> int:
    """The end of an object or array that is nested too deeply for Python's decoder. Raises JSONDecodeError."""
    opened: list[str] = []
    at, expected, names = start, _VALUE, False
    while True:
        found = _TOKEN.match(text, at)
        token = "" if found is None else found["mark"] or str(found.lastgroup)
        if found is None or token not in expected:
            raise json.JSONDecodeError(NO_OBJECT, text, at)
        at = found.end()
        if token in _CLOSES:
            opened.append(token)
            names = token == "{"
            expected = {"string", "}"} if names else _VALUE | {"]"}
        elif token == ",":
            names = opened[-1] == "{"
            expected = {"string"} if names else _VALUE
        elif token == ":" or (names and token == "string"):
            names = False
            expected = _VALUE if token == ":" else {":"}
        else:
            if token in _CLOSES.values():
                opened.pop()
            if not opened:
                return at
            expected = {",", _CLOSES[opened[-1]]}

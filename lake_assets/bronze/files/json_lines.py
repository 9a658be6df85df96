"""JSON lines: one object a line, read strictly.

Here: the keys and texts of one line, and one pass over a file's lines. Not here: which files are JSON (`keys.py`), or
what the values mean.

A value becomes the text that it is read as: of a string its characters; of a number, boolean, object or array exactly
what stands in the file, so that no digit is lost; of null, and of a key that is not there, NULL.
"""

import json
import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from lake_assets.bronze.files.csv_structure import BOM

NO_OBJECT = "it is not a JSON object"
DOUBLED = "it has a key twice"
_SPACE = re.compile(r"[ \t\n\r]*")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_LONG_NUMBER = re.compile(rb"[0-9.]{900}")
_BLANK = b" \t\r\n"
_LONG = 900
"""Spark's parser has limits for numbers, names and nesting, the lowest of them 1,000."""


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


class _Doubled(dict[str, Any]):
    """An object that has a key twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Doubled(found)


_keys_of = json.JSONDecoder(object_pairs_hook=_object, parse_float=str, parse_int=str, parse_constant=_refuse)
_value_end = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_refuse)


def json_object(line: bytes) -> dict[str, str | None]:
    """The texts of one line by key. Raises ValueError, with the reason as its message, if the line is no object."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 ({error.reason})") from error
    try:
        return _members(text)
    except (IndexError, StopIteration, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(NO_OBJECT) from error


def _members(text: str) -> dict[str, str | None]:
    members: dict[str, str | None] = {}
    at = _after_space(text, 0)
    if text[at] != "{":
        raise ValueError(NO_OBJECT)
    at = _after_space(text, at + 1)
    if text[at] == "}":
        separator, at = "}", at + 1
    else:
        separator = ","
    while separator == ",":
        at = _after_space(text, at)
        if text[at] != '"':
            raise ValueError(NO_OBJECT)
        key, at = scanstring(text, at + 1, True)
        at = _after_space(text, at)
        if text[at] != ":":
            raise ValueError(NO_OBJECT)
        start = _after_space(text, at + 1)
        value, at = _value_end.raw_decode(text, start)
        if key in members:
            raise ValueError(DOUBLED)
        members[key] = None if value is None else value if text[start] == '"' else text[start:at]
        at = _after_space(text, at)
        separator, at = text[at], at + 1
    if separator != "}" or _after_space(text, at) != len(text):
        raise ValueError(NO_OBJECT)
    try:
        "".join((*members, *filter(None, members.values()))).encode()
    except UnicodeEncodeError as error:
        raise ValueError("it has one half of a surrogate pair") from error
    return members


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


class JsonScan:
    """Counts the objects of a file in pieces of any size, collects their keys, and keeps the first reason why Spark's
    reader, which forgives much, is not to read it. Lines of white space hold nothing and are no rows."""

    def __init__(self) -> None:
        self.rows = 0
        self.irregular: str | None = None
        self.first: dict[str, str | None] | None = None
        """The first line, if it is an object."""
        self._keys: dict[str, None] = {}
        self._rest = b""
        self._began = False

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key of any object, in the order in which they were first seen."""
        return tuple(self._keys)

    def feed(self, chunk: bytes) -> None:
        """Takes the next piece."""
        first, *others = chunk.split(b"\n")
        self._rest += first
        for line in others:
            self._line(self._rest)
            self._rest = line

    def finish(self) -> None:
        """Ends the file; the last line needs no newline, since an object that was cut off is none."""
        if self._rest:
            self._line(self._rest)

    def _note(self, reason: str) -> None:
        self.irregular = self.irregular or reason

    def _line(self, line: bytes) -> None:
        if self._began is False and line.startswith(BOM):
            self._note("it begins with a byte order mark")
            line = line[len(BOM) :]
        self._began = True
        if not line.strip(_BLANK):
            self._note("it has an empty line")
            return
        self.rows += 1
        found = _quickly(line)
        if found is None:
            try:
                found = json_object(line)
            except ValueError as error:
                self._note(f"a line in it cannot be read: {error}")
                return
            if (
                line.count(b"[") + line.count(b"{") > _LONG
                or _LONG_NUMBER.search(line)
                or max(map(len, found), default=0) > _LONG
            ):
                self._note("a line in it may be beyond the limits of Spark's parser")
        self._keys |= dict.fromkeys(found)
        if self.rows == 1:
            self.first = json_object(line)


def _quickly(line: bytes) -> dict[str, Any] | None:
    """An object of which C code alone can tell that nothing is wrong with it."""
    if len(line) > _LONG or _SURROGATE.search(line) is not None:
        return None
    try:
        found = _keys_of.decode(line.decode())
    except (ValueError, RecursionError):
        return None
    return found if type(found) is dict else None


def json_lines(content: bytes) -> Iterator[tuple[int, int, dict[str, str | None] | str]]:
    """Every line that is not empty: where it starts and ends, and its texts by key or why it has none."""
    at = len(BOM) if content.startswith(BOM) else 0
    while at < len(content):
        end = content.find(b"\n", at)
        end = len(content) if end < 0 else end + 1
        line = content[at:end]
        if line.strip(_BLANK):
            found: dict[str, str | None] | str
            try:
                found = json_object(line)
            except ValueError as error:
                found = str(error)
            yield at, end, found
        at = end

"""JSON lines: one object a line, read strictly.

Here: the lines of a file, and the keys and texts of one line. Not here: which files are JSON (`keys.py`), the meaning
of values.

Spark's JSON reader refuses text that is not JSON, but uses the last of two equal keys, turns half of a surrogate pair
into a question mark, ignores text after an object and makes several rows of an array. So Spark reads a file only if
each of its lines passes `json_members`.
"""

import json
from collections.abc import Iterable, Iterator
from json.decoder import JSONObject  # type: ignore[attr-defined]
from typing import Any

from lake_assets.bronze.files.content import lines
from lake_assets.bronze.files.csv_structure import BOM

NO_OBJECT = "it is not a JSON object"
DOUBLED = "it has a key twice"
_BLANK = " \t\r\n"


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
    """The object of one line: its keys, with strings, numbers as strings, booleans, None, and lists for nested values.
    Raises ValueError, with the reason as its message, if the line is no object that can be read in one way only."""
    try:
        text = line.decode()
        pairs = _decoder.decode(text)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 ({error.reason})") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(NO_OBJECT) from error
    if not text.lstrip(_BLANK).startswith("{"):
        raise ValueError(NO_OBJECT)
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
    json_members(line)
    text = line.decode().strip(_BLANK)
    pairs, _ = JSONObject((text, 1), True, _text, None, list)
    return dict(pairs)


def _text(line: str, start: int) -> tuple[str | None, int]:
    """The text of the value that starts at `start`, and its end."""
    value, end = _decoder.raw_decode(line, start)
    return (value if value is None or line[start] == '"' else line[start:end]), end

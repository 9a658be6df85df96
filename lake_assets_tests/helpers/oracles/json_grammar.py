"""Whether a text is JSON, by the grammar of RFC 8259, rule by rule; and texts near the border.

Shares no code with the package, and uses no JSON parser.
"""

import random
from collections.abc import Iterator

BLANK, DIGITS, HEX = " \t\n\r", "0123456789", "0123456789abcdefABCDEF"


class _Broken(Exception):
    pass


def is_json(text: str) -> bool:
    """JSON-text = ws value ws"""
    try:
        return _blanks(text, _value(text, _blanks(text, 0))) == len(text)
    except _Broken:
        return False


def _blanks(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in BLANK:
        at += 1
    return at


def _mark(text: str, at: int, mark: str) -> int:
    """The position after the mark."""
    if not text.startswith(mark, at):
        raise _Broken
    return at + len(mark)


def _value(text: str, at: int) -> int:
    match text[at : at + 1]:
        case "{":
            return _members(text, at, "}", named=True)
        case "[":
            return _members(text, at, "]", named=False)
        case '"':
            return _string(text, at)
    for word in ("true", "false", "null"):
        if text.startswith(word, at):
            return at + len(word)
    return _number(text, at)


def _members(text: str, at: int, end: str, *, named: bool) -> int:
    at = _blanks(text, at + 1)
    if text.startswith(end, at):
        return at + 1
    while True:
        if named:
            at = _mark(text, _blanks(text, _string(text, _blanks(text, at))), ":")
        at = _blanks(text, _value(text, _blanks(text, at)))
        if text.startswith(end, at):
            return at + 1
        at = _mark(text, at, ",")


def _string(text: str, at: int) -> int:
    at = _mark(text, at, '"')
    while True:
        char = text[at : at + 1]
        if char == "" or char < " ":
            raise _Broken
        if char == '"':
            return at + 1
        at += 1
        if char == "\\":
            escaped = text[at : at + 1]
            if (
                escaped == "u"
                and len(text[at + 1 : at + 5]) == 4
                and all(c in HEX for c in text[at + 1 : at + 5])
            ):
                at += 5
            elif escaped and escaped in '"\\/bfnrt':
                at += 1
            else:
                raise _Broken


def _number(text: str, at: int) -> int:
    at += text.startswith("-", at)
    at = at + 1 if text.startswith("0", at) else _digits(text, at)
    if text.startswith(".", at):
        at = _digits(text, at + 1)
    if text[at : at + 1] in ("e", "E"):
        at += 1
        at += text[at : at + 1] in ("+", "-")
        at = _digits(text, at)
    return at


def _digits(text: str, at: int) -> int:
    begin = at
    while text[at : at + 1] and text[at] in DIGITS:
        at += 1
    if at == begin:
        raise _Broken
    return at


VALID = [
    "1", "-0", "-0.0E+00", "1e5", "12345678901234567890.1", '"a"', "null", "true", "false", "{}", "[]", " [ ] ",
    "\t\n\r{}\r\n\t", '{"a":1,"a":2}', '{"":[]}', '[1,{"b":[null]}]', r'"\"\\\/\b\f\n\r\t\u00e9"', r'"\ud800"',
    r'"\u0000"', '"\x7f\u2028é😀"', '"it\'s"', '["a","b"]', r'["a\\","b"]', '{"k":{"":{"":""}}}',
]  # fmt: skip
"""Among them a half of a surrogate pair: an escape of four digits, which the grammar has."""
INVALID = [
    "", " ", "1 2", '{"a":1}{"b":2}', '{"a":1} x', "{'a':1}", "'a'", "{a:1}", "[1,]", '{"a":1,}', "[,1]", "01", "-",
    "+1", ".5", "1.", "1e", "1e+", "--1", "0x1F", "NaN", "[NaN]", "Infinity", "-Infinity", "nul", "nullx", "True",
    '"a', 'a"', '"a\tb"', '"a\nb"', '["a\x01b","c"]', r'"\x"', r'"\u12g4"', r'"\u123"', '"\\"', '"\\', r'\n', "[1",
    "1]", '{"a":1', "[1}", '{"a":1]', '{"a"}', '{"a":}', '{"a" 1}', "{1:2}", "\ufeff1", "\u00a01", "\x0c1", "\x00",
    "[]\x00", "1//c", "/*c*/1", "#c\n1", "[1 2]", '["a" "b"]', '"a" "b"', '0,"":0', "0,0", "0}", "0]", "0],[0",
    '0,"whole":true}', '"', '","":","', '0],"whole":true}', "_", "[_]", '{"":_}', '""""', '"a""b"',
]  # fmt: skip
_PARTS = [
    '"', "\\", "{", "}", "[", "]", ",", ":", "0", "1", "-", "+", ".", "e", "E", " ", "\n", "\t", "\x01", "'", "/", "u",
    "00e9", "n", "null", "true", "a", "é", "_", '""', '"a":', r"\"", r"\\", "NaN", '"whole":true}', "\ufeff",
]  # fmt: skip


def near_json(seed: int, number: int) -> Iterator[str]:
    """Texts of which some are JSON: `VALID` ones joined, and changed in a few places."""
    chosen = random.Random(seed)
    for _ in range(number):
        text = chosen.choice(VALID)
        for _ in range(chosen.randrange(3)):
            other = chosen.choice(VALID)
            text = chosen.choice([f"[{text},{other}]", f'{{"n":{text}, "":{other}}}', f"{text}{other}", text])
        for _ in range(chosen.randrange(4)):
            at = chosen.randrange(len(text) + 1)
            text = text[:at] + chosen.choice(["", chosen.choice(_PARTS)]) + text[at + chosen.randrange(2) :]
        yield text

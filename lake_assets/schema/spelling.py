"""Names and values in lake.yaml's spelling. Pure."""

import json
import re
from collections.abc import Iterable, Mapping

_PLAIN = re.compile(r'[A-Za-z_][A-Za-z0-9_."]*')
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def key(text: str) -> str:
    """A mapping's key, in which environment variables are not replaced."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text, ensure_ascii=False)


def value(text: str) -> str:
    """A value, in which `${` has to be escaped."""
    return key(text.replace("${", "$${"))


def mapping(entries: Mapping[str, str]) -> str:
    """`{name: value}`."""
    return "{" + ", ".join(f"{key(name)}: {value(text)}" for name, text in entries.items()) + "}"


def listed(entries: Iterable[str]) -> str:
    """`[value, value]`."""
    return "[" + ", ".join(map(value, entries)) + "]"

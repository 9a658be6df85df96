"""The YAML nodes of a text, with their lines.

Values follow YAML 1.2: `no`, `on` and `12:30` are text. Here: the parser, and what is wrong with the syntax, without a
word of the text. Not here: the nodes' values (`values.py`).
"""

import re
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """Resolves plain scalars by the YAML 1.2 core schema."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012  (how PyYAML declares it)


TAG = "tag:yaml.org,2002:"
for _name, _pattern in (
    ("null", r"~|null|Null|NULL|"),
    ("bool", r"true|True|TRUE|false|False|FALSE"),
    ("int", r"[-+]?[0-9]{1,100}|0o[0-7]{1,100}|0x[0-9a-fA-F]{1,100}"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    ),
    ("merge", r"<<"),
):
    _Loader.add_implicit_resolver(TAG + _name, re.compile(rf"^(?:{_pattern})$"), None)


# libyaml reads the 18,000 lines of a thousand tables in a sixth of the time that PyYAML's own parser takes.
class _FastLoader(getattr(yaml, "CSafeLoader", _Loader)):  # type: ignore[misc]
    """As `_Loader`."""

    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


def composed(text: str) -> tuple[yaml.Node | None, str]:
    """The node tree, or what is wrong with the syntax; neither for an empty text. The problem is returned, not raised,
    because PyYAML's exceptions quote the line."""
    try:
        root = yaml.compose(text, Loader=_FastLoader)
    except yaml.YAMLError:
        return _slowly_composed(text)
    return root, ""


def _slowly_composed(text: str) -> tuple[yaml.Node | None, str]:
    """As `composed`: PyYAML's own parser decides what is wrong, and where."""
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        # An alias, anchor or tag in a message may be an unquoted password that begins with * or & or !.
        what = re.sub(r"^(found (?:undefined|duplicate) [a-z ]+?) ['\"].*", r"\1", error.problem or "")
        context = f", {error.context}" if error.context and "'" not in error.context else ""
        return None, f"{where}is not YAML: {what}{context}; quote a value with special characters"
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        return None, f"line {line}: is not YAML: it contains a control character"
    return root, ""

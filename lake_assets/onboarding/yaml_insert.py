"""Inserts an entry into the text of a lake.yaml, so that the user's comments and layout stay.

Here: finding the line. Not here: reading lake.yaml (`config/config_file.py`), the entry's text. Pure.
"""

import re
import textwrap
from collections.abc import Sequence

import yaml

from lake_assets.errors import LakeError


def with_entry(text: str, keys: Sequence[str], entry: Sequence[str]) -> str:
    """The text with `entry` as the last one of the mapping or list at `keys`; missing keys are added.

    `entry`: its lines, the first one without indentation: `- item` for a list, `key: value` for a mapping. A list that
    is written as `[…]` gets an entry of one line. Raises LakeError for any other place in brackets.
    """
    node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    parent, rest = node, list(keys)
    while rest and isinstance(node, yaml.MappingNode):
        parent = node
        node = next((value for key, value in node.value if key.value == rest[0]), None)
        if node is None:
            break
        rest.pop(0)
    if rest:
        nested = entry
        for key in reversed(rest):
            nested = [f"{key}:", *textwrap.indent("\n".join(nested), "  ").splitlines()]
        return _after(text, parent, nested, keys)
    if isinstance(node, yaml.SequenceNode) and node.flow_style and len(entry) == 1:
        return _in_brackets(text, node, entry[0].removeprefix("- "))
    return _after(text, node, entry, keys)


def _in_brackets(text: str, node: yaml.SequenceNode, item: str) -> str:
    end = node.end_mark.index - 1
    before = text[:end]
    is_first = not node.value or before.rstrip().endswith(",")
    return f"{before}{'' if is_first else ', '}{item}{text[end:]}"


def _after(text: str, node: yaml.Node | None, entry: Sequence[str], keys: Sequence[str]) -> str:
    if not isinstance(node, yaml.CollectionNode) or node.flow_style:
        raise LakeError(
            f"{'.'.join(keys)} is not written one entry a line, so nothing was inserted: add this there by hand.\n"
            + "\n".join(entry)
        )
    lines = text.splitlines()
    column = node.start_mark.column
    place = _last_line(node) + 1
    # A comment that is indented further belongs further inside: it may be an entry that waits for a decision.
    while place < len(lines) and re.match(rf" {{{column + 1},}}#", lines[place]):
        place += 1
    indent = " " * column
    lines[place:place] = [indent + line for line in entry]
    return "\n".join(lines) + "\n"


def _last_line(node: yaml.Node) -> int:
    """The number, from 0, of the last line of the node's values: PyYAML counts the comments after a block as part of
    it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last)
    end = node.end_mark
    return int(end.line if end.column else end.line - 1)

"""Edits the columns of a table in the text of a lake.yaml, so that the user's comments and layout stay.

Here: finding the place. Not here: inserting tables and marts (`yaml_insert.py`), which edits there are (`refresh.py`).
Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import yaml

from lake_assets.errors import LakeError
from lake_assets.schema.spelling import key


@dataclass(frozen=True, slots=True)
class Edit:
    """One column that is added, declared otherwise, or dropped."""

    kind: Literal["add", "change", "drop"]
    column: str
    declaration: str = ""
    after: str | None = None
    """The column behind which it is added; None for the first place."""

    def __str__(self) -> str:
        as_type = f" as {self.declaration}" if self.declaration else ""
        return f"{self.kind} column {self.column}{as_type}"


def with_edits(text: str, keys: Sequence[str], edits: Sequence[Edit]) -> str:
    """The text with the edits of the mapping at `keys`. Raises LakeError for columns that are no mapping there."""
    for edit in edits:
        node = _at(text, keys)
        if node.flow_style:
            text = _in_braces(text, node, edit)
        else:
            text = _in_lines(text, node, edit)
    return text


def _at(text: str, keys: Sequence[str]) -> yaml.MappingNode:
    node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    for name in keys:
        entries = node.value if isinstance(node, yaml.MappingNode) else []
        node = next((below for key, below in entries if key.value == name), None)
    if not isinstance(node, yaml.MappingNode) or not node.value:
        raise LakeError(f"{'.'.join(keys)} is not written as names and types: edit it by hand.")
    return node


def _place(node: yaml.MappingNode, column: str | None) -> int | None:
    return next((place for place, (name, _) in enumerate(node.value) if name.value == column), None)


def _in_braces(text: str, node: yaml.MappingNode, edit: Edit) -> str:
    entries = node.value
    place = _place(node, edit.after if edit.kind == "add" else edit.column)
    if edit.kind == "add" and place is None:
        at = entries[0][0].start_mark.index
        return f"{text[:at]}{_entry(edit)}, {text[at:]}"
    assert place is not None, "the column is in lake.yaml"
    name, held = entries[place]
    if edit.kind == "add":
        return f"{text[: held.end_mark.index]}, {_entry(edit)}{text[held.end_mark.index :]}"
    if edit.kind == "change":
        return _changed(text, held, edit)
    if place + 1 < len(entries):
        return text[: name.start_mark.index] + text[entries[place + 1][0].start_mark.index :]
    start = entries[place - 1][1].end_mark.index if place else name.start_mark.index
    return text[:start] + text[held.end_mark.index :]


def _in_lines(text: str, node: yaml.MappingNode, edit: Edit) -> str:
    entries, lines = node.value, text.splitlines()
    place = _place(node, edit.after if edit.kind == "add" else edit.column)
    indent = " " * node.start_mark.column
    if edit.kind == "add":
        line = entries[0][0].start_mark.line if place is None else entries[place][1].end_mark.line + 1
        lines.insert(line, f"{indent}{_entry(edit)}")
        return "\n".join(lines) + "\n"
    assert place is not None, "the column is in lake.yaml"
    name, held = entries[place]
    if edit.kind == "change":
        return _changed(text, held, edit)
    del lines[name.start_mark.line : held.end_mark.line + 1]
    return "\n".join(lines) + "\n"


def _changed(text: str, held: yaml.Node, edit: Edit) -> str:
    return text[: held.start_mark.index] + _quoted(edit.declaration) + text[held.end_mark.index :]


def _entry(edit: Edit) -> str:
    return f"{key(edit.column)}: {_quoted(edit.declaration)}"


def _quoted(declaration: str) -> str:
    return f'"{declaration}"' if "," in declaration else declaration

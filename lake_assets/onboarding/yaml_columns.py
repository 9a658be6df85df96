"""Edits the columns of a table in the text of a lake.yaml, so that the user's comments and layout stay.

Here: finding the place. Not here: inserting tables and marts (`yaml_insert.py`), which edits there are (`refresh.py`).
Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from lake_assets.errors import LakeError
from lake_assets.schema.spelling import key


@dataclass(frozen=True, slots=True)
class Edit:
    """One column that is added or declared otherwise."""

    kind: Literal["add", "change"]
    column: str
    declaration: str
    after: str | None = None
    """The column behind which it is added; None for the first place."""

    def __str__(self) -> str:
        return f"{self.kind} column {self.column} as {self.declaration}"


def with_edits(text: str, keys: Sequence[str], edits: Sequence[Edit]) -> str:
    """The text with the edits of the mapping at `keys`. Raises LakeError if the columns are written in a way that the
    edits would change something else, too, such as a reference to another place."""
    refused = LakeError(f"{'.'.join(keys)} is not written as plain names and types: edit it by hand.")
    try:
        wanted, edited = _without_references(yaml.safe_load(text)), text
        for edit in edits:
            edited = _edited(edited, keys, edit)
            _at(wanted, keys)[edit.column] = edit.declaration
        if _without_references(yaml.safe_load(edited)) != wanted:
            raise refused
    except (yaml.YAMLError, LookupError, StopIteration, TypeError, ValueError):
        raise refused from None
    return edited


def _without_references(value: Any) -> Any:
    """A copy in which no part is shared."""
    if isinstance(value, dict):
        return {name: _without_references(held) for name, held in value.items()}
    return [_without_references(held) for held in value] if isinstance(value, list) else value


def _at(content: Any, keys: Sequence[str]) -> Any:
    for name in keys:
        content = content[name]
    return content


def _edited(text: str, keys: Sequence[str], edit: Edit) -> str:
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for name in keys:
        node = next(held for key_node, held in node.value if key_node.value == name)
    entries = node.value
    place = next((n for n, (name, _) in enumerate(entries) if name.value in (edit.after, edit.column)), None)
    if edit.kind == "change":
        held = entries[place][1]
        return text[: held.start_mark.index] + _quoted(edit.declaration) + text[held.end_mark.index :]
    entry = f"{key(edit.column)}: {_quoted(edit.declaration)}"
    if not node.flow_style:
        lines = text.split("\n")
        line = entries[0][0].start_mark.line if place is None else entries[place][1].end_mark.line + 1
        lines.insert(line, " " * entries[0][0].start_mark.column + entry)
        return "\n".join(lines)
    if place is None:
        at = entries[0][0].start_mark.index
        return f"{text[:at]}{entry}, {text[at:]}"
    at = entries[place][1].end_mark.index
    return f"{text[:at]}, {entry}{text[at:]}"


def _quoted(declaration: str) -> str:
    return f'"{declaration}"' if "," in declaration else declaration

"""Values of a generated lake.yaml that the user has to decide.

Here: recognising them, and one mistake for each decision. Not here: writing them (`onboarding/lake_yaml_text.py`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml

from lake_assets.config.base import UNDECIDED, Keys

_UNDECIDED = re.compile(rf"{UNDECIDED}( not null)?")


@dataclass(frozen=True, slots=True)
class Decision:
    """A place in a file that has to be decided; several keys may have it, by an alias."""

    line: int
    """From 1."""
    column: int
    reason: str | None
    """The comment there; None without one."""


def decision_at(node: yaml.Node, lines: Sequence[str]) -> Decision | None:
    """The decision that the node waits for; None if it is decided. `lines`: those of the node's file."""
    if not _UNDECIDED.fullmatch(str(node.value)):
        return None
    mark = node.end_mark
    rest = lines[mark.line][mark.column :] if mark.line < len(lines) else ""
    _, said, reason = rest.partition("#")
    return Decision(mark.line + 1, mark.column, reason.strip() if said else None)


def once_for_each_decision(
    refused: Iterable[tuple[Keys, str]], undecided: Mapping[Keys, Decision]
) -> Iterator[tuple[Keys, str]]:
    """The mistakes; those of undecided values with their line and the reason. Values of one decision are one
    mistake."""
    refused = list(refused)
    places: dict[int, list[Keys]] = {}
    for keys, _ in refused:
        if keys in undecided:
            places.setdefault(id(undecided[keys]), []).append(keys)
    for keys, text in refused:
        if keys not in undecided:
            yield keys, text
            continue
        decision = undecided[keys]
        first, *others = places[id(decision)]
        if keys == first:
            what = text if decision.reason is None else f"is undecided: {decision.reason}"
            more = f", which decides {len(others)} more" if others else ""
            yield keys, f"{what} (line {decision.line}{more})"

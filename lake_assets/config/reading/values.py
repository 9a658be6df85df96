"""The plain values of YAML nodes, with environment variables.

Here: `${NAME}`, `<<`, keys that are given twice, YAML's types. Not here: parsing (`nodes.py`), rules over settings (the
models of `config/`).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from lake_assets.config.aws import secret_references
from lake_assets.config.base import Keys
from lake_assets.config.reading.nodes import TAG
from lake_assets.config.reading.undecided import Decision, decision_at

_VARIABLE = re.compile(
    r"(?P<escaped>\$\$\{)|\$\{(?P<name>[A-Za-z_]\w*)(?P<default>:-(?:(?!\$\{)[^}])*)?\}"
    r"|(?P<secret>\$\{secret:[^{}]*\})|(?P<wrong>\$\{)",
    re.ASCII,
)


class Reading:
    """Converts nodes to plain values, and collects mistakes by their keys."""

    def __init__(self, environ: Mapping[str, str], lines: Sequence[str] = ()) -> None:
        """`lines`: those of the text."""
        self.mistakes: list[tuple[Keys, str]] = []
        self.undecided: dict[Keys, Decision] = {}
        """By value that is undecided; several keys have one decision by an alias."""
        self._environ = environ
        self._lines = lines
        self._decisions: dict[yaml.Node, Decision] = {}
        self._open: list[yaml.Node] = []

    def value(self, node: yaml.Node, keys: Keys) -> Any:
        if node in self._open:
            return self._wrong(keys, "contains itself through an alias")
        self._open.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, keys)
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item, (*keys, index)) for index, item in enumerate(node.value)]
            if (decision := decision_at(node, self._lines)) is not None:
                self.undecided[keys] = self._decisions.setdefault(node, decision)
            return self._scalar(str(node.value), node.tag.removeprefix(TAG), keys)
        finally:
            self._open.pop()

    def _mapping(self, node: yaml.MappingNode, keys: Keys) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        content: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._wrong(keys, f"line {key.start_mark.line + 1}: a key must be a single word or text")
            elif key.tag == f"{TAG}merge":
                for base in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    found = self.value(base, keys)
                    if isinstance(found, dict):
                        merged = {**found, **merged}
                    else:
                        self._wrong(keys, f"line {key.start_mark.line + 1}: << takes an alias of a mapping")
            elif key.value in content:
                line = key.start_mark.line + 1
                self._wrong(
                    (*keys, key.value), f"is given twice, on lines {lines[key.value]} and {line}; keep one"
                )
            else:
                lines[key.value] = key.start_mark.line + 1
                content[key.value] = self.value(value, (*keys, key.value))
        return {**merged, **content}

    def _scalar(self, text: str, kind: str, keys: Keys) -> Any:
        match kind:
            case "str" | "merge":
                return self._substituted(text, keys)
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int":
                return int(text, 0) if text.startswith(("0o", "0x")) else int(text)
            case "float":
                return float(re.sub(r"\.(inf|nan)$", r"\1", text.lower()))
        return self._wrong(keys, "has a YAML tag, which is not supported; quote a value that begins with !")

    def _substituted(self, text: str, keys: Keys) -> str | None:
        def replace(match: re.Match[str]) -> str:
            if match["escaped"]:
                return "${"
            if match["secret"]:
                if problem := secret_references.mistake(match[0], keys):
                    self._wrong(keys, problem)
                return match[0]
            if match["wrong"]:
                self._wrong(keys, "write ${NAME} or ${NAME:-default} for a variable, or $${ for a literal ${")
                return ""
            found = self._environ.get(match["name"])
            if match["default"] is not None:
                return found or match["default"].removeprefix(":-")
            if found is None:
                name = match["name"]
                self._wrong(
                    keys,
                    f"environment variable {name} is not set; export it, or write ${{{name}:-a default}}",
                )
            return found or ""

        result = _VARIABLE.sub(replace, text)
        whole = _VARIABLE.fullmatch(text)
        return None if whole and whole["default"] == ":-" and not result else result

    def _wrong(self, keys: Keys, text: str) -> None:
        self.mistakes.append((keys, text))

"""The files of tables that the sources of a lake.yaml include.

An included file has what lake.yaml has under `tables`, and nothing else, so it cannot include a file. Here: merging the
tables, and the place of each one's mistakes. Not here: the rules of a table (`config/tables.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lake_assets.config.base import Keys
from lake_assets.config.reading.undecided import Decision
from lake_assets.config.reading.values import Reading


@dataclass(slots=True)
class Included:
    """The tables that are not in lake.yaml itself."""

    files: dict[tuple[str, str], tuple[Path, yaml.Node]] = field(default_factory=dict)
    """By source and table, the file that has it, and that file's node."""
    mistakes: list[tuple[Keys, str]] = field(default_factory=list)
    undecided: dict[Keys, Decision] = field(default_factory=dict)

    def place(self, keys: Keys) -> str | None:
        """The file and line of a mistake at these keys; None if they are in lake.yaml."""
        match keys:
            case ("sources", str(source), "tables", str(table), *below) if (source, table) in self.files:
                file, node = self.files[source, table]
                return f"{file}, line {_line(node, (table, *below))}"
        return None

    def merge(
        self,
        content: dict[str, Any],
        folder: Path,
        root_of: Callable[[Path], tuple[yaml.Node, list[str]]],
        environ: Mapping[str, str],
    ) -> None:
        """Adds the tables of the included files to the content of a lake.yaml in this folder. `root_of` reads a file
        and its lines;
        what it raises is not caught."""
        sources = content.get("sources")
        for name, source in sources.items() if isinstance(sources, dict) else ():
            entries = source.get("include") if isinstance(source, dict) else None
            for entry in entries if isinstance(entries, list) else ():
                if isinstance(entry, str):
                    file = folder / Path(entry).expanduser()
                    root, lines = root_of(file)
                    self._merge_file(name, source, file, root, Reading(environ, lines))

    def _merge_file(
        self, name: str, source: dict[str, Any], file: Path, root: yaml.Node, reading: Reading
    ) -> None:
        above = ("sources", name, "tables")
        found = reading.value(root, above)
        if source.get("tables") is None:
            source["tables"] = {}
        tables = source["tables"]
        if not isinstance(found, dict) or not isinstance(tables, dict):
            self.mistakes.append(
                ((*above[:2], "include"), f"{file} must be a mapping of tables, as under `tables`")
            )
            return
        for table, config in found.items():
            if table in tables:
                held = self.files.get((name, table))
                other = str(held[0]) if held is not None else "lake.yaml"
                self.mistakes.append(((*above, table), f"is in {file} and in {other}; keep one"))
            else:
                tables[table] = config
                self.files[name, table] = (file, root)
        self.mistakes += reading.mistakes
        self.undecided |= reading.undecided


def _line(node: yaml.Node, keys: Keys) -> int:
    """The line, from 1, of the last of the keys that the node has."""
    line = node.start_mark.line
    for key in keys:
        if isinstance(node, yaml.MappingNode):
            pair = next(((name, value) for name, value in node.value if name.value == key), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
            line = node.start_mark.line
        else:
            break
    return int(line) + 1

"""Which folders, and which names in transaction files, belong to a table: its own, and those that its `folders` match.

Here: the rule, and its text beside a position. Not here: which of several tables has a folder (`config/source.py`).
Pure.
"""

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase

from lake_assets.table_name import TableName


@dataclass(frozen=True, slots=True)
class FolderRule:
    """The rule of one table."""

    table: TableName
    globs: tuple[str, ...] = ()
    ignore_case: bool = False

    def joins(self, folder: TableName) -> bool:
        """Whether the files in the folder are the table's, or the rows that name it as their table."""
        fold = str.casefold if self.ignore_case else str
        if fold(folder.schema) != fold(self.table.schema):
            return False
        name = fold(folder.table)
        return name == fold(self.table.table) or any(fnmatchcase(name, fold(glob)) for glob in self.globs)

    @property
    def text(self) -> str:
        """The rule without the table, as JSON; empty for a table that has only the folder of its name."""
        said = {"folders": list(self.globs), "ignore_case": self.ignore_case}
        said = {name: value for name, value in said.items() if value}
        return json.dumps(said) if said else ""

    @classmethod
    def parse(cls, table: TableName, text: str) -> "FolderRule":
        """The rule of a table from its `text`."""
        said = json.loads(text or "{}")
        return cls(table, tuple(said.get("folders", ())), said.get("ignore_case", False))
